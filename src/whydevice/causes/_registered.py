"""Modules in plain containers: the proof is their identity, the edit is at the container's first assignment."""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import attributes
from ..evidence.collect import Evidence
from ..evidence.scopes import Scope
from ._facts import Unregistered, unregistered
from ._finding import Finding, Mend
from ._modules import wrong_module
from ._taken_back import taken_back

CONTAINERS = {"list": "nn.ModuleList", "dict": "nn.ModuleDict"}
REGISTERED = (
    "it adds them to state_dict(), so an older checkpoint loads with strict=False only, and to parameters(), "
    "so an optimizer made from those trains them now"
)


def unregistered_finding(evidence: Evidence, kind: str) -> Finding | None:
    found = wrong_module(evidence)
    if found is None:
        return None
    leaf, module, _ = found
    holder = unregistered(evidence, module)
    if holder is None or holder.kind != kind or taken_back(evidence, module):
        return None
    finding = Finding(
        culprit=leaf.expression,
        headline=f"`{leaf.expression}` is on {evidence.wrong_device}: it is in the {holder.container} `self.{holder.attribute}`, which .to() does not reach",
        root_note=f"a plain {holder.container}: .to() moves registered modules only",
    )
    _edit(evidence, holder, finding)
    return finding


def _edit(evidence: Evidence, holder: Unregistered, finding: Finding) -> None:
    from ..evidence.libraries import is_library

    for place in attributes.assignments(holder.owner, holder.attribute, evidence.sources):
        if is_library(place.source.path) or place.method is None:
            continue
        scope = Scope(place.source, place.method, evidence.user.globals if evidence.user else {})
        finding.root_node, finding.root_scope = place.stmt, scope
        finding.mends += _mends(holder, place.node, place.stmt, scope)
        return


def _mends(holder: Unregistered, value: ast.expr, statement: ast.stmt, scope: Scope) -> list[Mend]:
    source = scope.source
    try:
        make = edits.list_to_modulelist if holder.kind == "list" else edits.dict_to_moduledict
        made = make(source, value)
    except edits.EditError as error:
        return [
            Mend(f"register them in an {CONTAINERS[holder.kind]}", (), statement, scope, "manual", str(error))
        ]
    title = f"register them in an {CONTAINERS[holder.kind]}"
    return [Mend(title, made, statement, scope, "unsafe", REGISTERED)]
