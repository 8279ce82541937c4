"""Where to put a tensor on the wanted device, and how this file would write it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .. import edits
from ..evidence import values
from ..evidence.anchors import GLOBAL_DEVICE, LITERAL, LOCAL, NAMED, OWN_DEVICE, Anchor, anchors
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.infer import Inference, current_index, keyword
from ..evidence.scopes import MISSING, Scope, own_nodes
from ..evidence.steps import Step
from ..types import Edit
from ._finding import Mend

SUITES = ("body", "orelse", "finalbody", "handlers")


def source_of(scope: Scope) -> edits.Source:
    """The file of a scope as text that can be edited. Raises EditError."""
    return edits.Source.read(scope.source.path)


# -- how to write the move ------------------------------------------------------------------------------------


def near_names(evidence: Evidence) -> set[str]:
    """The names in the failing expression whose values are on the wanted device."""
    found = set()
    for one in evidence.leaves:
        for node in ast.walk(one.node):
            if isinstance(node, ast.Name):
                found.add(node.id)
    return found


def best_anchor(evidence: Evidence, scope: Scope, at: ast.AST) -> Anchor | None:
    found = anchors(scope, at, evidence.wanted or "cpu", evidence.inference, near_names(evidence))
    return found[0] if found else None


def move_text(evidence: Evidence, scope: Scope, at: ast.AST, anchor: Anchor | None = None) -> str | None:
    """`.to(device)`, `.cuda()`, `.to(x.device)`: what to append at a place."""
    if evidence.wanted == "cpu":
        return ".cpu()"
    anchor = anchor or best_anchor(evidence, scope, at)
    if anchor is None:
        return None
    if anchor.rank == LITERAL and writes_cuda_calls(scope) and evidence.wanted == f"cuda:{current_index()}":
        return ".cuda()"
    return f".to({anchor.text})"


def writes_cuda_calls(scope: Scope) -> bool:
    """Whether the file moves things by `.cuda()` rather than by `.to(...)`."""
    text = "".join(scope.source.lines)
    return text.count(".cuda(") > text.count(".to(")


def moves_in(nodes: list[ast.AST]) -> Iterator[ast.Call]:
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("to", "cuda")
        ):
            yield node


def text_of_move(call: ast.Call, scope: Scope) -> str:
    """`.to(device)` of `x.to(device, torch.float)`: the move without what concerns the dtype."""
    assert isinstance(call.func, ast.Attribute)
    kept = [scope.source.text(a) for a in call.args[:1]]
    kept += [
        f"{k.arg}={scope.source.text(k.value)}" for k in call.keywords if k.arg in ("device", "non_blocking")
    ]
    return f".{call.func.attr}({', '.join(kept)})"


def is_move_to(call: ast.Call, scope: Scope, wanted: str, inference: Inference) -> bool:
    """Whether a call moves a tensor (not a module, nor one just constructed) to the wanted device."""
    assert isinstance(call.func, ast.Attribute)
    receiver = call.func.value
    made = try_evaluate(receiver.func, scope) if isinstance(receiver, ast.Call) else None
    if isinstance(made, type) and issubclass(made, values.torch().nn.Module):
        return False
    return inference.moved_to(call, scope) == wanted and not values.is_module(try_evaluate(receiver, scope))


# -- the suite of a statement ---------------------------------------------------------------------------------


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
        found += node.elts if isinstance(node, ast.Tuple) else [node]
    for call in moves_in(found):
        if is_move_to(call, step.scope, wanted, evidence.inference):
            return call
    return None


def moved_in_call(evidence: Evidence, step: Step) -> ast.Call | None:
    """A move of another argument of the same call (`f(x.to(device), y)`)."""
    parent = step.scope.source.parent(step.node)
    if not isinstance(parent, ast.Call):
        return None
    for call in moves_in([*parent.args, *(k.value for k in parent.keywords)]):
        if call is not step.node and is_move_to(call, step.scope, evidence.wanted or "", evidence.inference):
            return call
    return None


# -- the places -----------------------------------------------------------------------------------------------


def mend_value(evidence: Evidence, steps: list[Step]) -> Mend | None:
    """The edit that puts a value on the wanted device: beside its moved siblings, else where it is made, else
    at the first place on its way where an expression for the device is in scope."""
    if evidence.wrong_device == "meta":
        return None  # a meta tensor has no data to move
    root = steps[-1]
    in_function = root.kind == "factory" and not isinstance(root.scope.node, ast.Module)
    order = (_at_root, _beside_siblings, _outward) if in_function else (_beside_siblings, _at_root, _outward)
    for attempt in order:
        mend = attempt(evidence, steps)
        if mend is not None:
            return mend
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
                    mend.title = "move it like what stands beside it"
                    return mend
    for step in [steps[0], *(s for s in steps if s.kind == "parameter")]:
        call = moved_in_call(evidence, step) if step.editable else None
        if call is not None and isinstance(step.node, ast.expr):
            return _appended(step, text_of_move(call, step.scope), "move it like the argument beside it")
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
                return _appended(
                    use, text_of_move(call, step.scope), "move it where it is passed, like what came with it"
                )
    return None


def _name_movable(step: Step) -> bool:
    """Whether what the name holds now, where it is still alive, can be moved at all."""
    held = (
        step.scope.locals.get(step.name, MISSING)
        if step.scope.frame is not None and step.kind == "assign"
        else MISSING
    )
    return (
        held is MISSING
        or values.is_tensor(held)
        or values.is_module(held)
        or values.class_attribute(type(held), "to") is not None
    )


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
            return _appended(root, text, "move it where it is made") if text else None
    if root.kind == "loader":
        return loader_mend(evidence, root, steps)
    return None


def usable(anchor: Anchor, step: Step, evidence: Evidence) -> bool:
    """Whether an anchor is good enough away from the failing frame: a helper should not reach for a global."""
    if evidence.user is not None and step.scope.node is evidence.user.node:
        return True
    if isinstance(step.scope.node, ast.Module):
        return anchor.rank in (NAMED, OWN_DEVICE, GLOBAL_DEVICE, LITERAL) or anchor.rank <= LOCAL
    return anchor.rank < LOCAL


def factory_mend(
    evidence: Evidence, root: Step, steps: list[Step], *, last_resort: bool = False
) -> Mend | None:
    """Give a factory call its `device=`; where that is a parameter's, give the caller's call one."""
    call = root.node
    assert isinstance(call, ast.Call)
    given = keyword(call, "device")
    if given is not None:
        return _given_device(evidence, root, given)
    anchor = best_anchor(evidence, root.scope, call)
    if anchor is None or not (last_resort or usable(anchor, root, evidence)):
        return None
    source = source_of(root.scope)
    if keyword(call, "generator") is not None:
        text = move_text(evidence, root.scope, call, anchor)
        return (
            _appended(root, text, "move it where it is made; its generator stays where it is")
            if text
            else None
        )
    made: tuple[Edit, ...] = ()
    if anchor.base and _same_dtype(anchor, root, evidence):
        try:
            made = edits.rename_to_like(source, call)
        except edits.EditError:
            made = ()
        if made and _like_base(call) != anchor.base and not _on_wanted(_like_base(call), root, evidence):
            made = ()
    if not made:
        made = edits.add_keyword(source, call, "device", anchor.text)
    return Mend("make it on the device where it is used", made, call, root.scope)


def _like_base(call: ast.Call) -> str:
    size = call.args[0] if call.args else None
    if isinstance(size, ast.Starred):
        size = size.value
    if isinstance(size, ast.Call) and isinstance(size.func, ast.Attribute):
        return ast.unparse(size.func.value)
    return ast.unparse(size.value) if isinstance(size, ast.Attribute) else ""


def _on_wanted(text: str, root: Step, evidence: Evidence) -> bool:
    if not text.isidentifier():
        return False
    return any(
        a.base == text for a in anchors(root.scope, root.node, evidence.wanted or "", evidence.inference)
    )


def _same_dtype(anchor: Anchor, root: Step, evidence: Evidence) -> bool:
    """`*_like` takes over the dtype too: only where both are the default float32."""
    held = (
        evidence.user.locals.get(anchor.base, MISSING)
        if evidence.user is not None and evidence.user.node is root.scope.node
        else MISSING
    )
    return values.is_tensor(held) and values.dtype_of(held) == "float32"


def _given_device(evidence: Evidence, root: Step, given: ast.expr) -> Mend | None:
    scope = root.scope
    if isinstance(given, ast.Name) and given.id in scope.bound:
        argument = scope.bound[given.id]
        if argument.default and scope.call is not None and scope.caller is not None:
            place = Step("construct", scope.call, scope.caller)
            anchor = best_anchor(evidence, scope.caller, scope.call)
            if place.editable and anchor is not None:
                made = edits.add_keyword(source_of(scope.caller), scope.call, given.id, anchor.text)
                return Mend(f"pass the device as `{given.id}`", made, scope.call, scope.caller)
            return None
        if not argument.default and not argument.spread:
            place = Step("parameter", argument.node, argument.scope)
            anchor = best_anchor(evidence, argument.scope, argument.node)
            if place.editable and anchor is not None:
                made = edits.replace_node(source_of(argument.scope), argument.node, anchor.text)
                return Mend("pass the device where it is used", made, argument.node, argument.scope)
        return None
    anchor = best_anchor(evidence, scope, root.node)
    if anchor is None or not root.editable:
        return None
    made = edits.replace_node(source_of(scope), given, anchor.text)
    return Mend("make it on the device where it is used", made, root.node, scope)


def loader_mend(evidence: Evidence, root: Step, steps: list[Step]) -> Mend | None:
    """Move the names that a loop takes from its loader, at the head of the loop's body."""
    loop = next(
        (s for s in reversed(steps) if s.kind == "loop" and isinstance(s.stmt, ast.For | ast.AsyncFor)), None
    )
    if loop is None or not loop.editable or not isinstance(loop.stmt, ast.For | ast.AsyncFor):
        return None
    first = loop.stmt.body[0]
    names = [loop.name, *(n for n in batch_names(evidence, loop) if n != loop.name)]
    ordered = [n for n in target_names(loop.stmt.target) if n in names] or [loop.name]
    text = move_text(evidence, loop.scope, first)
    if text is None:
        return None
    container = loop.path and not isinstance(loop.stmt.target, ast.Tuple | ast.List)
    if container:
        return None
    line = f"{', '.join(ordered)} = {', '.join(n + text for n in ordered)}"
    made = edits.insert_at_suite_start(source_of(loop.scope), loop.stmt, line)
    return Mend("move the batch where it is taken from the loader", made, first, loop.scope)


