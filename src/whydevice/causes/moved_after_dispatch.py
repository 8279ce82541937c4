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
from ..evidence.scopes import Scope, own_nodes, position
from ._finding import Finding, Mend
from ._moves import moves_in
from ._order import moved, user_scopes, value_now

NAME = "moved-after-dispatch"
TITLE = "a model that had been spread over devices was moved"
ORDER = 8


def find(evidence: Evidence) -> Finding | None:
    for scope in user_scopes(evidence, []):
        for call in sorted(moves_in(own_nodes(scope.node)), key=position, reverse=True):
            model = value_now(moved(call), scope)
            if not values.is_module(model):
                continue
            part = next(_displaced(model), None)
            target = evidence.inference.moved_to(call, scope)
            if part is None or target is None or target != part[2]:
                continue
            return _finding(scope, call, *part)
    return None


def _displaced(model: Any) -> Iterator[tuple[str, str, str]]:
    """(part, the map's device, where it is) of the parts that are not where the device map has them."""
    mapped = values.lookup(values.instance_dict(model), "hf_device_map")
    parts = dict(values.submodules(model))
    for name, device in values.items(mapped):
        wanted = canonical(f"cuda:{device}" if type(device) is int else device)
        actual = values.module_device(parts[name]) if type(name) is str and name in parts else None
        if wanted is not None and actual is not None and wanted.startswith("cuda") and actual != wanted:
            yield str(name), wanted, actual


def _finding(scope: Scope, call: ast.Call, part: str, wanted: str, actual: str) -> Finding:
    text = scope.source.one_line(moved(call))
    finding = Finding(
        culprit=text,
        headline=f"`{text}` was spread over devices and then moved: its part {part!r} belongs on {wanted} and is on {actual}",
        root_node=call,
        root_scope=scope,
        root_note="moves a model that its device map has placed already",
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
