"""How a file writes a move to the wanted device, and which moves stand beside a place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.anchors import GLOBAL_DEVICE, LITERAL, NAMED, OWN_DEVICE, Anchor, anchors
from ..evidence.collect import Evidence
from ..evidence.evaluate import call_name, try_evaluate
from ..evidence.infer import Inference, current_index, keyword
from ..evidence.moveless import has_move
from ..evidence.passive import exactly
from ..evidence.scopes import MISSING, Scope, bindings_of, dotted, own_nodes, position
from ..evidence.steps import Step
from ._finding import Mend

# Expressions whose value has no `.to()`.
_NO_MOVE = (
    ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp, ast.GeneratorExp, ast.Constant, ast.Lambda
)  # fmt: skip
SUITES = ("body", "orelse", "finalbody", "handlers")


def near_names(evidence: Evidence) -> set[str]:
    """The names in the failing expression: a device read from one of them needs no explanation."""
    found = set()
    for one in evidence.leaves:
        for node in ast.walk(one.node):
            if isinstance(node, ast.Name):
                found.add(node.id)
    return found


def best_anchor(evidence: Evidence, scope: Scope, at: ast.AST) -> Anchor | None:
    """The expression that names the wanted device best at a place: the one that the function itself moves by, if any."""
    made_from = {ast.unparse(n) for n in _carriers(at, scope, evidence.inference)}
    own = own_move(evidence, scope, at)
    argument = _argument(own) if own is not None else None
    if argument is not None and not isinstance(argument, ast.Constant):
        return Anchor(scope.source.one_line(argument), NAMED)
    found = anchors(scope, at, evidence.wanted or "cpu", evidence.inference, near_names(evidence))
    best = next((a for a in found if not (a.base and _within(a.base, made_from))), None)
    if own is not None and best is not None and _of_module(best):
        return _written_device(argument, evidence.wanted or "") or best
    return best


def _of_module(anchor: Anchor) -> bool:
    """Whether an anchor asks a module for its device: `net.weight.device`, `next(net.parameters()).device`."""
    return anchor.rank not in (NAMED, OWN_DEVICE, GLOBAL_DEVICE, LITERAL) and (
        not anchor.base or "." in anchor.base
    )


def _written_device(argument: ast.Constant | None, wanted: str) -> Anchor | None:
    """The device of `.cuda()`, `.cuda(1)` and `.to("cuda")` as a string."""
    if argument is not None and type(argument.value) is str:
        return Anchor(f'"{argument.value}"', LITERAL)
    if argument is not None:
        return Anchor(f'"{wanted}"', LITERAL)
    return Anchor('"cuda"', LITERAL) if wanted == f"cuda:{current_index()}" else None


def own_move(evidence: Evidence, scope: Scope, at: ast.AST) -> ast.Call | None:
    """The move to the wanted device as the function of a place writes it most often, where its device has a name of its
    own there: no tensor's `.device`, which is right for that tensor only.
    """
    statement = at if isinstance(at, ast.stmt) else scope.source.statement(at)
    if statement is None or evidence.wanted == "cpu":
        return None
    found: dict[str, list[ast.Call]] = {}
    for call in moves_in(own_nodes(scope.node)):
        if evidence.inference.moved_to(call, scope) == evidence.wanted and _names_device(
            _argument(call), scope
        ):
            if _bound_above(call, statement, scope):
                found.setdefault(text_of_move(call, scope, False), []).append(call)
    return max(found.values(), key=len)[0] if found else None


def _argument(call: ast.Call) -> ast.expr | None:
    return keyword(call, "device") or (call.args[0] if call.args else None)


def _names_device(node: ast.expr | None, scope: Scope) -> bool:
    """Whether a move's argument, which may be left out, is a device's own name: `device`, `args.device`, `"cuda"`, `gpu`."""
    if node is None or isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Attribute):
        held = try_evaluate(node.value, scope)
        return (
            held is not MISSING
            and not values.is_tensor(held)
            and not values.is_tensor(try_evaluate(node, scope))
        )
    return isinstance(node, ast.Name) and not values.is_tensor(try_evaluate(node, scope))


def _carriers(node: ast.AST, scope: Scope, inference: Inference) -> Iterator[ast.AST]:
    """The parts of an expression whose device its value has: where it is wrong, they were wrong when it ran."""
    if isinstance(node, ast.BinOp):
        yield from _carriers(node.left, scope, inference)
        yield from _carriers(node.right, scope, inference)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if inference.call_kind(node, scope)[0] in ("method", "move"):
            yield from _carriers(node.func.value, scope, inference)
    elif isinstance(node, ast.Subscript | ast.UnaryOp):
        inner = node.value if isinstance(node, ast.Subscript) else node.operand
        yield from _carriers(inner, scope, inference)
    elif isinstance(node, ast.Name | ast.Attribute):
        yield node


def _within(base: str, carriers: set[str]) -> bool:
    return any(base == text or base.startswith(f"{text}.") for text in carriers)


def move_text(
    evidence: Evidence, scope: Scope, at: ast.AST, anchor: Anchor | None = None, *, batch: bool = False
) -> str | None:
    """`.to(device)`, `.cuda()`, `.to(x.device)`: what to append at a place, as the moves of its function are written.

    `batch` keeps their `non_blocking`, which is for data on its way to the GPU.
    """
    if evidence.wanted == "cpu":
        return ".cpu()"
    own = own_move(evidence, scope, at)
    if own is not None:
        return text_of_move(own, scope, batch)
    anchor = anchor or best_anchor(evidence, scope, at)
    if anchor is None:
        return None
    if anchor.rank == LITERAL and writes_cuda_calls(scope) and evidence.wanted == f"cuda:{current_index()}":
        return ".cuda()"
    return f".to({anchor.text})"


def writes_cuda_calls(scope: Scope) -> bool:
    """Whether the file moves things by `.cuda()` rather than by `.to(...)`."""
    text = scope.source.text
    return text.count(".cuda(") > text.count(".to(")


def moves_in(nodes: list[ast.AST]) -> Iterator[ast.Call]:
    """The `.to(...)` and `.cuda(...)` calls among nodes."""
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("to", "cuda")
        ):
            yield node


def text_of_move(call: ast.Call, scope: Scope, batch: bool = True) -> str:
    """`.to(device)` of `x.to(device, torch.float)`: the move without what concerns the dtype; with `non_blocking` where
    it is a batch that is moved.
    """
    assert isinstance(call.func, ast.Attribute)
    kept = [scope.source.one_line(a) for a in call.args[:1]]
    kept += [
        f"{k.arg}={scope.source.one_line(k.value)}"
        for k in call.keywords
        if k.arg == "device" or (batch and k.arg == "non_blocking")
    ]
    return f".{call.func.attr}({', '.join(kept)})"


def is_move_to(call: ast.Call, scope: Scope, wanted: str, inference: Inference) -> bool:
    """Whether a call moves a tensor (not a module, nor one just constructed) to the wanted device."""
    assert isinstance(call.func, ast.Attribute)
    receiver = call.func.value
    made = try_evaluate(receiver.func, scope) if isinstance(receiver, ast.Call) else None
    if made is not None and values.is_class(made) and issubclass(made, values.torch().nn.Module):
        return False
    return inference.moved_to(call, scope) == wanted and not values.is_module(try_evaluate(receiver, scope))


def appended(step: Step, text: str | None, title: str) -> Mend | None:
    """Append a move to a step's expression; None where neither it, nor what its name holds now, can be moved."""
    if text is None or not isinstance(step.node, ast.expr):
        return None
    if isinstance(step.node, _NO_MOVE) or isinstance(getattr(step.node, "ctx", None), ast.Store):
        return None
    if not (has_move(try_evaluate(step.node, step.scope)) and has_move(bound_now(step))):
        return None
    if _names_gpu(step.node):
        return None  # it says itself which GPU: a second move would not be what is meant
    made = edits.append_method(step.scope.source, step.node, text)
    if step.scope.source.segment(step.node).endswith(text):
        return None  # it was moved by these very words, and something else has put the tensor elsewhere
    return Mend(title, made, step.node, step.scope)


