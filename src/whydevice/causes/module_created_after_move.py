"""What happened: one part of a module was made, or replaced, after the module had been moved.

`model.to(device)` moves what the model has at that moment. A head put in afterwards, or a layer made in `forward`,
stays where it was made.

How to recognise it: one child is on the CPU, its siblings are on the GPU, and the child was assigned later.

Before:

    model.to(device)
    model.head = nn.Linear(32, 7)

After:

    model.to(device)
    model.head = nn.Linear(32, 7).to(device)

Safe for the run. An optimizer that was made before has the old head's parameters: make it after the last assignment.
"""

from __future__ import annotations

import ast

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.scopes import Scope, own_nodes
from ..evidence.steps import Step
from ._finding import Finding, Mend
from ._module_state import constructed_class, whole_module
from ._modules import appended_move, moved_construction
from ._order import value_now
from ._taken_back import taken_back
from ._user_calls import every_scope

NAME = "module-created-after-move"
TITLE = "a part of a module was made after the module was moved"


def find(evidence: Evidence) -> Finding | None:
    found = whole_module(evidence)
    user = evidence.user
    if found is None or user is None:
        return None
    expression, module, steps = found
    if not _belongs(evidence, module) or taken_back(evidence, module):
        return None
    if evidence.wrong is not None and evidence.wrong.leaf.value is not module:
        return None
    appended = _appended(evidence, module)
    if appended is not None:
        return _put_into_list(evidence, expression, *appended)
    built = next((s for s in reversed(steps) if s.kind == "construct" and s.editable), None)
    assigned = next((s for s in steps if s.kind == "attribute" and s.editable), None)
    if assigned is not None and _makes_another(assigned, module):
        return None  # what was assigned there has been replaced since
    mend = moved_construction(evidence, steps)
    late = assigned is not None and (
        assigned.extra.get("outside") or assigned.extra.get("method") != "__init__"
    )
    finding = Finding(
        certainty="certain" if late else "likely",
        culprit=expression,
        headline=f"`{expression}` is on {evidence.wrong_device}, but the module it belongs to is on {evidence.wanted}",
        root=assigned or built,
        root_note="put in here, after the rest was moved"
        if late
        else f"made here, on {evidence.wrong_device}",
    )
    if late and mend is not None and assigned is not None and assigned.extra.get("outside"):
        mend = _at_assignment(evidence, assigned) or mend
    if mend is not None:
        finding.mends.append(mend)
    return finding


def _makes_another(assigned: Step, module: object) -> bool:
    """Whether an assignment constructs a module of another class than the one that is there now."""
    made = constructed_class(assigned.node, assigned.scope)
    return made is not None and made is not type(module)


def _appended(evidence: Evidence, module: object) -> tuple[ast.expr, Scope] | None:
    """What `append` put into the ModuleList that the module is in, where only a later method does so."""
    found: list[tuple[ast.expr, Scope]] = []
    for scope in every_scope(evidence):
        for node in own_nodes(scope.node):
            if not (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1
            ):
                continue
            holder = value_now(node.func.value, scope) if node.func.attr == "append" else None
            if values.is_module(holder) and any(sub is module for _, sub in values.submodules(holder)):
                found.append((node.args[0], scope))
    if len(found) != 1 or found[0][1].function == "__init__":
        return None
    return found[0] if isinstance(found[0][0], ast.Call) and found[0][1].function is not None else None


def _put_into_list(evidence: Evidence, expression: str, item: ast.expr, scope: Scope) -> Finding:
    mend = appended_move(evidence, item, scope, "move it where it is put in")
    return Finding(
        certainty="likely",
        culprit=expression,
        headline=f"`{expression}` is on {evidence.wrong_device}, but the module it belongs to is on {evidence.wanted}",
        root_node=item,
        root_scope=scope,
        root_note="made and put in here, whatever device the rest is on",
        mends=[mend] if mend is not None else [],
    )


def _at_assignment(evidence: Evidence, step: Step) -> Mend | None:
    return appended_move(evidence, step.node, step.scope, "move it where it is put in")  # type: ignore[arg-type]


def _belongs(evidence: Evidence, module: object) -> bool:
    """Whether a larger module of the frames has this one as a registered part, and other parts where wanted."""
    for scope in evidence.scopes:
        for value in [scope.receiver, *(scope.locals.values() if scope.frame is not None else ())]:
            if not values.is_module(value) or value is module:
                continue
            if evidence.wanted in values.module_devices(value) and any(
                sub is module for _, sub in values.submodules(value)
            ):
                return True
    return False
