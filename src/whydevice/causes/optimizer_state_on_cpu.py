"""What happened: the optimizer keeps state for each parameter (momentum, averages), and that state stayed on the CPU
when the model was moved.

Moving a module keeps its parameters' identity, so an optimizer made before `.to()` works. But state that it already
holds does not move along: what `load_state_dict` put there before the move, what an earlier `step()` made, what
Adagrad makes in its constructor, or what a method of your own put in.

How to recognise it: the error comes out of `optimizer.step()`, the parameters and gradients are on the GPU, and
`optimizer.state` is not.

Before:

    optimizer.load_state_dict(checkpoint["optimizer"])
    model.to(device)

After:

    model.to(device)
    optimizer.load_state_dict(checkpoint["optimizer"])

Safe: `load_state_dict` puts the state where the parameters are at that moment.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.scopes import MISSING, Scope, bindings_of, own_nodes, position
from ._finding import Finding, Mend
from ._optimizer_methods import put_in_by_method, stale_key
from ._order import (
    after_move,
    holds_any,
    method_scopes,
    move_statements,
    moved,
    same_block,
    state_sources,
    user_scopes,
    value_now,
)
from ._user_calls import every_scope
from ._values_shared import joined

NAME = "optimizer-state-on-cpu"
TITLE = "the optimizer's state is not where the parameters are"


class Stale(NamedTuple):
    """An optimizer with state on another device than its parameter. `key` is the state's name."""

    optimizer: Any
    node: ast.expr  # what the user's frame calls the optimizer
    scope: Scope
    key: object
    parameters: set[int]


def find(evidence: Evidence) -> Finding | None:
    user = evidence.user
    if user is None or evidence.wanted is None:
        return None
    own = user.receiver
    if _is_optimizer(own):
        return put_in_by_method(evidence, own)
    stale = _stepped(evidence)
    if stale is None:
        return None
    name = stale.scope.source.one_line(stale.node)
    finding = Finding(
        culprit=name,
        headline=f"the state of `{name}` is on {evidence.wrong_device}, but its parameters are on {evidence.wanted}",
    )
    move = _order(evidence, stale, finding)
    if finding.mends and move is not None:
        _others_too(evidence, stale, finding, move)
    return finding


def _others_too(evidence: Evidence, stale: Stale, finding: Finding, move: ast.stmt) -> None:
    """Mend the other optimizers with it whose state was left behind as well: their next step would fail."""
    first, loads = finding.mends[0], [finding.root_node]
    for other in _others(evidence, stale):
        found = Finding()
        its_move = _order(evidence, other, found)
        if not found.mends:
            continue
        finding.also.append((other.node, other.scope))
        loads.append(found.root_node)
        both = joined(first, found.mends[0])
        if both:
            first.edits = both
        elif its_move is move:
            above = _above(move, loads, first.scope)
            if above is not None:
                first.title, first.edits = above.title, above.edits


def _above(move: ast.stmt, loads: list[ast.AST | None], scope: Scope) -> Mend | None:
    """Put the move above the first of the statements that load: all of them then stand below it."""
    statements = [each for each in loads if isinstance(each, ast.stmt)]
    if len(statements) < len(loads):
        return None
    capture = min(statements, key=position)
    try:
        made = edits.move_statement(scope.source, move, before=capture)
    except edits.EditError:
        return None
    return Mend("move the parameters before their optimizers' state is loaded", made, capture, scope)


def _others(evidence: Evidence, stale: Stale) -> Iterator[Stale]:
    """The other optimizers that the user's code steps, or hands to a call, and whose state is on the wrong device."""
    seen = {id(stale.optimizer)}
    for scope in every_scope(evidence):
        for node in own_nodes(scope.node):
            for name in _used_in(node):
                held = value_now(name, scope)
                if _is_optimizer(held) and id(held) not in seen:
                    seen.add(id(held))
                    key = stale_key(evidence, held, None)
                    if key is not None:
                        yield Stale(held, name, scope, key[0], _parameters(held))


def _used_in(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call):
        stepped = (
            [node.func.value] if isinstance(node.func, ast.Attribute) and node.func.attr == "step" else []
        )
        yield from (n for n in [*stepped, *node.args] if isinstance(n, ast.Name | ast.Attribute))


def _is_optimizer(value: Any) -> bool:
    torch = values.torch()
    return torch is not None and value is not MISSING and issubclass(type(value), torch.optim.Optimizer)


def _stepped(evidence: Evidence) -> Stale | None:
    """The optimizer whose method failed in the user's frame, when its state and its parameters disagree."""
    for live in reversed(evidence.scopes):
        if live.live is None or live.live.library or not isinstance(live.live.node, ast.Call):
            continue
        func = live.live.node.func
        if not isinstance(func, ast.Attribute):
            return None
        held = try_evaluate(func.value, live)
        node: ast.expr | None = func.value
        if not _is_optimizer(held):  # GradScaler.step(optimizer), trainer.step(optimizer)
            node = next((a for a in live.live.node.args if _is_optimizer(try_evaluate(a, live))), None)
            held = try_evaluate(node, live) if node is not None else MISSING
        if node is None or not _is_optimizer(held):
            return None
        key = stale_key(evidence, held, None)
        return Stale(held, node, live, key[0], _parameters(held)) if key is not None else None
    return None