def _names_gpu(node: ast.expr) -> bool:
    """`x.cuda()`, `x.to("cuda:1")`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    given = node.args[0] if node.args else None
    literal = isinstance(given, ast.Constant) and str(given.value).startswith("cuda")
    return node.func.attr == "cuda" or (node.func.attr == "to" and literal)


def bound_now(step: Step) -> Any:
    """What the name that a step's expression was bound to, or the parameter that it was passed as, holds now."""
    scope, name = step.scope, step.name
    if step.kind == "parameter":
        scope = step.extra.get("callee", scope)
    elif step.kind != "assign":
        statement = scope.source.parent(step.node)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
    return scope.locals.get(name, MISSING) if name and scope.frame is not None else MISSING


def moved_whole(text: str, held: Any, move: str) -> str | None:
    """An expression moved: a flat container by its tensors, else what has a `.to()`; None for what has none."""
    if issubclass(type(held), dict) and all(values.is_tensor(v) for v in dict.values(held)):
        return f"{{k: v{move} for k, v in {text}.items()}}"
    if exactly(held, list, tuple) and all(values.is_tensor(v) for v in held):
        inner = f"t{move} for t in {text}"
        return f"[{inner}]" if type(held) is list else f"tuple({inner})"
    if held is not MISSING and values.class_attribute(type(held), "to") is not None:
        return f"{text}{move}"
    return None


