"""What happened: the tensor was on the right device, and a `.cpu()` or `.to("cpu")` took it away.

How to recognise it: on the way from where the tensor was made to where it failed stands a call that moves it to the CPU.

Before:

    hidden = encoder(x).cpu()
    logits = head(hidden)

After:

    hidden = encoder(x)
    logits = head(hidden)

Unsafe: the same value may be wanted on the CPU elsewhere (for NumPy, or to save memory).
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence.collect import Evidence
from ..evidence.steps import Step
from ._finding import Finding, Mend
from ._values_shared import has

NAME = "stray-cpu-call"
TITLE = "a call moved the tensor away from the wanted device"
ORDER = 35


def find(evidence: Evidence) -> Finding | None:
    step = has(evidence, "move")
    if step is None or step is not evidence.root or step.extra.get("to") != evidence.wrong_device:
        return None
    if not isinstance(step.node, ast.Call) or evidence.wanted == "cpu":
        return None
    finding = Finding(
        headline=f"`{evidence.wrong.expression if evidence.wrong else step.text()}` was moved to {evidence.wrong_device}, but it is used on {evidence.wanted}",
        root_node=step.node,
        root_scope=step.scope,
        root_note=f"moved to {evidence.wrong_device} here",
    )
    if step.editable:
        finding.mends.append(_mend(evidence, step.node, step))
    return finding


def _mend(evidence: Evidence, call: ast.Call, step: Step) -> Mend:
    from ._moves import best_anchor

    source = step.scope.source
    receiver = evidence.inference.device(call.func.value, step.scope)  # type: ignore[attr-defined]
    if receiver == evidence.wanted:
        reason = f"takes away a move to {evidence.wrong_device} that may be wanted elsewhere"
        return Mend(
            "take the move away", edits.delete_method_call(source, call), call, step.scope, "unsafe", reason
        )
    anchor = best_anchor(evidence, step.scope, call)
    target = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "device"), None)
    if anchor is not None and target is not None:
        return Mend(
            "move it to where it is used", edits.replace_node(source, target, anchor.text), call, step.scope
        )
    if anchor is not None:
        return Mend(
            "move it to where it is used",
            edits.append_method(source, call, f".to({anchor.text})"),
            call,
            step.scope,
        )
    return Mend(
        "take the move away",
        edits.delete_method_call(source, call),
        call,
        step.scope,
        "unsafe",
        "it may be wanted elsewhere",
    )
