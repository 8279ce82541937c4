"""What happened: a metric, or a criterion of your own, keeps state on the CPU while the model runs on the GPU.

A module beside the model (a metric with counters, a criterion with learned weights) is not part of it: moving the
model does not move it.

How to recognise it: the module that failed belongs to no other module, and all of its state is on one device.

Before:

    accuracy = Accuracy(num_classes=3)

After:

    accuracy = Accuracy(num_classes=3).to(device)

Safe: a module's `.to()` works in place.
"""

from __future__ import annotations

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.operands import Held
from ._finding import Finding
from ._module_state import construction_finding, way_of_unmoved_receiver
from ._modules import moved_construction, state_kinds

NAME = "metric-state-on-cpu"
TITLE = "a metric's or criterion's state is not where its input is"
ORDER = 50


def find(evidence: Evidence) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None or not wrong.leaf.is_module:
        return _own_state(evidence)
    module, leaf = wrong.leaf.value, wrong.leaf
    kinds = state_kinds(module)
    if "parameter" in kinds or (leaf.device != wrong.device if kinds else not _moves_attributes(wrong.held)):
        return None
    return construction_finding(
        evidence,
        leaf.expression,
        f"`{leaf.expression}` keeps its state on {wrong.device}, but its input is on {evidence.wanted}",
        "a module of its own: moving the model does not move it",
    )


def _moves_attributes(held: Held | None) -> bool:
    """Whether a tensor is a plain attribute of a module whose class moves those itself, as torchmetrics' do."""
    if held is None or held.kind != "attribute" or not values.is_module(held.owner):
        return False
    return values.class_attribute(type(held.owner), "_apply") is not values.torch().nn.Module._apply


def _own_state(evidence: Evidence) -> Finding | None:
    """The failing frame is a method of a module whose own state is all on the wrong device (`self.weight`)."""
    wrong, way = evidence.wrong, way_of_unmoved_receiver(evidence)
    if wrong is None or way is None:
        return None
    steps, expression = way
    built = next((s for s in reversed(steps) if s.kind == "construct"), None)
    mend = moved_construction(evidence, steps)
    finding = Finding(
        culprit=wrong.leaf.expression,
        headline=f"`{wrong.leaf.expression}` is on {wrong.device}: `{expression}` was never moved to {evidence.wanted}",
        root=built,
        root_note=f"made here, on {wrong.device}, and never moved",
    )
    if mend is not None:
        finding.mends.append(mend)
        if built is None:
            finding.root_node, finding.root_scope = mend.node, mend.scope
    return finding
