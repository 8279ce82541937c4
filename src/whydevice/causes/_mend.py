"""Where on its way a value is best put on the wanted device."""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.scopes import (
    MISSING,
    Scope,
    bindings_of,
    comprehension_binding,
    own_nodes,
    position,
    reaching,
)
from ..evidence.steps import Step
from ..source import Source
from ._batches import container_move, loader_mend, moves_of, unpacking_mend
from ._factories import cached, factory_mend, usable
from ._finding import Mend
from ._mixing import up_to_mixing
from ._moves import (
    appended,
    best_anchor,
    is_move_to,
    move_text,
    moved_in_call,
    moves_in,
    sibling_move,
    target_names,
    text_of_move,
)


def mend_value(evidence: Evidence, steps: list[Step]) -> Mend | None:
    """The edit that puts a value on the wanted device: beside its moved siblings, else where it is made, else
    at the first place on its way where an expression for the device is in scope."""
    if evidence.wrong_device == "meta":
        return None  # a meta tensor has no data to move
    default = next((s for s in steps if s.kind == "parameter" and s.extra.get("default")), None)
    if default is not None:
        return _in_body(evidence, default)
    forgotten = beside_fields(evidence, steps[0])
    if forgotten is not None:
        return forgotten
    steps = up_to_mixing(evidence, steps)
    root = steps[-1]
    in_function = root.kind == "factory" and not isinstance(root.scope.node, ast.Module)
    order = (_at_root, _beside_siblings, _outward) if in_function else (_beside_siblings, _at_root, _outward)
    for attempt in order:
        mend = attempt(evidence, steps)
        if mend is not None:
            return mend
    return None


def _in_body(evidence: Evidence, step: Step) -> Mend | None:
    """A default argument is made once, when the function is defined: what a call gets of it is moved in the body."""
    scope: Scope = step.extra["callee"]
    if not step.editable or not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    text = move_text(evidence, scope, scope.node.body[0])
    if text is None:
        return None
    made = edits.insert_at_suite_start(scope.source, scope.node, f"{step.name} = {step.name}{text}")
    return Mend("move the default where it is used", made, step.node, scope)


def beside_fields(evidence: Evidence, use: Step) -> Mend | None:
    """Where the other fields of the same object are moved one by one (`obs = batch.obs.to(device)`): likewise."""
    base = _holder(use.node)
    if base is None or not use.editable:
        return None
    held, source = use.scope.locals.get(base, MISSING), use.scope.source
    if held is MISSING or held is use.scope.receiver or values.is_module(held) or values.is_tensor(held):
        return None
    bound = bindings_of(use.scope.node).get(base, [])
    for call in moves_in(own_nodes(use.scope.node)):
        field = call.func.value  # type: ignore[attr-defined]
        if _holder(field) != base or position(call) > position(use.node):
            continue
        if reaching(source, bound, call) is not reaching(source, bound, use.node):
            continue  # of another object by the same name
        if is_move_to(call, use.scope, evidence.wanted or "", evidence.inference):
            mend = appended(use, text_of_move(call, use.scope), beside(call))
            if mend is not None:
                mend.note = f"not moved, as line {call.lineno} moves `{source.one_line(field)}`"
            return mend
    return None


def _holder(node: ast.AST) -> str | None:
    """`batch` of `batch.obs` and `batch["obs"]`."""
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.value, ast.Name)
    ):
        return node.value.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id
    return None


def _beside_siblings(evidence: Evidence, steps: list[Step]) -> Mend | None:
    at_use = _moved_at_use(evidence, steps)
    if at_use is not None:
        return at_use
    for step in steps[1:]:
        if not step.editable:
            continue
        if step.kind in ("assign", "attribute", "loop") and step.stmt is not None:
            call = sibling_move(evidence, step)
            if call is not None:
                mend = bound_mend(evidence, step, text_of_move(call, step.scope), after=call)
                if mend is not None:
                    mend.title = beside(call)
                    return mend
    for step in steps:
        mend = _beside_parameter(evidence, step) if step.kind == "parameter" and not step.path else None
        if mend is not None:
            return mend
    for step in [steps[0], *(s for s in steps if s.kind == "parameter")]:
        call = moved_in_call(evidence, step) if step.editable else None
        if call is not None and isinstance(step.node, ast.expr):
            return appended(step, text_of_move(call, step.scope), "move it like the argument beside it")
    return None


