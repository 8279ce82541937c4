"""What happened: a model that was spread over several devices (`device_map`, accelerate's hooks) was moved afterwards.

The map and the hooks still send each part's input to the part's old device.

How to recognise it: the model has an `hf_device_map`, and a part is not on the device that the map names.

Before:

    model = model.to(device)

After: without that line.

Safe: the dispatch has placed every part already.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.infer import canonical
from ..evidence.scopes import MISSING, Scope, own_nodes, position
from ._facts import owners
from ._finding import Finding, Mend
from ._moves import moves_in
from ._order import moved, value_now
from ._user_calls import every_scope

NAME = "moved-after-dispatch"
TITLE = "a model that had been spread over devices was moved"


def find(evidence: Evidence) -> Finding | None:
    placed = [owner for owner, _, _ in owners(evidence) if values.is_module(owner)]
    for scope in every_scope(evidence):
        for call in sorted(moves_in(own_nodes(scope.node)), key=position, reverse=True):
            held = _moved_module(call, scope)
            if held is MISSING:
                continue
            target = evidence.inference.moved_to(call, scope) or values.module_device(held)
            inside = {id(sub) for _, sub in values.submodules(held)}
            for model in [held, *(m for m in placed if m is not held)]:
                for name, part, wanted, actual in _displaced(model):
                    if id(part) in inside and target == actual:
                        return _finding(scope, call, name, wanted, actual)
    return None


def _moved_module(call: ast.Call, scope: Scope) -> Any:
    """The module that a move moved, as it was or as what it was bound to; MISSING when it was none."""
    statement = scope.source.statement(call)
    held = value_now(moved(call), scope)
    if held is MISSING and isinstance(statement, ast.Assign) and statement.value is call:
        held = value_now(statement.targets[0], scope)
    return held if values.is_module(held) else MISSING


def _displaced(model: Any) -> Iterator[tuple[str, Any, str, str]]:
    """(name, part, where it belongs, where it is) of the parts that are not where a map or a hook has them."""
    mapped = values.lookup(values.instance_dict(model), "hf_device_map")
    parts = dict(values.submodules(model))
    for name, device in values.items(mapped):
        if type(name) is str and name in parts:
            yield from _elsewhere(name, parts[name], device)
    hooked = [(path, sub, held) for path, sub, key, held in values.plain_state(model) if key == "_hf_hook"]
    for name, part, held in hooked:
        hook = values.instance_dict(held)
        if values.lookup(hook, "offload") is not True:
            yield from _elsewhere(name, part, values.lookup(hook, "execution_device"))


def _elsewhere(name: str, part: Any, device: object) -> Iterator[tuple[str, Any, str, str]]:
    wanted = canonical(device)
    if wanted is None or not wanted.startswith("cuda"):
        return
    actual = values.module_device(part)
    if actual is not None and actual != wanted:
        yield name, part, wanted, actual


def _finding(scope: Scope, call: ast.Call, part: str, wanted: str, actual: str) -> Finding:
    text = scope.source.one_line(moved(call))
    spread = (
        f"spread over devices and then moved: its part `{part}`"
        if part
        else "placed by a device map and then moved: it"
    )
    finding = Finding(
        culprit=text,
        headline=f"`{text}` was {spread} belongs on {wanted} and is on {actual}",
        root_node=call,
        root_scope=scope,
        root_note="moves what a device map has placed already",
    )
    statement = scope.source.statement(call)
    source = scope.source
    alone = isinstance(statement, ast.Expr) and statement.value is call
    rebound = (
        isinstance(statement, ast.Assign)
        and statement.value is call
        and ast.unparse(statement.targets[0]) == text
    )
    if statement is not None and (alone or rebound):
        finding.mends.append(
            Mend("take the move away", edits.delete_statement(source, statement), call, scope)
        )
    else:
        finding.mends.append(Mend("take the move away", edits.delete_method_call(source, call), call, scope))
    return finding
