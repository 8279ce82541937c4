"""A loader that was not handed to the `prepare()` of a library, which made the loader beside it move its batches."""

from __future__ import annotations

import ast
import os
from typing import Any, NamedTuple

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.infer import canonical
from ..evidence.libraries import is_library
from ..evidence.passive import class_module
from ..evidence.scopes import MISSING, Scope, bindings_of, dotted, own_nodes, position
from ..evidence.steps import Step
from ._finding import Mend

_PREPARE = ("prepare", "prepare_data_loader")
_SHARES = "in a run of several processes each then gets its share of the loader"


class Prepared(NamedTuple):
    """The statement that prepares a sibling, the names of the two loaders, and the mend."""

    sibling: str
    left_out: str
    mend: Mend


def left_out(evidence: Evidence, root: Step) -> Prepared | None:
    """The statement that prepared another loader of the same function and not the one that the batch came from."""
    loader = root.value
    torch = values.torch()
    if loader is MISSING or torch is None or not issubclass(type(loader), torch.utils.data.DataLoader):
        return None
    node, scope = _at_origin(root.node, root.scope)
    name = dotted(node)
    if name is None or scope.frame is None or not Step("use", node, scope).editable:
        return None
    for statement in own_nodes(scope.node):
        if not isinstance(statement, ast.Assign) or not _bound_above(name, statement, scope):
            continue
        sibling = _prepared_sibling(evidence, statement, loader, name, scope)
        if sibling is not None:
            made = _added(statement, name, scope)
            return Prepared(sibling, name, _mend(made, statement, scope)) if made else None
    return None


def _at_origin(node: ast.AST, scope: Scope) -> tuple[ast.AST, Scope]:
    """Where a loader has its name: out of the functions that were given it."""
    while isinstance(node, ast.Name) and node.id in scope.bound and node.id not in bindings_of(scope.node):
        argument = scope.bound[node.id]
        if argument.spread or argument.default:
            break
        node, scope = argument.node, argument.scope
    return node, scope


def _bound_above(name: str, statement: ast.Assign, scope: Scope) -> bool:
    """Whether the loader has its name before the statement, once and for all."""
    found = bindings_of(scope.node).get(name, [])
    return len(found) == 1 and found[0].position < position(statement)


def _prepared_sibling(
    evidence: Evidence, statement: ast.Assign, loader: Any, name: str, scope: Scope
) -> str | None:
    """The loader that a statement had prepared, by the live object: one of the library's, on the wanted device."""
    call = statement.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    owner = try_evaluate(call.func.value, scope)
    if call.func.attr not in _PREPARE or owner is MISSING or not _of_library(type(owner), evidence):
        return None
    package = class_module(type(owner)).partition(".")[0]
    given = [dotted(argument) for argument in call.args]
    bound = [dotted(target) for target in _targets(statement)]
    if None in given or given != bound or name in given or class_module(type(loader)).startswith(package):
        return None
    for target in _targets(statement):
        held = _now(target, scope)
        named = class_module(type(held)).partition(".")[0] == package and "Loader" in values.type_name(held)
        if named and canonical(values.lookup(values.instance_dict(held), "device")) == evidence.wanted:
            return dotted(target)
    return None


def _now(target: ast.expr, scope: Scope) -> Any:
    """What a target holds since the statement."""
    if isinstance(target, ast.Name):
        once = len(bindings_of(scope.node).get(target.id, [])) <= 2  # made, and prepared
        return scope.locals.get(target.id, MISSING) if once else MISSING
    return try_evaluate(target, scope)


def _targets(statement: ast.Assign) -> list[ast.expr]:
    target = statement.targets[0]
    return list(target.elts) if isinstance(target, ast.Tuple | ast.List) else [target]


def _of_library(cls: type, evidence: Evidence) -> bool:
    from ..evidence.attributes import class_source

    located = class_source(cls, evidence.sources)
    return located is not None and is_library(located[0].path)


def _added(statement: ast.Assign, name: str, scope: Scope) -> tuple[Any, ...]:
    source, call = scope.source, statement.value
    assert isinstance(call, ast.Call)
    if not isinstance(statement.targets[0], ast.Tuple | ast.List):
        return edits.insert_after(source, statement, f"{name} = {source.segment(call.func)}({name})")
    ends = source.end(_targets(statement)[-1]), source.end(call.args[-1])
    return tuple(source.edit(end, end, f", {name}") for end in ends)


def _mend(made: tuple[Any, ...], statement: ast.Assign, scope: Scope) -> Mend:
    title = "prepare this loader with the others"
    if os.environ.get("WORLD_SIZE", "1") in ("", "0", "1"):
        return Mend(title, made, statement.value, scope)
    return Mend(title, made, statement.value, scope, "unsafe", _SHARES)
