"""Activations of functions: those still on the stack, and those that have returned but whose call can be seen.

A `Scope` answers what a name meant at a place: from a live frame's locals, or, for a function that has returned,
from the arguments of the call that led there. The source gives the place, the live objects give the proof.
"""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..source.nodes import children, has_walrus, preorder, statements
from .bounds import kept
from .frames import LiveFrame
from .passive import named, plain_names
from .sources import COMPREHENSIONS, ScopeNode, Source

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()


class Argument(NamedTuple):
    """What a parameter was bound to: an expression in the caller's scope, or the function's own default."""

    node: ast.expr
    scope: Scope
    default: bool = False
    spread: str = ""  # `*` or `**` when the node is the whole tuple or mapping that was spread
    key: object = None  # the index or key within it
    guessed: bool = False  # the length of what was spread is not known


@dataclass(repr=False, eq=False)
class Scope:
    """One activation. `frame` is None when the function has returned."""

    source: Source
    node: ScopeNode
    globals: dict[str, Any]
    frame: types.FrameType | None = None
    live: LiveFrame | None = None
    caller: Scope | None = None
    call: ast.Call | None = None
    receiver: Any = MISSING
    bound: dict[str, Argument] = field(default_factory=dict)
    until: tuple[int, int] = (1 << 30, 0)  # bindings at or after this position had not happened yet
    depth: int = 0
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.globals = kept("globals", self.globals, plain_names)
        self.source.scopes.append(self)

    @property
    def module_name(self) -> str:
        """The name of the module whose code this is; empty where something else was put there."""
        name = self.globals.get("__name__")
        return name if type(name) is str else ""

    def release(self) -> None:
        """Let go of everything live: default arguments make scopes refer to themselves."""
        self.frame = self.live = self.caller = self.call = None
        self.receiver = MISSING
        self.globals, self.bound, self.values = {}, {}, {}

    @property
    def function(self) -> str | None:
        return None if isinstance(self.node, ast.Module) else getattr(self.node, "name", "<lambda>")

    @property
    def locals(self) -> dict[str, Any]:
        if self.frame is None:
            return self.values
        if self.live is not None and "locals" not in self.live.extra:
            found = self.live.extra["locals"] = dict(named(self.frame.f_locals))
            found.pop("__builtins__", None)  # a module's: large, and nothing of the user's
        return self.live.extra["locals"] if self.live is not None else dict(named(self.frame.f_locals))  # type: ignore[return-value]

    def parameters(self) -> list[ast.arg]:
        if not isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return []
        a = self.node.args
        return [*a.posonlyargs, *a.args, *a.kwonlyargs]

    def is_parameter(self, name: str) -> bool:
        if any(p.arg == name for p in self.parameters()):
            return True
        if isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            a = self.node.args
            return name in {p.arg for p in (a.vararg, a.kwarg) if p is not None}
        return False


class Binding(NamedTuple):
    """A place where a name gets its value. `path` leads into `value` when a target is unpacked."""

    kind: str  # assign | augmented | loop | with | walrus | import | definition | comprehension
    stmt: ast.AST
    value: ast.expr | None
    path: tuple[int, ...] = ()
    target: ast.AST | None = None

    @property
    def position(self) -> tuple[int, int]:
        node = self.target if self.target is not None else self.stmt
        return (node.lineno, node.col_offset)  # type: ignore[attr-defined]


def _target_paths(target: ast.AST, path: tuple[int, ...] = ()) -> list[tuple[ast.AST, tuple[int, ...]]]:
    if isinstance(target, ast.Tuple | ast.List):
        found = []
        for index, element in enumerate(target.elts):
            found += _target_paths(element, (*path, index))
        return found
    if isinstance(target, ast.Starred):
        return _target_paths(target.value, path)
    return [(target, path)]


LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SCOPES = frozenset((ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef))
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCKS = (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith, ast.Match)
_BINDING = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, *_BLOCKS, *_DEFINITIONS)


class _Read:
    """What was read of a scope's node: asked for at every name that is looked up."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.nodes: list[ast.AST] | None = None
        self.bindings: dict[str, list[Binding]] | None = None


def _read_of(node: ScopeNode) -> _Read:
    """A tree does not change, but for the body of a long file's module, which grows: then it is read anew."""
    size = len(node.body) if isinstance(node.body, list) else 1
    # On the node itself, so that it goes with the tree: the entries of a weak dictionary take as long to remove.
    read: _Read | None = node.__dict__.get("_read")
    if read is None or read.size != size:
        read = _Read(size)
        node._read = read  # type: ignore[union-attr]
    return read


def own_nodes(node: ScopeNode) -> list[ast.AST]:
    """The nodes of a function's own body, in source order, without those of functions and classes inside."""
    read = _read_of(node)
    if read.nodes is not None:
        return read.nodes
    body = node.body if isinstance(node.body, list) else [node.body]
    read.nodes = preorder(body, _SCOPES)
    return read.nodes


