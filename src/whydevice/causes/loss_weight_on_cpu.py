"""What happened: a loss keeps a weight tensor, and the loss was never moved.

`nn.CrossEntropyLoss(weight=w)` and `nn.BCEWithLogitsLoss(pos_weight=w)` register the weights as buffers of the loss
module. Moving the model does not move the loss, which is a module of its own.

How to recognise it: logits and targets are on the GPU, and the argument on the CPU is `weight` or `pos_weight`.

Before:

    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0]))

After:

    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0])).to(device)

Safe: a loss has no other state than its weights.
"""

from __future__ import annotations

import sys
from typing import Any

from ..evidence import values
from ..evidence.collect import Evidence
from ._finding import Finding
from ._module_state import construction_finding, whole_module

NAME = "loss-weight-on-cpu"
TITLE = "the weights of a loss are not where its input is"
ORDER = 40


def is_loss(module: Any) -> bool:
    """Whether a module is one of torch.nn's losses, by its class and not by its name."""
    loss = sys.modules.get("torch.nn.modules.loss")
    base = getattr(loss, "_Loss", None)
    return base is not None and issubclass(type(module), base)


def find(evidence: Evidence) -> Finding | None:
    found = whole_module(evidence)
    if found is None or not is_loss(found[1]):
        return None
    expression, module, _ = found
    names = " and ".join(f"`{path}`" for path, _, _ in values.module_tensors(module))
    return construction_finding(
        evidence,
        expression,
        f"{names} of `{expression}` is on {evidence.wrong_device}, but its input is on {evidence.wanted}",
        "the loss keeps its weights as buffers, and was never moved",
    )