def _beside_parameter(evidence: Evidence, step: Step) -> Mend | None:
    """Where the function moves what else it is given (`x = x.to(device)`): likewise, below that."""
    scope: Scope | None = step.extra.get("callee")
    if scope is None or not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    if not Step("use", scope.node, scope).editable or not scope.is_parameter(step.name):
        return None
    for statement in scope.node.body:
        value = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(value, ast.Call) or not isinstance(statement, ast.Assign):
            continue
        moved = value.func.value if isinstance(value.func, ast.Attribute) else None
        names = [n.id for n in (*statement.targets, moved) if isinstance(n, ast.Name)]
        if len(names) != 2 or names[0] != names[1] or not scope.is_parameter(names[0]):
            continue
        if next(moves_in([value]), None) and is_move_to(
            value, scope, evidence.wanted or "", evidence.inference
        ):
            text = text_of_move(value, scope)
            made = edits.insert_after(scope.source, statement, f"{step.name} = {step.name}{text}")
            return Mend("move it like what stands beside it", made, statement, scope)
    return None


def _moved_at_use(evidence: Evidence, steps: list[Step]) -> Mend | None:
    """Where what was unpacked beside it is moved at its use (`a, b = batch; f(a.to(device))`): likewise at the use."""
    for index, step in enumerate(steps):
        if step.kind != "assign" or not isinstance(step.stmt, ast.Assign) or not step.editable:
            continue
        beside = set(target_names(step.stmt.targets[0])) - {step.name}
        use = next(
            (s for s in reversed(steps[:index]) if s.scope is step.scope and isinstance(s.node, ast.expr)),
            None,
        )
        if not isinstance(step.stmt.targets[0], ast.Tuple) or use is None:
            continue
        for call in moves_in(own_nodes(step.scope.node)):
            moved = ast.unparse(call.func.value)  # type: ignore[attr-defined]
            if moved in beside and is_move_to(call, step.scope, evidence.wanted or "", evidence.inference):
                if isinstance(step.scope.source.parent(call), ast.Assign | ast.Tuple):
                    continue
                return appended(
                    use, text_of_move(call, step.scope), "move it where it is passed, like what came with it"
                )
    return None


def _at_root(evidence: Evidence, steps: list[Step]) -> Mend | None:
    root = steps[-1]
    if not root.editable or cached(root.scope) or from_dataset(steps):
        return None
    if root.kind == "factory":
        return factory_mend(evidence, root, steps)
    if root.kind in ("constructor", "library") and isinstance(root.node, ast.expr):
        anchor = best_anchor(evidence, root.scope, root.node)
        if anchor is not None and usable(anchor, root, evidence):
            text = move_text(evidence, root.scope, root.node, anchor)
            return appended(root, text, "move it where it is made") if text else None
    if root.kind == "loader":
        return loader_mend(evidence, steps)
    return None


def _outward(evidence: Evidence, steps: list[Step]) -> Mend | None:
    """From the root towards the use: the first binding or argument where the device can be named well."""
    dataset = from_dataset(steps)
    last = steps.index(dataset) if dataset is not None else len(steps)
    for strict in (True, False):
        for index in range(last - 1, -1, -1):
            step = steps[index]
            if not step.editable or (cached(step.scope) and strict):
                continue
            if step.kind == "factory" and not strict and not cached(step.scope) and not from_dataset(steps):
                mend = factory_mend(evidence, step, steps, last_resort=True)
                if mend is not None:
                    return mend
            if step.kind not in ("assign", "parameter", "use", "loop", "item") or not isinstance(
                step.node, ast.expr
            ):
                continue
            if strict and _one_of_several(step, steps):
                continue
            anchor = best_anchor(evidence, step.scope, step.node)
            if anchor is None or (strict and not usable(anchor, step, evidence)):
                continue
            text = move_text(evidence, step.scope, step.node, anchor, batch=step.kind == "loop")
            if text is None:
                continue
            mend = bound_mend(evidence, step, text)
            if mend is not None:
                return mend
    return None


