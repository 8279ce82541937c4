"""What happened: a list was filled with tensors from several GPUs and then stacked or concatenated.

How to recognise it: the items of one list are on different GPUs, and one `append` put them there.

Before:

    scores.append(expert(x).mean())

After:

    scores.append(expert(x).mean().to("cuda:0"))

Safe: the values are the same, brought together on one device.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.frames import is_library
from ..evidence.scopes import Scope, own_nodes
from ._finding import Finding, Mend
from ._order import user_scopes, value_now

NAME = "two-gpus"
TITLE = "tensors from several GPUs meet"
ORDER = 18


def find(evidence: Evidence) -> Finding | None:
    for one in evidence.leaves:
        if type(one.value) is not list or not one.held:
            continue
        devices = {h.device for h in one.held}
        if len(devices) < 2 or not all(d.startswith("cuda") for d in devices):
            continue
        found = _appended(evidence, one.value)
        if len(found) != 1:
            return None
        item, scope = found[0]
        target = values.device_of(one.held[0].tensor)
        made = edits.append_method(scope.source, item, f'.to("{target}")')
        return Finding(
            culprit=one.expression,
            headline=f"`{one.expression}` holds tensors on {' and '.join(sorted(devices))}",
            root_node=item,
            root_scope=scope,
            root_note="put into the list, now on one GPU, now on another",
            mends=[Mend("bring the items together", made, item, scope)],
        )
    return None


def _appended(evidence: Evidence, held: list[object]) -> list[tuple[ast.expr, Scope]]:
    """The items that `append` calls of the user's frames put into this very list."""
    found = []
    for scope in user_scopes(evidence, []):
        for node in own_nodes(scope.node):
            if not (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "append"
            ):
                continue
            if (
                len(node.args) == 1
                and value_now(node.func.value, scope) is held
                and not is_library(scope.source.path)
            ):
                found.append((node.args[0], scope))
    return found