def target_names(target: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]


def batch_names(evidence: Evidence, loop: Step) -> list[str]:
    """The other names of a loop's target that hold tensors on the wrong device and are used as such below."""
    assert isinstance(loop.stmt, ast.For | ast.AsyncFor)
    found = []
    for name in target_names(loop.stmt.target):
        held = loop.scope.locals.get(name, MISSING)
        if (
            values.is_tensor(held)
            and values.device_of(held) == evidence.wrong_device
            and needed(name, loop.stmt, loop.scope, evidence)
        ):
            found.append(name)
    return found


def needed(name: str, within: ast.AST, scope: Scope, evidence: Evidence) -> bool:
    """Whether a name is used, bare, as an operand or argument: not only moved, measured or turned to numpy."""
    for node in ast.walk(within):
        if not (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)):
            continue
        parent = scope.source.parent(node)
        if isinstance(parent, ast.Attribute):
            if parent.attr in (
                "to",
                "cuda",
                "size",
                "shape",
                "dim",
                "numel",
                "item",
                "tolist",
                "numpy",
                "dtype",
                "device",
            ):
                continue
            return True
        if isinstance(parent, ast.Call):
            called = ast.unparse(parent.func).rpartition(".")[2]
            if called in (
                "len",
                "print",
                "range",
                "pack_padded_sequence",
                "int",
                "float",
                "list",
                "enumerate",
            ):
                continue
            return True
        if isinstance(parent, ast.BinOp | ast.Compare | ast.Subscript):
            return True
    return False


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
            text = move_text(evidence, step.scope, step.node, anchor)
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
            if s.kind == "construct" and isinstance(s.value, type) and issubclass(s.value, base)
        ),
        None,
    )


