"""Where the way of a run divides: the arms that a piece of code stands in, and what the other arms would have given."""

from __future__ import annotations

import ast
from typing import NamedTuple

from .calls import returned
from .origins import Tracer
from .scopes import LOOPS, Binding, Scope, all_reaching, arm, bindings_of, dotted, own_nodes
from .sources import ScopeNode, Source
from .steps import Step
from .until import until

_REPLACING = (ast.If, *LOOPS)
_LEAVING = (ast.Return, ast.Continue, ast.Break)


class Guard(NamedTuple):
    """One arm of a fork.

    `arm` counts the arms as they stand: of an `if` 0 is its body and 1 what runs otherwise, of a `match` its cases,
    of a `try` its handlers, of a loop 0 is its body. `after`: the code stands below the fork, whose body leaves.
    """

    fork: ast.AST
    arm: int
    after: bool = False

    def same(self, other: Guard) -> bool:
        return self.fork is other.fork and self.arm == other.arm


class Choice(NamedTuple):
    """The arm that gave a value on the wrong device, where every other way to the same use gives a right one.

    `negated`: the guard is that of the other ways, and was not taken. `others` counts them.
    """

    guard: Guard
    scope: Scope
    step: Step
    others: int
    negated: bool = False


def guards(node: ast.AST, source: Source) -> list[Guard]:
    """The arms that a node of a function's body stands in, from the inside out."""
    found: list[Guard] = []
    child = node
    for up in source.ancestors(node):
        found += _exits_before(child, up)
        if isinstance(up, ScopeNode):
            break
        number = arm(up, child)
        if number is not None:
            found.append(Guard(up, number))
        child = up
    return found


def _exits_before(child: ast.AST, holder: ast.AST) -> list[Guard]:
    """The `if`s above a statement in its own block whose body leaves the block; an error raised there is no way out."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(holder, name, None)
        if isinstance(block, list) and child in block:
            before = block[: block.index(child)]
            return [Guard(s, 1, after=True) for s in reversed(before) if _leaves(s)]
    return []


def _leaves(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.If)
        and not statement.orelse
        and any(isinstance(n, _LEAVING) for inner in statement.body for n in ast.walk(inner))
    )


def choice(tracer: Tracer, step: Step, wanted: str) -> Choice | None:
    """What a step of the way chose between, if each of the ways not taken is known to give the wanted device."""
    scope, source = step.scope, step.scope.source
    use: ast.AST | None = None
    if step.kind == "assign" and "use" in step.extra:
        use = step.extra["use"]
        rivals = _other_bindings(tracer, step, use, wanted)
    elif step.kind == "return":
        rivals = _other_returns(tracer, step, wanted)
    elif step.kind == "item" and step.name and "added" in step.extra:
        rivals = _other_additions(tracer, step, wanted)
    else:
        rivals = None
    if not rivals:
        return _conditional(tracer, step, wanted)
    around = guards(use, source) if use is not None and source.scope(use) is scope.node else []
    # The place of a value is that of its statement: where the value stands in it is no fork of this step.
    mine = [g for g in guards(step.stmt or step.node, source) if not any(g.same(u) for u in around)]
    theirs = [[g for g in guards(r, source) if not any(g.same(u) for u in around)] for r in rivals]
    if step.kind == "item":  # of several additions each may run: only one in another arm stands for this one
        apart = [g for g in mine if all(_in_another_arm(g, other) for other in theirs)]
        return Choice(apart[0], scope, step, len(rivals)) if apart else None
    for guard in mine:
        if isinstance(guard.fork, LOOPS) or any(guard.same(g) for other in theirs for g in other):
            continue
        return Choice(guard, scope, step, len(rivals))
    for guard in theirs[0]:
        shared = all(any(guard.same(g) for g in other) for other in theirs)
        if shared and guard.arm == 0 and isinstance(guard.fork, _REPLACING):
            if not any(guard.same(g) for g in mine):
                return Choice(guard, scope, step, len(rivals), negated=True)
    return None


def _in_another_arm(guard: Guard, others: list[Guard]) -> bool:
    return any(other.fork is guard.fork and other.arm != guard.arm for other in others)


def _other_bindings(tracer: Tracer, step: Step, use: ast.AST, wanted: str) -> list[ast.AST] | None:
    """The statements that would have bound the name otherwise; None where one of them is not known to be right."""
    scope, name = step.scope, step.name
    if step.extra.get("unsure") or scope.source.scope(use) is not scope.node:
        return None
    found = all_reaching(scope.source, bindings_of(scope.node).get(name, []), use, until(scope))
    if not any(b.stmt is step.stmt for b in found):
        return None
    if scope.is_parameter(name) and all(guards(b.stmt, scope.source) for b in found):
        return None  # it may also come as the caller gives it
    rivals = [b for b in found if b.stmt is not step.stmt]
    if any(_bound_device(tracer, b, scope) != wanted for b in rivals):
        return None
    return [b.stmt for b in rivals]


def _bound_device(tracer: Tracer, binding: Binding, scope: Scope) -> str | None:
    if binding.kind not in ("assign", "walrus") or binding.value is None:
        return None
    leaf = _into(binding.value, binding.path)
    return tracer.inference.device(leaf, scope) if leaf is not None else None


def _into(value: ast.expr, path: tuple[int, ...]) -> ast.expr | None:
    for index in path:
        if not isinstance(value, ast.Tuple | ast.List) or index >= len(value.elts):
            return None
        value = value.elts[index]
    return value


def _other_returns(tracer: Tracer, step: Step, wanted: str) -> list[ast.AST] | None:
    scope = step.scope
    rivals = [v for v in returned(scope.node) if v is not step.node]
    for value in rivals:
        leaf = _into(value, step.extra.get("into", ()))
        if leaf is None or tracer.inference.device(leaf, scope) != wanted:
            return None
    return [scope.source.statement(v) or v for v in rivals]


def _other_additions(tracer: Tracer, step: Step, wanted: str) -> list[ast.AST] | None:
    """The other places that put an item into the same container."""
    scope, found = step.scope, []
    for node in own_nodes(scope.node):
        if node is step.extra["added"]:
            continue
        item: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if dotted(node.func.value) != step.name:
                continue
            if node.func.attr in ("append", "add", "appendleft", "insert") and node.args:
                item = node.args[-1]
            elif node.func.attr in ("extend", "update"):
                return None
        elif isinstance(node, ast.Assign):
            if any(isinstance(t, ast.Subscript) and dotted(t.value) == step.name for t in node.targets):
                item = node.value
        if item is None:
            continue
        if tracer.inference.device(item, scope) != wanted:
            return None
        found.append(scope.source.statement(node) or node)
    return found


def _conditional(tracer: Tracer, step: Step, wanted: str) -> Choice | None:
    """`a if test else b` around a step: the other arm has to be on the wanted device."""
    child = step.node
    for up in step.scope.source.ancestors(step.node):
        if isinstance(up, ast.stmt | ScopeNode):
            return None
        if isinstance(up, ast.IfExp) and child is not up.test:
            other = up.orelse if child is up.body else up.body
            if tracer.inference.device(other, step.scope) != wanted:
                return None
            return Choice(Guard(up, 0 if child is up.body else 1), step.scope, step, 1)
        child = up
    return None
