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
from ._module_state import construction_finding, is_network, unmoved_receiver
from ._modules import state_kinds

NAME = "metric-state-on-cpu"
TITLE = "a metric's or criterion's state is not where its input is"


def find(evidence: Evidence) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None or not wrong.leaf.is_module:
        user = evidence.user
        if user is None or is_network(user.receiver):
            return None
        return unmoved_receiver(evidence)
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
