"""Objects that are no modules and keep tensors: they are moved where they are made, since nothing else moves them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from .. import edits
from ..evidence import attributes, values
from ..evidence.building import setters
from ..evidence.collect import Evidence
from ..evidence.libraries import is_library
from ..evidence.scopes import MISSING, Scope, bindings_of
from ..evidence.steps import Step
from ._batches import frozen
from ._finding import Mend
from ._moves import move_text
from ._order import method_scopes

MOST_MOVED = 6


def after_construction(evidence: Evidence, step: Step) -> Mend | None:
    """Below the line that made the object, move all of its tensors that are on the wrong device."""
    if step.owner is MISSING or values.is_module(step.owner) or frozen(type(step.owner)):
        return None
    if _of_library(type(step.owner), evidence):
        return None  # its attributes are its own to set: what the user's code reads of it is moved there
    names = [
        name
        for name, held in values.named(values.instance_dict(step.owner))
        if values.is_tensor(held) and values.device_of(held) == evidence.wrong_device and name.isidentifier()
    ]
    if not 0 < len(names) <= MOST_MOVED:
        return None
    for name, statement, scope in [*_locals(evidence, step.owner), *_attributes(evidence, step.owner)]:
        below = Step("assign", statement.value, scope, name, statement)
        text = move_text(evidence, scope, statement)
        if text is None or not below.editable:
            continue
        if not all(_there(evidence, step.owner, each, statement) for each in names):
            continue
        lines = "\n".join(f"{name}.{each} = {name}.{each}{text}" for each in names)
        made = edits.insert_after(scope.source, statement, lines)
        return Mend("move its tensors where it is made", made, statement, scope)
    return None


def _there(evidence: Evidence, owner: Any, name: str, statement: ast.Assign) -> bool:
    """Whether the object has the attribute once the statement that makes it has run: `scaler = Scaler().fit(x)`."""
    later = setters(owner, name, evidence.sources)
    called = [n.func for n in ast.walk(statement) if isinstance(n, ast.Call)]
    named = {func.attr for func in called if isinstance(func, ast.Attribute)}
    if not later or any(place.method is not None and place.method.name in named for place in later):
        return True
    return any(
        place.method is not None and place not in later and not isinstance(place.node, ast.Constant)
        for place in attributes.assignments(owner, name, evidence.sources)
    )


def _of_library(cls: type, evidence: Evidence) -> bool:
    located = attributes.class_source(cls, evidence.sources)
    return located is not None and is_library(located[0].path)


def _locals(evidence: Evidence, owner: Any) -> Iterator[tuple[str, ast.Assign, Scope]]:
    """The only assignment of each name in the frames that holds the object."""
    for scope in evidence.tracer.live:
        for name, held in list(scope.locals.items())[:200]:
            found = bindings_of(scope.node).get(name, []) if held is owner else []
            if len(found) == 1 and isinstance(found[0].stmt, ast.Assign) and not found[0].path:
                yield name, found[0].stmt, scope


def _attributes(evidence: Evidence, owner: Any) -> Iterator[tuple[str, ast.Assign, Scope]]:
    """`self.rms = RunningMean(...)`: where a class made the object that one of the frames' objects keeps."""
    seen: set[int] = set()
    for live in reversed(evidence.tracer.live):
        keeper = live.receiver
        if keeper is MISSING or id(keeper) in seen:
            continue
        seen.add(id(keeper))
        for attribute, held in values.named(values.instance_dict(keeper)):
            places = attributes.assignments(keeper, attribute, evidence.sources) if held is owner else []
            if len(places) == 1 and isinstance(places[0].node, ast.Call) and places[0].method is not None:
                scope = next((s for s in method_scopes(evidence, keeper) if s.node is places[0].method), None)
                statement = places[0].stmt
                if scope is not None and isinstance(statement, ast.Assign) and not places[0].path:
                    yield ast.unparse(statement.targets[0]), statement, scope
