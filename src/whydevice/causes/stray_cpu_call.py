"""What happened: the tensor was on the right device, and a `.cpu()` or `.to("cpu")` took it away.

How to recognise it: on the way from where the tensor was made to where it failed stands a call that moves it to the CPU.

Before:

    hidden = encoder(x).cpu()
    logits = head(hidden)

After:

    hidden = encoder(x)
    logits = head(hidden)

Unsafe where the call is taken away: the same value may be wanted on the CPU elsewhere (for NumPy, or to save memory).
Where the result is moved again for its use, the fix is safe. What a hook keeps was on the device of the module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from .. import edits
from ..evidence.collect import Evidence
from ..evidence.hooked import all_on, in_hook
from ..evidence.scopes import Scope, own_nodes
from ..evidence.steps import Step
from ._finding import Finding, Mend
from ._mend import bound_mend, mend_value
from ._moves import best_anchor, move_text
from ._values_shared import has

NAME = "stray-cpu-call"
TITLE = "a call moved the tensor away from the wanted device"


def find(evidence: Evidence) -> Finding | None:
    if evidence.wanted == "cpu":
        return None
    step = has(evidence, "move")
    # Between GPUs a move is no stray one: each stage of a model has its own, and what is used on another is two-gpus.
    away = evidence.wrong_device == "cpu" and step is not None and step.extra.get("to") == "cpu"
    if step is None or not away or step is not evidence.root:
        return _worked_on_host(evidence)
    if not isinstance(step.node, ast.Call):
        return None
    if has(evidence, "module-call") is not None:
        return None  # what was moved is the module that the tensor came out of
    finding = Finding(
        headline=f"`{evidence.wrong.expression if evidence.wrong else step.text()}` was moved to {evidence.wrong_device}, but it is used on {evidence.wanted}",
        root_node=step.node,
        root_scope=step.scope,
        root_note=f"moved to {evidence.wrong_device} here",
    )
    if step.editable:
        mend = _brought_back(evidence, step) if _read_on_host(step) else _mend(evidence, step.node, step)
        if mend is not None:
            finding.mends.append(mend)
    return finding


def _read_on_host(step: Step) -> bool:
    """Whether what the moved value is bound to is also read as a NumPy array, which has to be on the CPU."""
    source = step.scope.source
    statement = source.statement(step.node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    nodes: Iterable[ast.AST] = own_nodes(step.scope.node)
    if isinstance(target, ast.Attribute):
        owner = source.enclosing_class(step.scope.node)
        nodes = ast.walk(source.tree if not source.long or owner is None else owner)
    elif not isinstance(target, ast.Name):
        return False
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("numpy", "__array__")
        and any(_same_name(n, target) for n in ast.walk(node.value))
        for node in nodes
    )


def _same_name(node: ast.AST, target: ast.Name | ast.Attribute) -> bool:
    if isinstance(target, ast.Name):
        return isinstance(node, ast.Name) and node.id == target.id
    return isinstance(node, ast.Attribute) and node.attr == target.attr


def _brought_back(evidence: Evidence, step: Step) -> Mend | None:
    """The move stays, and the value is moved back on its way from there to its use."""
    return mend_value(
        evidence, [*evidence.steps[: evidence.steps.index(step)], Step("unknown", step.node, step.scope)]
    )


def _worked_on_host(evidence: Evidence) -> Finding | None:
    """A function of the user's that takes its arguments to the CPU, works there, and returns the result from there."""
    for step in evidence.steps:
        entered = step.extra.get("entered") if step.kind == "call" else None
        if entered is None or not step.editable or not isinstance(step.node, ast.Call):
            continue
        move = _taken_to_host(evidence, entered)
        bound = next((s for s in evidence.steps if s.kind == "assign" and s.node is step.node), None)
        text = move_text(evidence, step.scope, step.node)
        if move is None or bound is None or text is None:
            continue
        mend = bound_mend(evidence, bound, text)
        if mend is None:
            continue
        return Finding(
            headline=f"`{evidence.wrong.expression if evidence.wrong else step.text()}` is on {evidence.wrong_device}: {step.name}() works there, and its result was not moved back to {evidence.wanted}",
            root_node=mend.node,
            root_scope=mend.scope,
            root_note=f"comes back on {evidence.wrong_device}",
            trail=[(move, entered, f"taken to {evidence.wrong_device} here")],
            mends=[mend],
            certainty="likely",
        )
    return None


def _taken_to_host(evidence: Evidence, entered: Scope) -> ast.Call | None:
    """A call in a function that takes something on the wanted device to the wrong one."""
    for node in own_nodes(entered.node):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("cpu", "to")
        ):
            if evidence.inference.moved_to(node, entered) != evidence.wrong_device:
                continue
            if evidence.inference.device(node.func.value, entered) == evidence.wanted:
                return node
    return None


def _mend(evidence: Evidence, call: ast.Call, step: Step) -> Mend:
    """Take the move away; where it has a dtype as well, or moves nothing from where it is wanted, turn it round."""
    source = step.scope.source
    assert isinstance(call.func, ast.Attribute)
    receiver = evidence.inference.device(call.func.value, step.scope)
    if receiver is None and in_hook(call.func.value, step.scope) and all_on(evidence.scopes, evidence.wanted):
        receiver = evidence.wanted
    anchor = best_anchor(evidence, step.scope, call)
    target = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "device"), None)
    alone = len(call.args) + len(call.keywords) <= 1
    if anchor is not None and target is not None and not (alone and receiver == evidence.wanted):
        made = edits.replace_node(source, target, anchor.text)
        return Mend("move it to where it is used", made, call, step.scope)
    reason = f"takes away a move to {evidence.wrong_device} that may be wanted elsewhere"
    if receiver != evidence.wanted and anchor is not None:
        made = edits.append_method(source, call, f".to({anchor.text})")
        return Mend("move it to where it is used", made, call, step.scope)
    made = edits.delete_method_call(source, call)
    return Mend("take the move away", made, call, step.scope, "unsafe", reason)
