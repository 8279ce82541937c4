"""Batches: what a loop or an unpacking takes at once is moved at once, a dict or a tuple as a whole."""

from __future__ import annotations

import ast
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.moveless import has_move
from ..evidence.operands import held_tensors
from ..evidence.passive import exactly, is_a
from ..evidence.scopes import MISSING, Scope, own_nodes
from ..evidence.steps import Step
from ._finding import Mend
from ._moves import move_text, target_names

MOST_ITEMS = 4  # moved one by one; more are moved by a comprehension

# What is read off a tensor wherever it is; a name that is used in no other way need not be moved.
_MEASURES = frozenset(
    "to cuda cpu size shape dim ndim numel item tolist numpy dtype device detach stride requires_grad".split()
)
_PLAIN_CALLS = frozenset(
    "len print range pack_padded_sequence int float list enumerate str isinstance type zip".split()
)


def loader_mend(evidence: Evidence, steps: list[Step]) -> Mend | None:
    """Move what a loop takes from its loader at the head of its body, or below where it is unpacked there."""
    loop = next(
        (s for s in reversed(steps) if s.kind == "loop" and isinstance(s.stmt, ast.For | ast.AsyncFor)), None
    )
    if loop is None:
        drawn = next((s for s in reversed(steps) if s.kind == "assign" and s.path), None)
        return unpacking_mend(evidence, drawn) if drawn is not None else None
    if not loop.editable or not isinstance(loop.stmt, ast.For | ast.AsyncFor):
        return None
    first = loop.stmt.body[0]
    unpacked = next((s for s in steps if _unpacks(s, loop)), None)
    if unpacked is not None:
        return unpacking_mend(evidence, unpacked)
    text = move_text(evidence, loop.scope, first, batch=True)
    if text is None:
        return None
    lines = moves_of(evidence, loop, loop.stmt.target, loop.stmt, text)
    if lines is None:
        return None
    made = edits.insert_at_suite_start(loop.scope.source, loop.stmt, lines)
    return Mend("move the batch where it is taken from the loader", made, loop.stmt.target, loop.scope)


def _unpacks(step: Step, loop: Step) -> bool:
    """Whether a step unpacks the loop's target by a statement of its own (`for batch in loader: x, y = batch`)."""
    return (
        step.kind == "assign"
        and step.editable
        and step.scope is loop.scope
        and isinstance(step.stmt, ast.Assign)
        and isinstance(step.stmt.targets[0], ast.Tuple | ast.List)
        and isinstance(step.node, ast.Name)
        and step.node.id == loop.name
    )


def unpacking_mend(evidence: Evidence, step: Step, text: str | None = None) -> Mend | None:
    """Below `x, y = next(batches)`: move what was unpacked and is needed on the other device."""
    if not isinstance(step.stmt, ast.Assign) or not step.editable:
        return None
    text = text or move_text(evidence, step.scope, step.stmt, batch=True)
    target = step.stmt.targets[0]
    lines = moves_of(evidence, step, target, step.scope.node, text) if text is not None else None
    if lines is None:
        return None
    made = edits.insert_after(step.scope.source, step.stmt, lines)
    return Mend("move it where it is unpacked", made, step.stmt, step.scope)


def moves_of(evidence: Evidence, step: Step, target: ast.expr, within: ast.AST, text: str) -> str | None:
    """The statements that move a step's name, with the other names of the target that are wrong and needed."""
    ordered = [
        n
        for n in target_names(target)
        if n == step.name or _wrong_and_needed(evidence, n, within, step.scope)
    ] or [step.name]
    plain = [n for n in ordered if has_move(step.scope.locals.get(n, MISSING))]
    lines: list[str] = []
    if plain:
        lines.append(f"{', '.join(plain)} = {', '.join(n + text for n in plain)}")
    for name in ordered:
        if name not in plain:
            held = step.scope.locals.get(name, MISSING)
            whole = container_move(evidence, name, held, text, step.scope, rows=True)
            if whole is None and name == step.name:
                return None
            lines += whole or []
    return "\n".join(lines)


def _wrong_and_needed(evidence: Evidence, name: str, within: ast.AST, scope: Scope) -> bool:
    held = scope.locals.get(name, MISSING)
    if values.is_tensor(held):
        wrong = values.device_of(held) == evidence.wrong_device
    else:
        wrong = values.is_container(held) and any(
            h.device == evidence.wrong_device for h in held_tensors(held)
        )
    return wrong and not on_host(name, held) and needed(name, within, scope)


def needed(name: str, within: ast.AST, scope: Scope) -> bool:
    """Whether a name is used as an operand or argument: not only moved, measured or turned to numpy."""
    for node in ast.walk(within):
        if not (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)):
            continue
        parent = scope.source.parent(node)
        if isinstance(parent, ast.Attribute):
            if parent.attr not in _MEASURES:
                return True
        elif isinstance(parent, ast.Call | ast.keyword):
            call = parent if isinstance(parent, ast.Call) else scope.source.parent(parent)
            called = ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
            if called not in _PLAIN_CALLS:
                return True
        elif isinstance(parent, ast.BinOp | ast.Compare | ast.Subscript | ast.List | ast.Tuple | ast.Starred):
            return True
    return False