def _parameters(optimizer: Any) -> set[int]:
    groups = values.lookup(values.instance_dict(optimizer), "param_groups")
    return {
        id(p)
        for _, group in values.items(groups)
        for _, p in values.items(values.lookup(group, "params", []))
    }


# -- an order of statements -----------------------------------------------------------------------------------


def _order(evidence: Evidence, stale: Stale, finding: Finding) -> ast.stmt | None:
    """Root and mend: the loading or construction that stands before the move, else a reload after the move. The move."""
    steps = evidence.trace(stale.node, stale.scope)
    scopes = user_scopes(evidence, steps)
    if isinstance(stale.node, ast.Attribute):
        owner = try_evaluate(stale.node.value, stale.scope)
        if owner is not MISSING:
            scopes += list(method_scopes(evidence, owner))
    modules: set[str] = set()
    for step in steps:
        modules |= state_sources(step.node)
    made = steps[-1] if steps and steps[-1].kind in ("construct", "library") else None
    for scope in scopes:
        moves = [
            (c, s) for c, s in move_statements(evidence, scope) if _moves_parameters(c, scope, stale, modules)
        ]
        if not moves:
            continue
        last = moves[-1][1]
        load = next((s for s in _loads(scope, stale) if same_block(scope, s, last)), None)
        if load is not None:
            finding.root_node, finding.root_scope = load, scope
            finding.root_note = f"loaded while the parameters were on {evidence.wrong_device}"
            mend = after_move(scope, load, last)
        elif made is not None and made.scope.node is scope.node and _filled_at_start(stale):
            statement = scope.source.statement(made.node)
            finding.root_node, finding.root_scope = made.node, made.scope
            finding.root_note = f"made its state while the parameters were on {evidence.wrong_device}"
            mend = (
                after_move(scope, statement, last)
                if statement is not None and same_block(scope, statement, last)
                else None
            )
        else:
            finding.root_node, finding.root_scope = moves[-1][0], scope
            finding.root_note = "moves the parameters, not the optimizer's state"
            mend = _reload(scope, stale, last)
        if mend is not None:
            finding.mends.append(mend)
        return last
    finding.root = made
    return None


def _moves_parameters(call: ast.Call, scope: Scope, stale: Stale, modules: set[str]) -> bool:
    held = try_evaluate(moved(call), scope)
    if held is MISSING:
        held = value_now(moved(call), scope)  # `model = model.to(d)`: a module stays the same object
    if held is not MISSING:
        return holds_any(held, stale.parameters)
    return ast.unparse(moved(call)) in modules


def _loads(scope: Scope, stale: Stale) -> list[ast.stmt]:
    """The statements that load the optimizer's state, in order."""
    found = []
    for node in own_nodes(scope.node):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            continue
        func = node.value.func
        if isinstance(func, ast.Attribute) and func.attr == "load_state_dict":
            held = try_evaluate(func.value, scope)
            if held is MISSING and _last_bound_before(scope, func.value):
                held = value_now(func.value, scope)
            if held is stale.optimizer or (held is MISSING and _constructed_as(scope, func.value, stale)):
                found.append(node)
    return sorted(found, key=position)


def _last_bound_before(scope: Scope, name: ast.expr) -> bool:
    """Whether a name is not bound again below here, so that what it holds now is what was meant."""
    bound = bindings_of(scope.node).get(name.id, []) if isinstance(name, ast.Name) else []
    return bool(bound) and all(b.position < position(name) for b in bound)


def _constructed_as(scope: Scope, name: ast.expr, stale: Stale) -> bool:
    """Whether a function that has returned bound this name to a new optimizer of the same class."""
    for node in own_nodes(scope.node):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
            if ast.unparse(node.targets[0]) == ast.unparse(name):
                return try_evaluate(node.value.func, scope) is type(stale.optimizer)
    return False


def _filled_at_start(stale: Stale) -> bool:
    """Adagrad alone makes its state in the constructor."""
    return issubclass(type(stale.optimizer), values.torch().optim.Adagrad)


def _reload(scope: Scope, stale: Stale, last: ast.stmt) -> Mend | None:
    """`opt.load_state_dict(opt.state_dict())` after the move: it puts the state where the parameters are."""
    text = stale.scope.source.one_line(stale.node)
    known = try_evaluate(stale.node, scope)
    if known is not stale.optimizer:
        return None
    made = edits.insert_after(scope.source, last, f"{text}.load_state_dict({text}.state_dict())")
    return Mend("load the optimizer's state anew after the move", made, last, scope)