def movable(node: ast.AST, scope: Scope) -> bool:
    """Whether a value has a `.to()` of its own: a tensor, a module, or an object whose class defines it."""
    held = try_evaluate(node, scope)
    if held is MISSING or values.is_tensor(held) or values.is_module(held):
        return True
    return values.class_attribute(type(held), "to") is not None


def bound_mend(evidence: Evidence, step: Step, text: str, after: ast.Call | None = None) -> Mend | None:
    """Append a move to what a statement binds, or add one below where it is unpacked or looped over."""
    source = source_of(step.scope)
    title = "move it where it is bound"
    if isinstance(step.stmt, ast.For | ast.AsyncFor) and step.kind == "loop":
        line = f"{step.name} = {step.name}{text}"
        sibling = step.scope.source.statement(after) if after is not None else None
        if sibling is not None and sibling in step.stmt.body:
            made = edits.insert_after(source, sibling, line)
            return Mend("move it like what stands beside it", made, sibling, step.scope)
        made = edits.insert_at_suite_start(source, step.stmt, line)
        return Mend("move it at the head of the loop", made, step.stmt.body[0], step.scope)
    if step.kind == "assign" and step.path and isinstance(step.stmt, ast.stmt):
        made = edits.insert_after(source, step.stmt, f"{step.name} = {step.name}{text}")
        return Mend(title, made, step.stmt, step.scope)
    if step.kind == "loop" or not isinstance(step.node, ast.expr):
        return None
    if step.kind in ("use", "parameter"):
        title = "move it where it is passed"
    return _appended(step, text, title)


def _appended(step: Step, text: str | None, title: str) -> Mend | None:
    if text is None or not isinstance(step.node, ast.expr):
        return None
    if isinstance(
        step.node,
        ast.List | ast.Tuple | ast.Dict | ast.ListComp | ast.DictComp | ast.GeneratorExp | ast.Constant,
    ):
        return None
    if not movable(step.node, step.scope) or (step.name and not _name_movable(step)):
        return None
    made = edits.append_method(source_of(step.scope), step.node, text)
    return Mend(title, made, step.node, step.scope)


def cached(scope: Scope) -> bool:
    """Whether a function's result is kept between calls (`lru_cache`, `cache`): it must not follow one call's device."""
    decorators = getattr(scope.node, "decorator_list", [])
    return any("cache" in ast.unparse(d) for d in decorators)
