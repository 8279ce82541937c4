"""Whether edits put the operands of one operation on different devices that were together before.

The operation passed when the script ran, and would be the next to fail. Only the statement that failed is looked at: what
its names hold is known, and no edit elsewhere may be needed to tell.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..source import EditError
from . import values
from .after import UNCHANGED, After
from .evaluate import try_evaluate
from .infer import NOT_A_TENSOR
from .passive import class_module
from .scopes import MISSING, Scope
from .vocabulary import MOVES, PLAIN_RESULTS

_OF_TORCH = "torch.nn.modules."
# They read the other tensor's shape or dtype only, copy, or want an argument on the CPU.
_TAKE_ANY = (
    MOVES
    | PLAIN_RESULTS
    | frozenset(
        """copy_ set_ type_as view_as expand_as reshape_as broadcast_tensors is_same_size result_type is_tensor save
        index_put index_put_ tensor_split new_tensor meshgrid""".split()
    )
)


def parted(after: After, scopes: Sequence[Scope]) -> tuple[str, ...]:
    """The operands of an operation that stay where they are while the edits move another of its operands away."""
    for scope in scopes:
        node = scope.live.node if scope.live is not None and scope.frame is not None else None
        statement = scope.source.statement(node) if node is not None else None
        if statement is None or scope.source.path not in after.new:
            continue
        for operation in ast.walk(statement):
            # The call that failed may want its operands apart: it is judged for itself.
            if (
                isinstance(operation, ast.expr)
                and operation is not node
                and _all_edits_in(operation, after, scope)
            ):
                left = _left(operation, after, scope)
                if left:
                    return left
    return ()


def _all_edits_in(node: ast.expr, after: After, scope: Scope) -> bool:
    try:
        return after.within(node, scope) == set(after.edits)
    except EditError:
        return False  # inside an f-string, where Python 3.11 gives no places


def _left(operation: ast.expr, after: After, scope: Scope) -> tuple[str, ...]:
    operands = _operands(operation, after, scope)
    before = [_device(one, after, scope) for one in operands]
    tensors = {device for device in before if device not in (None, NOT_A_TENSOR)}
    if len(tensors) != 1 or None in before:
        return ()
    stays: list[str] = []
    gone = False
    for one, device in zip(operands, before, strict=True):
        if device == NOT_A_TENSOR:
            continue
        now = after.changed(one, scope)
        if now is None or (now not in (UNCHANGED, device) and not _sized(one, scope)):
            return ()
        gone = gone or now not in (UNCHANGED, device)
        if now in (UNCHANGED, device) and _sized(one, scope):
            stays.append(scope.source.one_line(one))
    return tuple(stays) if gone else ()


def _operands(node: ast.expr, after: After, scope: Scope) -> list[ast.expr]:
    """The operands of an operation of torch's that wants them together; none of what is no such operation."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if not isinstance(node, ast.Call):
        return []
    arguments = [*node.args, *(k.value for k in node.keywords)]
    kind, name = after.inference.call_kind(node, scope)
    if kind == "module":
        module = try_evaluate(node.func, scope)
        own = class_module(type(module)).startswith(_OF_TORCH)
        return [node.func, *arguments] if own and values.module_device(module) is not None else []
    if name in _TAKE_ANY or kind not in ("torch", "method"):
        return []
    return [node.func.value, *arguments] if isinstance(node.func, ast.Attribute) else arguments


def _device(node: ast.expr, after: After, scope: Scope) -> str | None:
    held = try_evaluate(node, scope)
    if values.is_module(held):
        return values.module_device(held)
    if held is not MISSING and not values.is_tensor(held):
        return NOT_A_TENSOR
    return after.inference.device(node, scope)


def _sized(node: ast.expr, scope: Scope) -> bool:
    """Whether a value is known to be no 0-dim tensor, which PyTorch takes from the CPU."""
    held = try_evaluate(node, scope)
    if held is not MISSING:
        return values.is_module(held) or (values.is_tensor(held) and values.shape_of(held) != ())
    if isinstance(node, ast.BinOp):
        return _sized(node.left, scope) or _sized(node.right, scope)
    return isinstance(node, ast.UnaryOp) and _sized(node.operand, scope)
