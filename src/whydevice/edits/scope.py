"""Which names a function owns, and which a statement binds and reads: an assignment in the wrong scope breaks
a script.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def enclosing_function(source: Source, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function whose body holds a node; None at module or class level."""
    for ancestor in source.ancestors(node):
        if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
            return ancestor
        if isinstance(ancestor, ast.ClassDef):
            return None
    return None


def enclosing_class(source: Source, node: ast.AST) -> ast.ClassDef | None:
    """The class in whose method or body a node stands."""
    return next((a for a in source.ancestors(node) if isinstance(a, ast.ClassDef)), None)


def binds(source: Source, node: ast.AST, name: str) -> bool:
    """Whether assigning `name` at a node's place rebinds the variable that is read there.

    False for a function that only reads the name: an assignment would make it a local of its own.
    """
    function = enclosing_function(source, node)
    if function is None:
        return True
    arguments = [n.arg for n in ast.walk(function.args) if isinstance(n, ast.arg)]
    return name in arguments or any(name in names_bound(statement) for statement in function.body)


def names_bound(node: ast.AST) -> set[str]:
    """The names that a statement binds in its own scope, with those that it declares global or nonlocal."""
    found: set[str] = set()
    for child in _own_scope(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store | ast.Del):
            found.add(child.id)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(child.name)
        elif isinstance(child, ast.Import | ast.ImportFrom):
            found.update(alias.asname or alias.name.partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.Global | ast.Nonlocal):
            found.update(child.names)
        elif isinstance(child, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and child.name:
            found.add(child.name)
        elif isinstance(child, ast.MatchMapping) and child.rest:
            found.add(child.rest)
    return found


def names_read(node: ast.AST) -> set[str]:
    """The names that a statement reads, nested functions included."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load | ast.Del)}


def attributes_bound(node: ast.AST) -> set[str]:
    """The attributes, as they are written (`self.device`), that a statement assigns."""
    return {ast.unparse(n) for n in _own_scope(node) if isinstance(n, ast.Attribute) and _stores(n)}


def attributes_read(node: ast.AST) -> set[str]:
    """The attributes that a statement reads: of `self.cfg.device` both that and `self.cfg`."""
    return {ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.Attribute) and not _stores(n)}


def _stores(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


def _own_scope(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those below it that belong to the same scope.

    A walrus in a comprehension binds outside of it, so only a comprehension's own targets are left out.
    """
    yield node
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(node, _COMPREHENSIONS) and isinstance(child, ast.comprehension):
            for part in (child.iter, *child.ifs):
                yield from _own_scope(part)
        else:
            yield from _own_scope(child)
