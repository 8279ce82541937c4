"""What happened: a whole module is still on the CPU, and its input is on the GPU.

A second network (a target, a teacher, a discriminator), a copy made before the first was moved, or a model whose
`.to(device)` was applied to something else.

How to recognise it: every parameter and buffer of the module that was called is on one device, the input on another.

Before:

    self.target = copy.deepcopy(self.net)

After:

    self.target = copy.deepcopy(self.net).to(device)

Safe: a module's `.to()` works in place and keeps its parameters' identity, so an optimizer made earlier still sees them.
"""

from __future__ import annotations

import ast

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.scopes import MISSING
from ..evidence.steps import Step
from ._facts import owners
from ._finding import Finding
from ._module_state import construction_finding, is_network, unmoved_receiver, whole_module
from ._modules import attribute_now
from ._offload import is_managed

NAME = "module-not-moved"
TITLE = "a whole module was never moved"


def _placed(evidence: Evidence, module: object) -> bool:
    """Whether the module is a part of one that was spread over several GPUs on purpose: never a `.to()` there."""
    if "cpu" in (evidence.wanted, evidence.wrong_device):
        return False
    for owner, _, _ in owners(evidence):
        if values.is_module(owner) and owner is not module and len(values.module_devices(owner)) > 1:
            return True
    return evidence.wrong is not None and evidence.wrong.leaf.value is not module


def _named_at(step: Step) -> tuple[object, str]:
    """(what a step's expression, or the attribute that it is about, holds; how the source writes that)."""
    if step.kind == "attribute" and step.owner is not MISSING and step.scope.parameters():
        return attribute_now(step.owner, step.name), f"{step.scope.parameters()[0].arg}.{step.name}"
    return try_evaluate(step.node, step.scope), step.scope.source.one_line(step.node)


def _of_parameter(evidence: Evidence) -> Finding | None:
    """State by itself (in a loop over `.parameters()` or `.state_dict()`), of a module that is there as a whole."""
    wrong = evidence.wrong
    if wrong is None or evidence.wanted in (None, "cpu", "meta") or wrong.device != "cpu":
        return None
    tensor, node = wrong.leaf.value, wrong.leaf.node
    if isinstance(node, ast.Attribute) and node.attr == "data":
        tensor = try_evaluate(node.value, wrong.leaf.scope)  # an update of `p.data` is one of p
    if not values.is_tensor(tensor):
        return None
    memory = values.storage_key(tensor)
    for step in evidence.steps:
        module, name = _named_at(step)
        if not values.is_module(module) or values.module_device(module) != wrong.device:
            continue
        if is_managed(evidence, module):
            return None
        if memory is None or all(
            values.storage_key(t) != memory for _, t, _ in values.module_tensors(module)
        ):
            continue
        kind = values.type_name(module)
        return construction_finding(
            evidence,
            wrong.expression,
            f"`{wrong.expression}` is on {wrong.device}, as all of `{name}` ({kind}) is; the other operand is on {evidence.wanted}",
            f"made here, on {wrong.device}, and never moved",
        )
    return None


def _of_own_state(evidence: Evidence) -> Finding | None:
    """A method of a network failed of what it keeps itself (`self.mean`), and all of the network is there."""
    user = evidence.user
    if user is None or not is_network(user.receiver) or evidence.wanted in (None, "cpu", "meta"):
        return None
    if is_managed(evidence, user.receiver) or len(values.module_devices(user.receiver)) != 1:
        return None
    return unmoved_receiver(evidence)


def find(evidence: Evidence) -> Finding | None:
    found = whole_module(evidence)
    if found is None:
        return _of_own_state(evidence) or _of_parameter(evidence)
    expression, module, _ = found
    if (
        evidence.wrong_device == "meta"
        or evidence.error.family.startswith(("N5", "N6"))
        or _placed(evidence, module)
        or is_managed(evidence, module)
    ):
        return None
    kind = values.type_name(module)
    finding = construction_finding(
        evidence,
        expression,
        f"`{expression}` ({kind}) is on {evidence.wrong_device}, but its input is on {evidence.wanted}"
        if values.is_module(module)
        else f"`{expression}` is on {evidence.wrong_device}",
        f"made here, on {evidence.wrong_device}, and never moved",
    )
    whole = evidence.wrong.leaf if evidence.wrong is not None else None
    if (
        finding is not None
        and whole is not None
        and whole.is_module
        and evidence.wanted in values.module_devices(whole.value)
    ):
        finding.certainty = "likely"  # the module that holds it was moved: it came later, or was moved back
        finding.root_note = (
            f"made on {evidence.wrong_device}; other parts of `{whole.expression}` are on {evidence.wanted}"
        )
    return finding
