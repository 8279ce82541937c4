"""Kinds of nodes that several readers of a tree ask for."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Sequence

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ScopeNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.Module
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Positioned = ast.stmt | ast.expr | ast.keyword | ast.arg | ast.excepthandler | ast.alias

PLACELESS = frozenset((ast.arguments, ast.comprehension, ast.withitem, ast.match_case))
"""Kinds of nodes to which Python gives no place."""


def first_line(node: ast.AST) -> int:
    """The line on which a node starts; for a decorated definition, that of its first decorator."""
    decorators = getattr(node, "decorator_list", None)
    line: int = node.lineno  # type: ignore[attr-defined]
    return min([line, *(d.lineno for d in decorators)]) if decorators else line


def holds(node: ast.AST, start: tuple[int, int], end: tuple[int, int]) -> bool:
    """Whether a node (its decorators included) lies around a range of (line, column in bytes)."""
    first = (node.lineno, node.col_offset)  # type: ignore[attr-defined]
    if first > start and getattr(node, "decorator_list", None):
        first = (first_line(node), 0)
    return first <= start and end <= (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


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


# The fields of Python's nodes that never hold a node with a place of its own: text, numbers, and the operators and
# contexts, of which each kind is one object for all trees.
_NO_NODES = frozenset(
    "arg asname attr conversion ctx id is_async kind kwd_attrs level module op ops rest simple str tag "
    "type_comment type_ignores".split()
)
_VALUES = (ast.Constant, ast.MatchSingleton)
_fields: dict[type, tuple[str, ...]] = {}


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of node in which nodes can be."""
    skipped = set(_NO_NODES)
    if issubclass(kind, _VALUES):
        skipped.add("value")
    if issubclass(kind, ast.Global | ast.Nonlocal):
        skipped.add("names")
    if kind.__name__ != "TypeAlias":
        skipped.add("name")  # text, but for the one kind that is written `type X = ...`
    return _fields.setdefault(kind, tuple(name for name in kind._fields if name not in skipped))


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly in a node, as `ast.iter_child_nodes` gives them, without operators and contexts."""
    names = _fields.get(type(node))
    if names is None:
        names = _fields_of(type(node))
    found: list[ast.AST] = []
    if not names:
        return found
    for name in names:
        value = getattr(node, name, None)
        if value.__class__ is list:
            found += [each for each in value if each is not None] if None in value else value
        elif value is not None:
            found.append(value)
    return found


def preorder(nodes: Sequence[ast.AST], closed: frozenset[type]) -> list[ast.AST]:
    """Nodes and all that is in them, in the order of the text; into those of a `closed` kind it is not looked."""
    found: list[ast.AST] = []
    todo: list[ast.AST | None] = [*reversed(nodes)]
    while todo:
        here = todo.pop()
        if here is None:
            continue  # `**` in a dict, a keyword without a default
        found.append(here)
        kind = type(here)
        if kind in closed:
            continue
        # As `children` does, without a call and a list for each of thousands.
        names = _fields.get(kind)
        for name in reversed(_fields_of(kind) if names is None else names):
            value = getattr(here, name, None)
            if value.__class__ is list:
                todo += value[::-1]
            elif value is not None:
                todo.append(value)
    return found


_BLOCKS: dict[type, tuple[str, ...]] = {
    ast.If: ("body", "orelse"),
    ast.For: ("body", "orelse"),
    ast.AsyncFor: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    ast.With: ("body",),
    ast.AsyncWith: ("body",),
    ast.Try: ("body", "handlers", "orelse", "finalbody"),
    ast.TryStar: ("body", "handlers", "orelse", "finalbody"),
    ast.ExceptHandler: ("body",),
    ast.Match: ("cases",),
    ast.match_case: ("body",),
}


def statements(block: Sequence[ast.stmt]) -> list[ast.AST]:
    """The statements of a block and of the blocks in it, in the order of the text, none of a function's or class's.

    `except` and `case` clauses are among them.
    """
    found: list[ast.AST] = []
    todo: list[ast.AST] = [*reversed(block)]
    while todo:
        here = todo.pop()
        found.append(here)
        for name in reversed(_BLOCKS.get(type(here), ())):
            todo += getattr(here, name)[::-1]
    return found


def has_walrus(scope: ScopeNode) -> bool:
    """Whether an expression of the scope's own may bind a name. False is certain."""
    return getattr(scope, "_walrus", True)


def note_walrus(scope: ScopeNode, may: bool) -> None:
    scope._walrus = may  # type: ignore[union-attr]


def note_no_walrus(tree: ast.Module) -> None:
    """Note on the functions and classes of a new tree that statements alone bind names in them: no `:=` is written."""
    todo: list[ScopeNode] = [tree]
    while todo:
        scope = todo.pop()
        note_walrus(scope, False)
        todo += [s for s in statements(scope.body) if isinstance(s, _DEFINITIONS)]  # type: ignore[arg-type]


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all nodes in it, as `ast.walk` gives them, without operators and contexts."""
    todo = deque([node])
    while todo:
        here = todo.popleft()
        todo += children(here)
        yield here
