"""Edits that would lose an update: `x = x.to(device)` makes a copy, and what then changes `x` in place changes that."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ..source import Source
from ..types import Edit
from .scope import enclosing_function

_MOVES = ("to", "cuda", "cpu")


def lost_update(edits: Iterable[Edit], new: Source) -> str | None:
    """The name of a loop's item or a parameter that an edit replaces by its copy, and that is then changed in place.

    `new` is the edited text. What the function made itself may be replaced: nobody else holds it.
    """
    texts = [edit.text for edit in edits if edit.file == new.path]
    for statement in _nodes(new, texts):
        if not isinstance(statement, ast.Assign) or not any(_written(statement, text) for text in texts):
            continue
        for name in _moved(statement):
            function = enclosing_function(new, statement)
            if _given(name, statement, function, new) and _changed(name, statement, function or new.module):
                return name
    return None


def _nodes(new: Source, texts: list[str]) -> Iterator[ast.AST]:
    """The nodes of a text; of a long one, those of the parts in which the edits are."""
    if not new.long:
        yield from ast.walk(new.tree)
    else:
        for text in dict.fromkeys(text.strip() for text in texts if "=" in text):
            yield from new.nodes_with(text)


def _written(statement: ast.Assign, text: str) -> bool:
    return "=" in text and ast.unparse(statement).partition("=")[0].strip() in text


def _moved(statement: ast.Assign) -> list[str]:
    """The names that a statement replaces by a moved copy of themselves."""
    target, value = statement.targets[0], statement.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=False))
    found = []
    for one, other in pairs:
        func = other.func if isinstance(other, ast.Call) else None
        if isinstance(one, ast.Name) and isinstance(func, ast.Attribute) and func.attr in _MOVES:
            if isinstance(func.value, ast.Name) and func.value.id == one.id:
                found.append(one.id)
    return found


def _given(
    name: str, statement: ast.stmt, function: ast.FunctionDef | ast.AsyncFunctionDef | None, source: Source
) -> bool:
    """Whether a name is the item of a loop around a statement, or a parameter."""
    for up in source.ancestors(statement):
        if isinstance(up, ast.For | ast.AsyncFor):
            if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(up.target)):
                return True
    return function is not None and any(
        a.arg == name for a in ast.walk(function.args) if isinstance(a, ast.arg)
    )


def _changed(name: str, after: ast.stmt, within: ast.AST) -> bool:
    """Whether a name's value is changed in place below a statement."""
    for node in ast.walk(within):
        if getattr(node, "lineno", 0) < after.lineno or node is after:
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if method.endswith("_") and not method.startswith("_") and _root(node.func.value) == name:
                return True
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Attribute | ast.Subscript) and _root(target) == name:
                    return True
                if isinstance(node, ast.AugAssign) and isinstance(target, ast.Name) and target.id == name:
                    return True
    return False


def _root(node: ast.AST) -> str | None:
    """The name that `x.data[0]` starts with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
