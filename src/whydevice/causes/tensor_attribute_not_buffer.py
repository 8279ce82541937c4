"""What happened: a module keeps a tensor as a plain attribute, and `.to()` does not reach it.

`nn.Module.to()` moves parameters and buffers. A tensor assigned as `self.mask = torch.ones(8)` is neither.

How to recognise it: the tensor is in the module's `__dict__`, not among its parameters or buffers, and the module's own
parameters are elsewhere. A module that nothing moves, such as a loss without parameters, would keep a buffer where it
is: there the tensor that it is given is what to move.

Before:

    self.mask = torch.ones(8)

After:

    self.register_buffer("mask", torch.ones(8), persistent=False)

Safe: a buffer is moved with the module. `persistent=False` keeps it out of `state_dict()`, so that checkpoints saved
before still load; leave it off when the tensor should be saved.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from .. import edits
from ..evidence import attributes, values
from ..evidence.building import built_by, while_built
from ..evidence.collect import Evidence
from ..evidence.libraries import is_library
from ..evidence.passive import exactly
from ..evidence.scopes import Scope
from ..evidence.steps import Step
from ..types import Edit
from ._facts import owners
from ._finding import Finding, Mend
from ._mend import mend_value
from ._module_state import follows_a_move
from ._moves import move_text
from ._values_shared import together

NAME = "tensor-attribute-not-buffer"
TITLE = "a tensor kept as a plain attribute is not moved with its module"


def find(evidence: Evidence) -> Finding | None:
    step = next((s for s in evidence.steps if s.kind == "attribute" and _is_plain(s)), None)
    if step is None:
        return _in_container(evidence)
    if step.extra.get("outside") or not follows_a_move(evidence, step.owner):
        return None
    if not values.is_leaf(step.value):
        return None
    if not step.extra.get("container") and not _while_constructed(evidence, step):
        return None
    finding = Finding(
        headline=f"`{_text(evidence, step)}` is on {evidence.wrong_device}: it is {_which(evidence, step)}, and .to() moves parameters and buffers only",
        root_node=step.stmt,
        root_scope=step.scope,
        root_note="a plain attribute: .to() moves parameters and buffers only",
    )
    mends = list(_mends(evidence, step))
    made = tuple(e for m in mends for e in m.edits)
    if mends and made:
        first = mends[0]
        finding.mends.append(
            Mend(
                "register it as a buffer; persistent=False keeps old checkpoints loading",
                made,
                first.node,
                first.scope,
            )
        )
    elif step.editable:
        other = mend_value(evidence, evidence.steps)
        if other is not None:
            finding.mends.append(other)
    return finding


def _while_constructed(evidence: Evidence, step: Step) -> bool:
    """Whether the attribute is assigned while its module is built, so that a move that comes later reaches a buffer."""
    method = step.extra.get("method")
    return method is None or built_by(step.owner, method, evidence.sources)


def _to_buffer(step: Step, names: tuple[str, ...]) -> tuple[Edit, ...]:
    """The edit that registers what a statement assigns. Raises EditError."""
    call = step.stmt.value if isinstance(step.stmt, ast.Expr) else None
    if isinstance(call, ast.Call) and ast.unparse(call.func) == "setattr" and len(call.args) == 3:
        owner, name, value = (step.scope.source.segment(a) for a in call.args)
        text = f"{owner}.register_buffer({name}, {value}, persistent=False)"
        return edits.replace_node(step.scope.source, call, text)
    assert isinstance(step.stmt, ast.stmt)
    return edits.attribute_to_buffer(step.scope.source, step.stmt, persistent=False, attributes=names)


def _in_container(evidence: Evidence) -> Finding | None:
    """Tensors in a list or dict of a module: not reached either, and a buffer holds one tensor only."""
    step = next((s for s in evidence.steps if s.kind == "attribute" and _holds(s)), None)
    wrong = evidence.wrong
    if (
        step is None
        or wrong is None
        or not step.editable
        or step.extra.get("method") != "__init__"
        or wrong.leaf.is_module
        or not follows_a_move(evidence, step.owner)
    ):
        return None
    mend = mend_value(evidence, evidence.steps)
    if mend is not None and _reads_own_device(mend, step):
        mend = _moved_at_use(evidence)
    elif mend is not None and mend.scope.function != "__init__" and while_built(mend.scope, evidence.sources):
        mend = (
            _moved_at_use(evidence) or mend
        )  # a helper that builds it is told no device, and should write none
    elif mend is not None:
        together(evidence, mend)
    kind = values.type_name(step.value) if values.is_container(step.value) else "container"
    kept = (
        f"in the {kind} `self.{step.name}`"
        if wrong.expression != f"self.{step.name}"
        else f"in a plain {kind}"
    )
    return Finding(
        headline=f"`{wrong.expression}` is on {evidence.wrong_device}: it is kept {kept}, and .to() moves parameters and buffers only",
        root_node=step.stmt,
        root_scope=step.scope,
        root_note=f"tensors in a plain {kind}: .to() does not reach them",
        mends=[mend] if mend is not None else [],
    )


def _reads_own_device(mend: Mend, step: Step) -> bool:
    """Whether a mend, in a method that `__init__` runs before any move, asks the module itself for its device."""
    parameters = mend.scope.parameters()
    if not parameters or mend.scope.receiver is not step.owner or mend.scope.frame is not None:
        return False
    return any(f"{parameters[0].arg}." in e.text and "device" in e.text for e in mend.edits)


def _moved_at_use(evidence: Evidence) -> Mend | None:
    """A tuple or list of tensors that are all on the wrong device, moved one by one where it is used."""
    leaf = evidence.wrong.leaf if evidence.wrong is not None else None
    if leaf is None or not isinstance(leaf.node, ast.expr) or not exactly(leaf.value, tuple, list):
        return None
    if not all(values.device_of(v) == evidence.wrong_device for _, v in values.items(leaf.value)):
        return None
    text = move_text(evidence, leaf.scope, leaf.node)
    if text is None or text.startswith(".to(t."):
        return None
    moved = f"t{text} for t in {leaf.scope.source.one_line(leaf.node)}"
    whole = f"tuple({moved})" if type(leaf.value) is tuple else f"[{moved}]"
    made = edits.replace_node(leaf.scope.source, leaf.node, whole)
    return Mend("move its tensors where they are used", made, leaf.node, leaf.scope)


def _holds(step: Step) -> bool:
    if attributes.kind_in(step.owner, step.name) in ("parameter", "buffer", "module"):
        return False  # a ParameterDict, ModuleList and their like: a container that .to() does reach
    return values.is_module(step.owner) and bool(
        step.extra.get("container") or values.is_container(step.value)
    )


def _text(evidence: Evidence, step: Step) -> str:
    wrong = evidence.wrong
    return wrong.leaf.expression if wrong is not None else step.name


def _which(evidence: Evidence, step: Step) -> str:
    """The attribute in words: by its name and class where the operand has another name."""
    if _text(evidence, step).endswith(f".{step.name}"):
        return "a plain attribute"
    return f"the plain attribute `{step.name}` of {values.type_name(step.owner)}"


def _is_plain(step: Step) -> bool:
    return (
        values.is_module(step.owner)
        and values.is_tensor(step.value)
        and step.extra.get("held") == "attribute"
    )


def _mends(evidence: Evidence, step: Step) -> Iterator[Mend]:
    """The buffer for this attribute, and for every other left behind in the modules of the frames."""
    if not step.editable or not isinstance(step.stmt, ast.stmt):
        return
    names = {(step.file, step.stmt.lineno): [step.name]}
    places = [Step("attribute", step.node, step.scope, step.name, step.stmt, owner=step.owner)]
    for owner, name in left_behind(evidence):
        for place in attributes.assignments(owner, name, evidence.sources):
            if place.kind != "plain" or is_library(place.source.path) or place.method is None:
                continue
            scope = Scope(place.source, place.method, step.scope.globals)
            other = Step("attribute", place.node, scope, name, place.stmt, owner=owner)
            other.extra["method"] = place.method.name
            if not _while_constructed(evidence, other):
                continue
            mark = (place.source.path, place.stmt.lineno)
            if mark not in names:
                places.append(other)
            names.setdefault(mark, []).append(name)
    for index, each in enumerate(places):
        try:
            made = _to_buffer(each, tuple(names[each.file, each.stmt.lineno]))  # type: ignore[union-attr]
        except edits.EditError:
            if index == 0:
                return
            continue
        yield Mend("", made, each.stmt, each.scope)  # type: ignore[arg-type]


def left_behind(evidence: Evidence) -> Iterator[tuple[Any, str]]:
    """The plain tensor attributes, on the wrong device, of modules whose own state is where it should be."""
    seen: set[int] = set()
    for owner, _, _ in owners(evidence):
        if not values.is_module(owner):
            continue
        fresh: set[int] = set()
        for _, sub, name, value in values.plain_state(owner):
            if id(sub) in seen:
                continue
            fresh.add(id(sub))
            if (
                values.is_tensor(value)
                and values.device_of(value) == evidence.wrong_device
                and values.is_leaf(value)
            ):
                yield sub, name
        seen |= fresh