def on_host(key: object, held: Any) -> bool:
    """Lengths, which `pack_padded_sequence` wants on the CPU: whole numbers in a row, under such a name."""
    if type(key) is not str or not values.is_tensor(held):
        return False
    whole = (values.dtype_of(held) or "").startswith("int")
    return "len" in key.lower() and whole and len(values.shape_of(held) or ()) == 1


def container_move(
    evidence: Evidence, name: str, held: Any, text: str, scope: Scope, *, rows: bool = False
) -> list[str] | None:
    """The statements that move the tensors of a container that `name` holds; None where none is sure to be right.

    With `rows`, of a batch, those of the dicts and tuples in a list too."""
    if held is MISSING or values.is_tensor(held):
        return [f"{name} = {name}{text}"]
    kind = type(held)
    if values.class_attribute(kind, "to") is not None:
        return [f"{name} = {name}{text}"]
    items = list(values.items(held))
    wrong = [k for k, v in items if _wrong(evidence, v) and not on_host(k, v) and _read(name, k, scope)]
    if issubclass(kind, dict) and all(is_a(k, str) for k in wrong):
        whole = len(wrong) == len(items) and not _loses_items(name, scope)
        return _dict_move(name, wrong, text, whole)
    whole_rows = _rows_move(evidence, name, held, text, scope) if rows else None
    if whole_rows is not None:
        return [whole_rows]
    if kind in (list, tuple) or (
        issubclass(kind, tuple) and values.class_attribute(kind, "_make") is not None
    ):
        return _row_move(name, kind, items, wrong, text)
    if values.class_attribute(kind, "__dataclass_fields__") and not frozen(kind):
        own = values.instance_dict(held)
        fields = [k for k, v in own.items() if _wrong(evidence, v) and not on_host(k, v)]
        return [f"{name}.{k} = {name}.{k}{text}" for k in fields] or None
    return None


def _read(name: str, key: object, scope: Scope) -> bool:
    """Whether an item is used where it is: each time that it is read under its key, it is not only moved."""
    parents = [
        scope.source.parent(node)
        for node in own_nodes(scope.node)
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and node.slice.value == key
        and ast.unparse(node.value) == name
    ]
    moved = [isinstance(p, ast.Attribute) and p.attr in ("to", "cuda", "cpu") for p in parents]
    return not moved or not all(moved)


def _wrong(evidence: Evidence, held: Any) -> bool:
    return values.is_tensor(held) and values.device_of(held) == evidence.wrong_device


def frozen(kind: type) -> bool:
    return bool(getattr(values.class_attribute(kind, "__dataclass_params__"), "frozen", False))


def _loses_items(name: str, scope: Scope) -> bool:
    """Whether something is taken out of a dict: where it is moved, it may have held more than it does now."""
    for node in own_nodes(scope.node):
        if isinstance(node, ast.Delete) and any(
            isinstance(t, ast.Subscript) and ast.unparse(t.value) == name for t in node.targets
        ):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("pop", "popitem", "clear") and ast.unparse(node.func.value) == name:
                return True
    return False


def _dict_move(name: str, wrong: list[Any], text: str, whole: bool) -> list[str] | None:
    if not wrong:
        return None
    if whole and len(wrong) > 1 and "k" != name != "v":
        return [f"{name} = {{k: v{text} for k, v in {name}.items()}}"]
    if len(wrong) <= MOST_ITEMS:
        return [f'{name}["{k}"] = {name}["{k}"]{text}' for k in wrong]
    return None


def _rows_move(evidence: Evidence, name: str, held: Any, text: str, scope: Scope) -> str | None:
    """The statement that moves a list or tuple of dicts or rows (the targets of a detector), all of them alike."""
    rows = [row for _, row in values.items(held)]
    kind = type(rows[0]) if rows else None
    if not exactly(held, list, tuple) or kind not in (dict, list, tuple) or name in ("k", "t", "v"):
        return None
    cells = [cell for row in rows for cell in values.items(row)]
    if any(type(row) is not kind for row in rows) or any(on_host(k, v) for k, v in cells):
        return None
    if not any(_wrong(evidence, v) for _, v in cells):
        return None
    move = f"v{text}"
    if not all(values.is_tensor(v) for _, v in cells):
        if "torch" not in scope.globals or any(values.is_container(v) for _, v in cells):
            return None
        move = f"v{text} if torch.is_tensor(v) else v"
    each = f"{{k: {move} for k, v in t.items()}}" if kind is dict else f"[{move} for v in t]"
    if kind is tuple:
        each = f"tuple({each[1:-1]})"
    return (
        f"{name} = [{each} for t in {name}]"
        if type(held) is list
        else f"{name} = tuple({each} for t in {name})"
    )


def _row_move(
    name: str, kind: type, items: list[tuple[object, Any]], wrong: list[Any], text: str
) -> list[str] | None:
    if not wrong or len(wrong) != len(items) or name == "t":
        return None
    moved = f"t{text} for t in {name}"
    if kind is list:
        return [f"{name} = [{moved}]"]
    return [f"{name} = tuple({moved})"] if kind is tuple else [f"{name} = {name}._make({moved})"]
