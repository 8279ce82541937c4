"""Shared by the tests of edits: find a node, make the edits, return the new text."""

from __future__ import annotations

import ast
from collections.abc import Callable

from whydevice.edits import Source, plan
from whydevice.types import Edit

PATH = "a.py"


def node(source: Source, kind: type, index: int = 0, **attributes: object) -> ast.AST:
    """The index-th node of a type, in the order of the text, whose attributes are the given ones."""
    found = [
        n
        for n in ast.walk(source.tree)
        if isinstance(n, kind) and all(getattr(n, k) == v for k, v in attributes.items())
    ]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))[index]


def call(source: Source, name: str, index: int = 0) -> ast.Call:
    """The index-th call of a function or method of that name."""
    found = [
        n
        for n in ast.walk(source.tree)
        if isinstance(n, ast.Call) and (getattr(n.func, "attr", None) or getattr(n.func, "id", None)) == name
    ]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))[index]


def edited(text: str, make: Callable[[Source], tuple[Edit, ...]]) -> str:
    """The text after the edits that `make` returns for it."""
    source = Source.from_text(PATH, text)
    edits = make(source)
    return plan(edits, {PATH: source}).get(PATH, text)
