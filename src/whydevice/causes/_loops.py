"""Loops that move their items and lose the moved copies: `for t in (x, y): t = t.to(device)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from .. import edits
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.passive import exactly
from ..evidence.scopes import Scope, bindings_of, dotted, own_nodes
from ..types import Edit


class LostMove(NamedTuple):
    """A move in a loop that reaches only the loop's own variable."""

    loop: ast.For
    statement: ast.Expr | ast.Assign
    call: ast.Call
    item: str

    @property
    def over(self) -> ast.expr:
        """What holds the items: `batch` of `batch.items()`."""
        if isinstance(self.loop.iter, ast.Call) and isinstance(self.loop.iter.func, ast.Attribute):
            return self.loop.iter.func.value
        return self.loop.iter


def lost_moves(evidence: Evidence, scope: Scope, names: set[str]) -> Iterator[LostMove]:
    """The lost moves to the wanted device in loops over a container, or a literal row, of these names."""
    for loop in own_nodes(scope.node):
        item = _item(loop) if isinstance(loop, ast.For) else None
        if item is None or not isinstance(loop, ast.For):
            continue
        for statement in [n for part in loop.body for n in ast.walk(part)]:
            call = _moves(statement, item)
            if call is None or not isinstance(statement, ast.Expr | ast.Assign):
                continue
            lost = LostMove(loop, statement, call, item)
            if not names & _held_around(lost, scope) or _read_below(lost, scope):
                continue
            if evidence.inference.moved_to(call, scope) == evidence.wanted:
                yield lost


def _item(loop: ast.For) -> str | None:
    """The variable that a loop gives each item of a container: `v` of `for k, v in batch.items()`."""
    target, over = loop.target, loop.iter
    if isinstance(over, ast.Call):
        if not isinstance(over.func, ast.Attribute) or over.args or over.keywords:
            return None
        if over.func.attr == "items" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            target = target.elts[1]
        elif over.func.attr != "values":
            return None
    return target.id if isinstance(target, ast.Name) else None


def _moves(statement: ast.AST, item: str) -> ast.Call | None:
    """The call of `item.to(...)` as a statement, or of `item = item.to(...)`."""
    call = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    if isinstance(statement, ast.Assign) and [dotted(t) for t in statement.targets] != [item]:
        return None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    return call if call.func.attr in ("to", "cuda") and dotted(call.func.value) == item else None


def _held(over: ast.expr) -> set[str]:
    parts = over.elts if isinstance(over, ast.Tuple | ast.List) else [over]
    return {name for name in map(dotted, parts) if name is not None}


def _held_around(lost: LostMove, scope: Scope) -> set[str]:
    """The names of what holds the items; where that is an item of a loop around it, of what holds that in turn."""
    found = _held(lost.over)
    for around in scope.source.ancestors(lost.loop):
        if around is scope.node:
            break
        if isinstance(around, ast.For) and found & set(_targets(around)):
            found |= _held(LostMove(around, lost.statement, lost.call, lost.item).over)
    return found


def _targets(loop: ast.For) -> Iterator[str]:
    return (node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name))


def _read_below(lost: LostMove, scope: Scope) -> bool:
    """Whether the moved copy is used after all: its name is read, or bound to another, below the move."""
    if isinstance(lost.statement, ast.Expr):
        return False
    end = (lost.statement.end_lineno or 0, lost.statement.end_col_offset or 0)
    return any(
        isinstance(n, ast.Name) and n.id == lost.item and (n.lineno, n.col_offset) >= end
        for n in own_nodes(scope.node)
    )


def keep_moved(scope: Scope, lost: LostMove) -> tuple[ast.AST, tuple[Edit, ...]] | None:
    """(the node, its edits) that put the moved copies where the loop took the items from."""
    source, over, text = scope.source, lost.over, _move(lost, scope)
    alone = len(lost.loop.body) == 1 and lost.loop.body[0] is lost.statement and not lost.loop.orelse
    if over is not lost.loop.iter:
        name = dotted(over)
        if name is None:
            return None
        keys = lost.loop.target.elts[0] if isinstance(lost.loop.target, ast.Tuple) else None
        if keys is None:
            return _keep_values(scope, lost, name)
        if not isinstance(keys, ast.Name):
            return None
        entry = f"{ast.unparse(over)}[{keys.id}]"
        if isinstance(lost.statement, ast.Assign):
            return lost.statement, edits.replace_node(source, lost.statement.targets[0], entry)
        start = source.start(lost.statement)
        return lost.statement, (source.edit(start, start, f"{entry} = "),)
    if not alone or "#" in source.segment(lost.loop):
        return None
    if isinstance(over, ast.Tuple | ast.List):
        names = [dotted(e) for e in over.elts]
        if len(names) < 2 or not all(n is not None and _own(n, scope) for n in names):
            return None
        line = f"{', '.join(map(str, names))} = {', '.join(f'{n}{text}' for n in names)}"
    else:
        held, name = try_evaluate(over, scope), dotted(over)
        if not exactly(held, list, tuple) or name is None or not _own(name, scope):
            return None
        moved = f"{lost.item}{text} for {lost.item} in {name}"
        line = f"{name} = [{moved}]" if type(held) is list else f"{name} = tuple({moved})"
    return lost.loop, (source.edit(source.start(lost.loop), source.end(lost.loop), line),)


def _keep_values(scope: Scope, lost: LostMove, name: str) -> tuple[ast.AST, tuple[Edit, ...]] | None:
    """`for v in d.values(): v.to(device)` as `for key, v in d.items(): d[key] = v.to(device)`."""
    source, over = scope.source, lost.loop.iter
    used = {n.id for n in own_nodes(scope.node) if isinstance(n, ast.Name)}
    key = next((word for word in ("key", "k", "field") if word not in used), None)
    if key is None or not isinstance(over, ast.Call) or not isinstance(over.func, ast.Attribute):
        return None
    start = source.start(lost.statement)
    kept = (
        edits.replace_node(source, lost.statement.targets[0], f"{name}[{key}]")
        if isinstance(lost.statement, ast.Assign)
        else (source.edit(start, start, f"{name}[{key}] = "),)
    )
    target = source.start(lost.loop.target)
    head = source.edit(target, target, f"{key}, ")
    return lost.statement, (head, *edits.replace_node(source, over, f"{name}.items()"), *kept)


def _move(lost: LostMove, scope: Scope) -> str:
    return scope.source.segment(lost.call)[len(scope.source.segment(lost.call.func.value)) :]  # type: ignore[attr-defined]


def _own(name: str, scope: Scope) -> bool:
    """Whether binding a name here rebinds it, rather than making a new local of a free variable."""
    if "." in name or not hasattr(scope.node, "args"):
        return True
    return scope.is_parameter(name) or name in bindings_of(scope.node)
