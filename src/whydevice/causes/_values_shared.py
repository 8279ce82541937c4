"""What the causes about single tensors share: a headline, a root, and the general mend."""

from __future__ import annotations

from ..evidence.collect import Evidence
from ..evidence.steps import Step
from ._finding import Finding
from ._mend import mend_value


def value_finding(evidence: Evidence, note: str, root: Step | None = None) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None:
        return None
    finding = Finding(certainty="certain" if wrong.proven else "likely", culprit=wrong.expression, root_note=note)
    mend = mend_value(evidence, evidence.steps)
    if mend is not None:
        finding.mends.append(mend)
        finding.root_node, finding.root_scope = mend.node, mend.scope
    else:
        finding.root = root or evidence.root
    return finding


def has(evidence: Evidence, *kinds: str) -> Step | None:
    """The last step of one of these kinds."""
    return next((s for s in reversed(evidence.steps) if s.kind in kinds), None)
