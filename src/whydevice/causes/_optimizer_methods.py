"""State that a method of the user's own optimizer made, and the parameter that it belongs to."""

from __future__ import annotations

import ast
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.infer import keyword
from ..evidence.scopes import Scope, bindings_of, own_nodes, reaching
from ..evidence.templates import is_written, may_be
from ._finding import Finding, Mend
from ._order import method_scopes


def stale_key(evidence: Evidence, optimizer: Any, tensor: Any) -> tuple[object, Any] | None:
    """(name of the state, parameter) whose tensor is on the wrong device while the parameter is not."""
    state = values.lookup(values.instance_dict(optimizer), "state")
    for parameter, entry in values.items(state):
        if not values.is_tensor(parameter) or values.device_of(parameter) != evidence.wanted:
            continue
        for key, held in values.items(entry):
            if type(key) is not str or key == "step" or not values.is_tensor(held):
                continue  # PyTorch keeps `step` on the CPU by design
            if tensor is not None and held is not tensor:
                continue
            if values.device_of(held) == evidence.wrong_device:
                return key, parameter
    return None


def put_in_by_method(evidence: Evidence, optimizer: Any) -> Finding | None:
    """The assignment in a method of the user's optimizer that put the wrong tensor into its state."""
    wrong = evidence.wrong
    tensor = wrong.held.tensor if wrong is not None and wrong.held is not None else None
    found = stale_key(evidence, optimizer, tensor) if tensor is not None else None
    if wrong is None or found is None:
        return None
    key = found[0]
    places = [
        p for scope in method_scopes(evidence, optimizer) for p in _state_assignments(evidence, scope, key)
    ]
    finding = Finding(
        culprit=wrong.expression,
        headline=f"`{wrong.expression}` (the optimizer's state {key!r}) is on {wrong.device}, but the parameter is on {evidence.wanted}",
    )
    if len(places) != 1:
        return None
    statement, scope, parameter = places[0]
    finding.root_node, finding.root_scope = statement, scope
    finding.root_note = f"put into the state on {wrong.device}"
    mend = _with_parameter(statement.value, parameter, scope)
    if mend is not None:
        finding.mends.append(mend)
    return finding


def _state_assignments(evidence: Evidence, scope: Scope, key: object) -> list[tuple[ast.Assign, Scope, str]]:
    """The assignments to `self.state[p][key]` that do not follow the parameter's device, with the text of `p`."""
    found = []
    for node in own_nodes(scope.node):
        if not (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Subscript)
        ):
            continue
        target = node.targets[0]
        if not (is_written(target.slice) and may_be(target.slice, str(key))):
            continue
        parameter = _parameter_of(target.value, scope) or _passed_beside(evidence, target.value, scope)
        if parameter is None or _follows(node.value, parameter):
            continue
        found.append((node, scope, parameter))
    return found


def _passed_beside(evidence: Evidence, base: ast.expr, scope: Scope) -> str | None:
    """Where the state of `p` is handed to a method: the parameter of it that is `p`, or lies where `p` does."""
    names = [a.arg for a in scope.parameters()]
    if not isinstance(base, ast.Name) or base.id not in names:
        return None
    found: set[str | None] = set()
    for caller in method_scopes(evidence, scope.receiver):
        for call in own_nodes(caller.node):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            if call.func.attr != scope.function or any(isinstance(a, ast.Starred) for a in call.args):
                continue
            given = {
                **dict(zip(names[1:], call.args, strict=False)),
                **{k.arg: k.value for k in call.keywords if k.arg},
            }
            state = given.get(base.id)
            parameter = _parameter_of(state, caller) if state is not None else None
            beside = (
                name for name, argument in given.items() if _lies_with(argument, parameter, caller, call)
            )
            found.add(next(beside, None))
    return found.pop() if len(found) == 1 else None


def _lies_with(argument: ast.expr, parameter: str | None, scope: Scope, call: ast.Call) -> bool:
    """Whether an argument is the parameter, its gradient or its data."""
    if isinstance(argument, ast.Name) and argument.id != parameter:
        bound = reaching(scope.source, bindings_of(scope.node).get(argument.id, []), call)
        if bound is None or bound.kind != "assign" or bound.path or bound.value is None:
            return False
        argument = bound.value
    if isinstance(argument, ast.Attribute) and argument.attr in ("grad", "data"):
        argument = argument.value
    return isinstance(argument, ast.Name) and argument.id == parameter


def _parameter_of(base: ast.expr, scope: Scope) -> str | None:
    """`p` of `self.state[p]`, or of `state` where the method bound it so."""
    if isinstance(base, ast.Name):
        for node in own_nodes(scope.node):
            if isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == base.id for t in node.targets
            ):
                return _parameter_of(node.value, scope) if not isinstance(node.value, ast.Name) else None
        return None
    if (
        isinstance(base, ast.Subscript)
        and isinstance(base.value, ast.Attribute)
        and base.value.attr == "state"
    ):
        return ast.unparse(base.slice) if isinstance(base.slice, ast.Name) else None
    return None


def _follows(value: ast.expr, parameter: str) -> bool:
    """Whether an expression makes its tensor where the parameter is."""
    for node in ast.walk(value):
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "device"
            and ast.unparse(node.value).startswith(parameter)
        ):
            return True
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr.endswith("_like")
        ):
            device = keyword(node, "device")
            return bool(node.args) and ast.unparse(node.args[0]).startswith(parameter) and device is None
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("clone", "detach", "new_zeros")
        ):
            return ast.unparse(node.func.value).split(".")[0] == parameter
    return False


FACTORIES = ("zeros", "ones", "full", "empty", "rand", "randn", "tensor")


def _with_parameter(value: ast.expr, parameter: str, scope: Scope) -> Mend | None:
    source = scope.source
    if isinstance(value, ast.Call) and ast.unparse(value.func) in [f"torch.{f}" for f in FACTORIES]:
        made = edits.add_keyword(source, value, "device", f"{parameter}.device", replace=True)
        return Mend("make it where the parameter is", made, value, scope)
    made = edits.append_method(source, value, f".to({parameter}.device)")
    return Mend("put it where the parameter is", made, value, scope)
