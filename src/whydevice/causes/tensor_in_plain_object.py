"""What happened: an object that is no module keeps a tensor, so nothing moved it.

A noise schedule, a replay buffer, a distribution, a loss class of your own that is no nn.Module: `model.to(device)` does
not know of it, and it has no `.to()`.

How to recognise it: the failing tensor is an attribute of a plain object, assigned where the object was made.

Before:

    class Schedule:
        def __init__(self, steps):
            self.betas = torch.linspace(1e-4, 0.02, steps)

After:

    class Schedule:
        def __init__(self, steps):
            self.betas = torch.linspace(1e-4, 0.02, steps, device="cuda")

Safe where the object is used on this device only. Giving the class a `device` parameter is the better long-term answer.
"""

from __future__ import annotations

import ast

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.scopes import MISSING
from ..evidence.steps import Step
from ._finding import Finding
from ._mend import mend_value
from ._objects import after_construction
from ._values_shared import together, value_finding

NAME = "tensor-in-plain-object"
TITLE = "a tensor kept by an object that is no module was not moved"


def find(evidence: Evidence) -> Finding | None:
    if evidence.wanted == "cpu":
        return None
    step = next((s for s in evidence.steps if s.kind == "attribute" and _is_plain_object(s)), None)
    root = evidence.root
    if step is None or root is None or not step.editable:
        return _kept_by_module(evidence) or _itself(evidence)
    if _computed_from_it(evidence, step):
        return None
    made = root.kind in ("factory", "constructor", "like")
    after = after_construction(evidence, step)
    if not made or _has_device(root) or _came_in(evidence.steps, step):
        if (
            after is None
            or _has_device(root)
            or isinstance(step.node, ast.Name | ast.Attribute | ast.Subscript)
        ):
            return None
    mend = mend_value(evidence, evidence.steps) if made and not _came_in(evidence.steps, step) else None
    finding = Finding(
        certainty="certain" if evidence.wrong is not None and evidence.wrong.proven else "likely",
        root_node=root.node if made and root.editable else step.node,
        root_scope=root.scope if made and root.editable else step.scope,
        root_note="kept in an object that .to() does not reach",
    )
    if after is not None and (mend is None or mend.node is not root.node):
        finding.trail.append((step.node, step.scope, finding.root_note))
        finding.root_node, finding.root_scope = after.node, after.scope
        finding.root_note = "made here, and nothing moved its tensors"
        finding.mends.append(after)
        return finding
    if mend is not None:
        together(evidence, mend)
        finding.mends.append(mend)
        if mend.scope.source is step.scope.source and step.extra.get("method") not in (
            "__init__",
            "__post_init__",
        ):
            finding.root_node, finding.root_scope = mend.node, mend.scope
    return finding


def _kept_by_module(evidence: Evidence) -> Finding | None:
    """An object that was handed to a module and is kept by it: `model.to()` reaches neither it nor its tensors."""
    wrong = evidence.wrong
    node = wrong.leaf.node if wrong is not None else None
    if wrong is None or not wrong.proven or not isinstance(node, ast.Attribute):
        return None
    owner = try_evaluate(node.value, wrong.leaf.scope)
    if values.is_module(owner) or values.is_tensor(owner) or values.is_container(owner):
        return None
    receivers = [scope.receiver for scope in evidence.tracer.live if values.is_module(scope.receiver)]
    if not any(held is owner for r in receivers for _, held in values.named(values.instance_dict(r))):
        return None
    mend = after_construction(evidence, Step("attribute", node, wrong.leaf.scope, owner=owner))
    if mend is None:
        return None
    return Finding(
        certainty="likely",
        root_node=mend.node,
        root_scope=mend.scope,
        root_note="made here; the module that keeps it does not move its tensors",
        mends=[mend],
    )


def _itself(evidence: Evidence) -> Finding | None:
    """The operand is the object: a distribution, made of tensors that were made without a device."""
    wrong, root = evidence.wrong, evidence.root
    if wrong is None or root is None or root.kind not in ("factory", "constructor") or not root.editable:
        return None
    held = wrong.leaf.value
    if held is MISSING or values.is_tensor(held) or values.is_module(held) or values.is_container(held):
        return None
    if not any(s.kind == "construct" or "construct" in s.extra for s in evidence.steps):
        return None
    return value_finding(evidence, "kept in an object that .to() does not reach", root)


def _computed_from_it(evidence: Evidence, step: Step) -> bool:
    """Whether the tensor that failed is another one than the object keeps: one that was computed from it, so that
    what became of the devices on the way is not known."""
    tensor = evidence.wrong.tensor if evidence.wrong is not None else MISSING
    if not values.is_tensor(tensor) or not values.is_tensor(step.value):
        return False
    return values.storage_key(tensor) != values.storage_key(step.value)


def _came_in(steps: list[Step], attribute: Step) -> bool:
    """Whether the object was handed the tensor, rather than making it: then it is an input that was not moved."""
    return any(s.kind == "parameter" for s in steps[steps.index(attribute) :])


def _has_device(root: Step) -> bool:
    return any(getattr(k, "arg", None) == "device" for k in getattr(root.node, "keywords", []))


def _is_plain_object(step: Step) -> bool:
    """An attribute of an object that is no module, or an object without `.to()` in a module's attribute."""
    if not values.is_module(step.owner):
        return (step.owner is not None and not values.is_tensor(step.value)) or values.is_tensor(step.value)
    held = step.value
    return not values.is_tensor(held) and not values.is_module(held) and not values.is_container(held)
