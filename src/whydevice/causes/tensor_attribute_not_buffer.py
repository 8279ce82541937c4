"""What happened: a module keeps a tensor as a plain attribute, and `.to()` does not reach it.

`nn.Module.to()` moves parameters and buffers. A tensor assigned as `self.mask = torch.ones(8)` is neither.

How to recognise it: the tensor is in the module's `__dict__`, not among its parameters or buffers, and the module's own
parameters are elsewhere.

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
from ..evidence.collect import Evidence
from ..evidence.frames import is_library
from ..evidence.scopes import Scope
from ..evidence.steps import Step
from ._facts import owners
from ._finding import Finding, Mend
from ._mend import mend_value

NAME = "tensor-attribute-not-buffer"
TITLE = "a tensor kept as a plain attribute is not moved with its module"
ORDER = 30


def find(evidence: Evidence) -> Finding | None:
    step = next((s for s in evidence.steps if s.kind == "attribute" and _is_plain(s)), None)
    if step is None:
        return _in_container(evidence)
    if step.extra.get("outside"):
        return None
    if not values.is_leaf(step.value):
        return None
    if step.extra.get("method") not in ("__init__", "__post_init__", None) and not step.extra.get(
        "container"
    ):
        return None
    finding = Finding(
        headline=f"`{_text(evidence, step)}` is on {evidence.wrong_device}: it is a plain attribute, and .to() moves parameters and buffers only",
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
    ):
        return None
    mend = mend_value(evidence, evidence.steps)
    return Finding(
        headline=f"`{wrong.expression}` is on {evidence.wrong_device}: it is kept in the container `self.{step.name}`, and .to() moves parameters and buffers only",
        root_node=step.stmt,
        root_scope=step.scope,
        root_note="tensors in a plain container: .to() does not reach them",
        mends=[mend] if mend is not None else [],
    )


def _holds(step: Step) -> bool:
    return values.is_module(step.owner) and bool(
        step.extra.get("container") or values.is_container(step.value)
    )


def _text(evidence: Evidence, step: Step) -> str:
    wrong = evidence.wrong
    return wrong.leaf.expression if wrong is not None else step.name


def _is_plain(step: Step) -> bool:
    return (
        values.is_module(step.owner)
        and values.is_tensor(step.value)
        and step.extra.get("held") == "attribute"
    )


def _mends(evidence: Evidence, step: Step) -> Iterator[Mend]:
    """The buffer for this attribute, and for every other left behind in the modules of the frames."""
    if step.editable and isinstance(step.stmt, ast.stmt):
        try:
            yield Mend(
                "",
                edits.attribute_to_buffer(
                    step.scope.source, step.stmt, persistent=False, attributes=(step.name,)
                ),
                step.stmt,
                step.scope,
            )
        except edits.EditError:
            return
    seen = {(step.file, step.line)}
    for owner, name in left_behind(evidence):
        for place in attributes.assignments(owner, name, evidence.sources):
            mark = (place.source.path, place.stmt.lineno)
            if (
                place.kind != "plain"
                or is_library(place.source.path)
                or place.method is None
                or place.method.name != "__init__"
                or mark in seen
            ):
                continue
            seen.add(mark)
            scope = Scope(place.source, place.method, step.scope.globals)
            try:
                yield Mend(
                    "",
                    edits.attribute_to_buffer(scope.source, place.stmt, persistent=False, attributes=(name,)),
                    place.stmt,
                    scope,
                )
            except edits.EditError:
                continue


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
