"""Kinds of nodes that several readers of a tree ask for."""

from __future__ import annotations

import ast

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ScopeNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.Module
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Positioned = ast.stmt | ast.expr | ast.keyword | ast.arg | ast.excepthandler | ast.alias


def first_line(node: ast.AST) -> int:
    """The line on which a node starts; for a decorated definition, that of its first decorator."""
    decorators = getattr(node, "decorator_list", None)
    line: int = node.lineno  # type: ignore[attr-defined]
    return min([line, *(d.lineno for d in decorators)]) if decorators else line


def key(node: ast.AST) -> tuple[object, ...]:
    """What tells a node from the others of a file: its kind and its place.

    The context tells `x` in `x = 1` from nothing else at the same place, but the type does: an expression
    statement lies exactly where its value does.
    """
    return (
        type(node),
        getattr(node, "lineno", None),
        getattr(node, "col_offset", None),
        getattr(node, "end_lineno", None),
        getattr(node, "end_col_offset", None),
    )