def _one_of_several(step: Step, steps: list[Step]) -> bool:
    """`x, y = data[0]` for a single call: only what the call needs is moved, at the call."""
    return (
        step.kind == "assign"
        and isinstance(step.stmt, ast.Assign)
        and isinstance(step.stmt.targets[0], ast.Tuple)
        and any(s.scope is step.scope for s in steps[: steps.index(step)])
        and (
            steps[-1].kind in ("construct", "library", "unknown", "loader") or from_dataset(steps) is not None
        )
    )


def from_dataset(steps: list[Step]) -> Step | None:
    """The dataset that a value is an item of: it stays on the CPU, what is taken from it is moved."""
    base = values.torch().utils.data.Dataset
    return next(
        (
            s
            for s in steps
            if s.kind == "construct" and values.is_class(s.value) and issubclass(s.value, base)
        ),
        None,
    )


def bound_mend(evidence: Evidence, step: Step, text: str, after: ast.Call | None = None) -> Mend | None:
    """Append a move to what a statement binds, or add one below where it is unpacked or looped over."""
    source = step.scope.source
    title = "move it where it is bound"
    if isinstance(step.stmt, ast.For | ast.AsyncFor) and step.kind == "loop":
        lines = moves_of(evidence, step, step.stmt.target, step.stmt, text)
        if lines is None:
            return None
        sibling = step.scope.source.statement(after) if after is not None else None
        if sibling is not None and sibling in step.stmt.body:
            assert after is not None and isinstance(after.func, ast.Attribute)
            left = " and ".join(f"`{line.partition(' = ')[0]}`" for line in lines.split("\n"))
            note = f"moves `{_moved_name(after, source)}`, but not {left}"
            made = edits.insert_after(source, sibling, lines)
            return Mend(beside(after), made, sibling, step.scope, note=note)
        made = edits.insert_at_suite_start(source, step.stmt, lines)
        return Mend("move it at the head of the loop", made, step.stmt.target, step.scope)
    if step.kind == "assign" and step.path and isinstance(step.stmt, ast.Assign):
        return unpacking_mend(evidence, step, text)
    if step.kind == "assign" and isinstance(step.stmt, ast.With | ast.AsyncWith):
        made = edits.insert_at_suite_start(source, step.stmt, f"{step.name} = {step.name}{text}")
        return Mend("move it where it is bound", made, step.stmt.body[0], step.scope)
    if step.kind == "loop" or not isinstance(step.node, ast.expr):
        return None
    if step.kind in ("use", "parameter"):
        title = "move it where it is passed" if step.kind == "parameter" else "move it where it is used"
    return appended(step, text, title) or _whole(evidence, step, text)


def _moved_name(call: ast.Call, source: Source) -> str:
    """What a move is of: where it moves a list item by item, the list."""
    assert isinstance(call.func, ast.Attribute)
    for up in source.ancestors(call):
        if isinstance(up, ast.ListComp | ast.GeneratorExp):
            return source.one_line(up.generators[0].iter)
        if isinstance(up, ast.stmt):
            break
    return source.one_line(call.func.value)


def beside(call: ast.Call) -> str:
    """The title of a move that is written like another one near by."""
    return f"move it as line {call.lineno} does"


def _whole(evidence: Evidence, step: Step, text: str) -> Mend | None:
    """Move the items of a container where its name is bound, or above the statement that passes it on."""
    name = step.name if step.kind == "assign" else step.node.id if isinstance(step.node, ast.Name) else ""
    statement = step.stmt if step.kind == "assign" else step.scope.source.statement(step.node)
    held = step.scope.locals.get(name, MISSING)
    if not isinstance(statement, ast.stmt) or held is MISSING or step.scope.frame is None:
        return None
    if comprehension_binding(step.scope.source, step.node, name) is not None:
        return None  # above the statement there is no such name
    lines = container_move(evidence, name, held, text, step.scope)
    if lines is None or isinstance(statement, ast.For | ast.While | ast.With | ast.If):
        return None
    insert = edits.insert_after if step.kind == "assign" else edits.insert_before
    made = insert(step.scope.source, statement, "\n".join(lines))
    return Mend(f"move what `{name}` holds", made, statement, step.scope)
