"""How sure an explanation may be: `certain` only where every link, from the failing operand to the edit, is proven.

A cause says how sure it is of its own premise. What all causes rest on is judged here, in one place: that the
culprit was recognised by identity (else `possible`: it may be another one), and that the way back from it has no gap
(else `likely`: it is this one, but where it was made, or what is best edited, was not proven).
"""

from __future__ import annotations

import ast
import os
import sys

from .causes._finding import Finding
from .evidence.collect import Evidence
from .evidence.operands import flat
from .evidence.scopes import MISSING
from .evidence.steps import Step
from .types import Certainty

ORDER: tuple[Certainty, ...] = ("possible", "likely", "certain")
PROVEN_SIDES = ("wording", "meta", "accelerator", "module")
"""Why a device is the wanted one, where that is no matter of counting (`Evidence.direction`)."""
SAME_PROCESS = ("TorchScript interpreter", "torch.compile")
"""Envelopes whose error has the frames of the user's call all the same."""
GAPS = ("unknown", "library", "derived", "call")
"""Kinds of step at which a way breaks off."""


def certainty(evidence: Evidence, finding: Finding) -> Certainty:
    """The finding's own certainty, lowered to what the evidence carries."""
    return min(finding.certainty, _of_culprit(evidence, finding), _of_way(evidence, finding), key=ORDER.index)


def _of_culprit(evidence: Evidence, finding: Finding) -> Certainty:
    if evidence.error.envelope not in (None, *SAME_PROCESS):
        return "likely"  # its frames are text: nothing can be recognised in them
    wrong = evidence.wrong
    if evidence.user is None or (wrong is None and finding.culprit is None):
        return "likely"  # what cannot be pointed at is not proven
    if finding.either or wrong is None or finding.culprit not in (None, wrong.expression):
        return "certain"  # the cause rests on evidence of its own
    if not {evidence.wanted, evidence.wrong_device} <= wrong.leaf.devices():
        if evidence.direction == "name":
            return "likely"
        if evidence.direction not in PROVEN_SIDES:
            return "possible"
    if wrong.proven:
        return "certain"
    return "likely" if _only_one_left(evidence) else "possible"


def _only_one_left(evidence: Evidence) -> bool:
    """Whether every other operand of the call is known to be where it should be, so that the culprit is the one."""
    wrong = evidence.wrong
    assert wrong is not None
    inside = {id(node) for node in ast.walk(wrong.leaf.node)}
    others = [one for one in flat(evidence.leaves) if one is not wrong.leaf and id(one.node) not in inside]
    around = [one for one in others if wrong.leaf.node in ast.walk(one.node)]
    judged = [one for one in others if one not in around]
    return wrong.leaf.value is MISSING and all(
        evidence.wrong_device not in one.devices() and (one.value is not MISSING or one.device is not None)
        for one in judged
    )


def _of_way(evidence: Evidence, finding: Finding) -> Certainty:
    steps = walked(evidence, finding)
    if any(step.extra.get("unsure") for step in steps):
        return "likely"
    if steps and steps[-1].kind in GAPS:
        return "likely"
    if finding.root is None and finding.root_node is None:
        return "likely"
    return "certain" if not steps or _as_noted(evidence) else "likely"


def _as_noted(evidence: Evidence) -> bool:
    """Whether the line that `--trace` noted for the wrong tensor, if it noted one, is on the way."""
    tracing = sys.modules.get("whydevice.evidence.tracing")
    wrong = evidence.wrong
    if tracing is None or wrong is None:
        return True
    noted = tracing.place_of(wrong.tensor)
    return noted is None or any(
        step.file == os.path.abspath(noted[0])
        and step.line <= noted[1] <= int(getattr(step.node, "end_lineno", None) or step.line)
        for step in evidence.steps
    )


def walked(evidence: Evidence, finding: Finding) -> list[Step]:
    """The steps from the failing operand to the root that the finding names; none, if it found that otherwise."""
    root = finding.root_node if finding.root_node is not None else getattr(finding.root, "node", None)
    for at, step in enumerate(evidence.steps):
        if step is finding.root or (root is not None and root in (step.node, step.stmt)):
            return evidence.steps[: at + 1]
    return evidence.steps if finding.headline is None else []
