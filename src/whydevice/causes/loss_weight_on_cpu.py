"""What happened: a loss keeps a weight tensor, and the loss was never moved.

`nn.CrossEntropyLoss(weight=w)` and `nn.BCEWithLogitsLoss(pos_weight=w)` register the weights as buffers of the loss
module. Moving the model does not move the loss, which is a module of its own.

How to recognise it: logits and targets are on the GPU, and the argument on the CPU is `weight` or `pos_weight`.
So it is with a tensor that a loss of your own keeps as a plain attribute, where nothing moves that loss.

Before:

    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0]))

After:

    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0])).to(device)

Safe: a loss has no other state than its weights.
"""

from __future__ import annotations

import ast
import sys
import types
from typing import Any

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.passive import bases, class_name
from ._finding import Finding
from ._module_state import construction_finding, follows_a_move, whole_module
from ._modules import appended_move
from ._values_shared import made_note, value_finding

NAME = "loss-weight-on-cpu"
TITLE = "the weights of a loss are not where its input is"


def is_loss(module: Any) -> bool:
    """Whether a module is one of torch.nn's losses, by its class and not by its name."""
    loss = sys.modules.get("torch.nn.modules.loss")
    base = getattr(loss, "_Loss", None)
    return base is not None and issubclass(type(module), base)


def _passed(evidence: Evidence, module: Any) -> Finding | None:
    """A loss made anew in the failing function: the tensor that it is given, by identity, is the one to move."""
    user = evidence.user
    built = next((s for s in reversed(evidence.steps) if s.kind == "construct"), None)
    if user is None or built is None or built.scope is not user or not hasattr(user.node, "args"):
        return None
    state = {values.storage_key(tensor) for _, tensor, _ in values.module_tensors(module)}
    assert isinstance(built.node, ast.Call)
    for argument in [*built.node.args, *(k.value for k in built.node.keywords)]:
        held = try_evaluate(argument, built.scope)
        if not values.is_tensor(held) or values.storage_key(held) not in state:
            continue
        text = built.scope.source.one_line(argument)
        steps = evidence.trace(argument, built.scope)
        finding = Finding(
            culprit=text,
            headline=f"`{text}` is on {evidence.wrong_device}, but the loss gets it with an input on {evidence.wanted}",
            root=next((s for s in steps if s.kind == "assign"), steps[-1]),
            root_note=f"made here, on {evidence.wrong_device}",
        )
        mend = appended_move(evidence, argument, built.scope, "move it where it is passed")
        if mend is not None:
            finding.mends.append(mend)
        return finding
    return None


def _functional(evidence: Evidence) -> Finding | None:
    """`F.cross_entropy(logits, target, weight=w)`: the weight itself is a tensor of the user's."""
    wrong, call = evidence.wrong, evidence.node
    if wrong is None or not isinstance(call, ast.Call) or wrong.leaf.is_module or evidence.wanted == "cpu":
        return None
    function = try_evaluate(call.func, wrong.leaf.scope)
    module = sys.modules.get("torch.nn.functional")
    if type(function) is not types.FunctionType or function.__globals__ is not getattr(
        module, "__dict__", None
    ):
        return None
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    role = wrong.leaf.role or ""
    name = names[int(role)] if role.isdigit() and int(role) < len(names) else role
    if name not in ("weight", "pos_weight") or not {"input", "target"} <= set(names):
        return None
    root = evidence.root
    note = made_note(root) if root is not None and root.kind in ("factory", "constructor") else "not moved"
    return value_finding(evidence, note)


def _plain(evidence: Evidence) -> Finding | None:
    """A loss of the user's that keeps the tensor as a plain attribute, and that nothing moves."""
    if evidence.wrong is None or evidence.wanted == "cpu" or evidence.wrong.leaf.is_module:
        return None
    kept = next((s for s in evidence.steps if s.kind == "attribute" and values.is_module(s.owner)), None)
    root = evidence.root
    if kept is None or root is None or kept.extra.get("held") != "attribute":
        return None
    if not (is_loss(kept.owner) or _named_loss(kept.owner)):
        return None
    if (
        not values.is_tensor(kept.value)
        or not values.is_leaf(kept.value)
        or follows_a_move(evidence, kept.owner)
    ):
        return None
    note = made_note(root) if root.kind in ("factory", "constructor") else f"on {evidence.wrong_device} here"
    return value_finding(evidence, note, root)


def _named_loss(module: Any) -> bool:
    """Whether a class of the user's says that it is a loss; torch.nn's own are told by their base."""
    return any(class_name(c).lower().endswith(("loss", "criterion")) for c in bases(type(module)))


def find(evidence: Evidence) -> Finding | None:
    found = whole_module(evidence)
    if found is None:
        return _functional(evidence) or _plain(evidence)
    if not is_loss(found[1]):
        return None
    expression, module, _ = found
    passed = _passed(evidence, module)
    if passed is not None:
        return passed
    names = " and ".join(f"`{path}`" for path, _, _ in values.module_tensors(module))
    return construction_finding(
        evidence,
        expression,
        f"{names} of `{expression}` is on {evidence.wrong_device}, but its input is on {evidence.wanted}",
        "the loss keeps its weights as buffers, and was never moved",
    )