def bindings_of(node: ScopeNode) -> dict[str, list[Binding]]:
    """Every binding of every name in a function's own body (targets such as `self.x` under their dotted text)."""
    read = _read_of(node)
    if read.bindings is not None:
        return read.bindings
    table: dict[str, list[Binding]] = {}

    def add(name: str, binding: Binding) -> None:
        table.setdefault(name, []).append(binding)

    def targets(target: ast.AST, kind: str, stmt: ast.AST, value: ast.expr | None) -> None:
        for leaf, path in _target_paths(target):
            name = dotted(leaf)
            if name is not None:
                add(name, Binding(kind, stmt, value, path, leaf))

    nodes = own_nodes(node) if has_walrus(node) or not isinstance(node.body, list) else statements(node.body)
    for here in nodes:
        if not isinstance(here, _BINDING):
            continue
        if isinstance(here, ast.Assign):
            for target in here.targets:
                if type(target) is ast.Name:  # nearly all
                    table.setdefault(target.id, []).append(Binding("assign", here, here.value, (), target))
                elif isinstance(target, ast.Tuple) and isinstance(here.value, ast.Tuple):
                    _pairwise(target, here.value, here, add)
                else:
                    targets(target, "assign", here, here.value)
        elif isinstance(here, ast.AnnAssign) and here.value is not None:
            targets(here.target, "assign", here, here.value)
        elif isinstance(here, ast.AugAssign):
            targets(here.target, "augmented", here, here.value)
        elif isinstance(here, ast.For | ast.AsyncFor):
            targets(here.target, "loop", here, here.iter)
        elif isinstance(here, ast.With | ast.AsyncWith):
            for withitem in here.items:
                if withitem.optional_vars is not None:
                    targets(withitem.optional_vars, "with", here, withitem.context_expr)
        elif isinstance(here, ast.NamedExpr):
            targets(here.target, "walrus", here, here.value)
        elif isinstance(here, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            add(here.name, Binding("definition", here, None))
        elif isinstance(here, ast.Match):
            _captures(here, add)
    read.bindings = table
    return table


def _captures(node: ast.Match, add: Any) -> None:
    """The names that the patterns of a `match` bind: the subject, or what a sequence pattern takes from it."""

    def visit(pattern: ast.AST, path: tuple[int, ...] | None) -> None:
        rest = pattern.name if isinstance(pattern, ast.MatchStar) else getattr(pattern, "rest", None)
        if rest is not None:
            add(rest, Binding("assign", pattern, None, (), pattern))
        if isinstance(pattern, ast.MatchAs):
            if pattern.name is not None:
                add(
                    pattern.name,
                    Binding(
                        "assign", pattern, node.subject if path is not None else None, path or (), pattern
                    ),
                )
            if pattern.pattern is not None:
                visit(pattern.pattern, path)
        elif isinstance(pattern, ast.MatchSequence):
            for index, each in enumerate(pattern.patterns):
                visit(each, (*path, index) if path is not None else None)
        elif isinstance(pattern, ast.MatchOr):
            for each in pattern.patterns:
                visit(each, path)
        else:
            for inner in children(pattern):
                if isinstance(inner, ast.pattern):
                    visit(inner, None)

    for case in node.cases:
        visit(case.pattern, ())


def _pairwise(target: ast.Tuple, value: ast.Tuple, stmt: ast.AST, add: Any) -> None:
    if len(target.elts) != len(value.elts) or any(
        isinstance(e, ast.Starred) for e in [*target.elts, *value.elts]
    ):
        for leaf, path in _target_paths(target):
            name = dotted(leaf)
            if name is not None:
                add(name, Binding("assign", stmt, value, path, leaf))
        return
    for one, expression in zip(target.elts, value.elts, strict=True):
        for leaf, path in _target_paths(one):
            name = dotted(leaf)
            if name is not None:
                add(name, Binding("assign", stmt, expression, path, leaf))


def dotted(node: ast.AST) -> str | None:
    """`x`, `self.x`, `self.a.b` as text; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base is not None else None
    return None


def comprehension_binding(source: Source, node: ast.AST, name: str) -> Binding | None:
    """The `for` clause of a comprehension around a node that binds this name."""
    for up in source.ancestors(node):
        if isinstance(up, COMPREHENSIONS):
            for clause in up.generators:
                for leaf, path in _target_paths(clause.target):
                    if isinstance(leaf, ast.Name) and leaf.id == name:
                        return Binding("comprehension", up, clause.iter, path, leaf)
        elif isinstance(up, ScopeNode):
            return None
    return None


def position(node: ast.AST) -> tuple[int, int]:
    return (node.lineno, node.col_offset)  # type: ignore[attr-defined]


def excludes(source: Source, first: ast.AST, second: ast.AST) -> bool:
    """Whether two nodes stand in different branches of one `if` or `match`, so that one run has only one."""
    ups = {id(up): up for up in source.ancestors(first)}
    for up in source.ancestors(second):
        if id(up) in ups and isinstance(up, ast.If | ast.IfExp | ast.Match):
            branches = _branch(up, first, source), _branch(up, second, source)
            return branches[0] != branches[1] and None not in branches
        if id(up) in ups:
            return False
    return False


def _branch(fork: ast.AST, node: ast.AST, source: Source) -> int | None:
    """Which arm of a fork a node stands in; None for its test, which every run evaluates."""
    inside = [node, *source.ancestors(node)]
    return arm(fork, inside[inside.index(fork) - 1] if fork in inside else node)


def arm(fork: ast.AST, child: ast.AST) -> int | None:
    """Which arm of a fork its child is, or stands in: of an `if` 0 is its body and 1 what runs otherwise, of a `match`
    its cases count, of a `try` its handlers, of a loop 0 is its body. None for what every run comes to."""
    if isinstance(fork, ast.If):
        return 0 if child in fork.body else 1 if child in fork.orelse else None
    if isinstance(fork, ast.IfExp):
        return 0 if child is fork.body else 1 if child is fork.orelse else None
    if isinstance(fork, ast.Match):
        return fork.cases.index(child) if isinstance(child, ast.match_case) else None
    if isinstance(fork, ast.Try):
        return fork.handlers.index(child) if isinstance(child, ast.ExceptHandler) else None
    if isinstance(fork, LOOPS):
        return 0 if child in fork.body else None
    return None


def reaching(
    source: Source, found: list[Binding], use: ast.AST, until: tuple[int, int] | None = None
) -> Binding | None:
    """The binding whose value a use most likely sees: the last one before it on its path, else the loop's last."""
    candidates = all_reaching(source, found, use, until)
    return candidates[0] if candidates else None


def all_reaching(
    source: Source, found: list[Binding], use: ast.AST, until: tuple[int, int] | None = None
) -> list[Binding]:
    """The bindings whose value a use can see, the likeliest first: those before it, back to one that every run
    goes through, then those below it in the same loop, whose value comes from the turn before."""
    at = position(use)
    able = [b for b in found if not _inside(source, use, b) and not excludes(source, b.stmt, use)]
    candidates: list[Binding] = []
    for binding in sorted(able, key=lambda b: b.position, reverse=True):
        if binding.position < at and (until is None or binding.position < until):
            candidates.append(binding)
            if _always_runs(source, binding, use):
                break
    loops = [up for up in source.ancestors(use) if isinstance(up, ast.For | ast.While | ast.AsyncFor)]
    if loops and not (candidates and loops[-1] in _holders(source, candidates[-1])):
        below = [b for b in able if b.position > at and loops[-1] in _holders(source, b)]
        candidates += sorted(below, key=lambda b: b.position, reverse=True)
    return candidates


def item_of(value: ast.expr, path: tuple[int, ...], scope: Scope) -> ast.expr | None:
    """The item at a path into tuples and lists as they are written, those under a name that is bound once too."""
    for index in path:
        if isinstance(value, ast.Name):
            found = bindings_of(scope.node).get(value.id, [])
            if len(found) != 1 or found[0].kind != "assign" or found[0].path or found[0].value is None:
                return None
            value = found[0].value
        if not (isinstance(value, ast.Tuple | ast.List) and index < len(value.elts)):
            return None
        value = value.elts[index]
    return value


def _holders(source: Source, binding: Binding) -> list[ast.AST]:
    return [binding.stmt, *source.ancestors(binding.stmt)]


def _always_runs(source: Source, binding: Binding, use: ast.AST) -> bool:
    """Whether a run that comes to the use has gone through the binding: no fork or loop stands around it alone."""
    around = {id(up) for up in source.ancestors(use)}
    inside = binding.stmt
    for up in _holders(source, binding):
        if id(up) in around:
            return True
        # A loop's own target is bound in its header, and only where it ran at all; a `with` always runs.
        if isinstance(up, ast.If | ast.IfExp | ast.Match | ast.For | ast.AsyncFor | ast.While | ast.Try):
            if not (isinstance(up, ast.If) and _branch(up, inside, source) is None):
                return False
        inside = up
    return True


def _inside(source: Source, use: ast.AST, binding: Binding) -> bool:
    """Whether the use is part of the very value that the binding stores (`x = f(x)`)."""
    if binding.kind in ("loop", "with"):
        return binding.value is not None and (use is binding.value or binding.value in source.ancestors(use))
    return binding.stmt in source.ancestors(use) or binding.stmt is use


def same_binding(one: Binding, other: Binding) -> bool:
    """Whether two bindings are the same statement in two texts."""
    if one.kind in ("loop", "with") and other.kind == one.kind:
        return (
            one.value is not None and other.value is not None and ast.dump(one.value) == ast.dump(other.value)
        )
    return ast.dump(one.stmt) == ast.dump(other.stmt)


def always_past(source: Source, statement: ast.AST, use: ast.AST) -> bool:
    """Whether a use is reached only past a statement: they stand in the same block, or the use deeper."""
    parent = source.parent(statement)
    return parent is not None and parent in list(source.ancestors(use))