def suite_of(scope: Scope, statement: ast.AST) -> list[ast.stmt]:
    """The block of statements that a statement stands in."""
    parent = scope.source.parent(statement)
    for name in SUITES:
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return []


def sibling_move(evidence: Evidence, step: Step) -> ast.Call | None:
    """A move, in the same block, of something bound just like this: what was forgotten here was done there."""
    statement = step.scope.source.statement(step.stmt) if step.stmt is not None else None
    wanted = evidence.wanted or ""
    if statement is None or wanted == "cpu":
        return None
    if isinstance(statement, ast.For | ast.AsyncFor):
        block: list[ast.stmt] = statement.body
        nodes = [s.value for s in block if isinstance(s, ast.Assign)]
    else:
        block = suite_of(step.scope, statement)
        index = block.index(statement) if statement in block else 0
        nodes = [
            s.value
            for s in block[max(0, index - 6) : index + 7]
            if isinstance(s, ast.Assign) and s is not statement
        ]
    found: list[ast.AST] = []
    for node in nodes:
        found += [_of_items(each) for each in (node.elts if isinstance(node, ast.Tuple) else [node])]
    for call in moves_in(found):
        if is_move_to(call, step.scope, wanted, evidence.inference) and _bound_above(
            call, statement, step.scope
        ):
            return call
    return None


def _of_items(node: ast.expr) -> ast.expr:
    """What a list of moved items is made of: `x.to(device)` of `[x.to(device) for x in xs]`, of `list(...)` too."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and call_name(node) in ("list", "tuple", "dict"):
        node = node.args[0]
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return _of_items(node.elt)
    return _of_items(node.value) if isinstance(node, ast.DictComp) else node


def _bound_above(call: ast.Call, statement: ast.stmt, scope: Scope) -> bool:
    """Whether what a move's arguments name has a value at an earlier statement of the same body."""
    bindings = bindings_of(scope.node)
    for argument in [*call.args, *(k.value for k in call.keywords)]:
        for name in ast.walk(argument):
            text = dotted(name) if isinstance(name, ast.Name | ast.Attribute) else None
            found = bindings.get(text, []) if text is not None else []
            if found and not any(b.position <= position(statement) for b in found):
                return text is not None and scope.is_parameter(text)
    return True


def moved_in_call(evidence: Evidence, step: Step) -> ast.Call | None:
    """A move of another argument of the same call (`f(x.to(device), y)`)."""
    parent = step.scope.source.parent(step.node)
    if not isinstance(parent, ast.Call):
        return None
    for call in moves_in([*parent.args, *(k.value for k in parent.keywords)]):
        if call is not step.node and is_move_to(call, step.scope, evidence.wanted or "", evidence.inference):
            return call
    return None


def target_names(target: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
