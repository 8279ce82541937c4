"""What happened: a parameter, buffer or tensor was made on the meta device and never got any data.

The meta device has shapes without values. It serves to build a large model before its weights are loaded; what the
checkpoint does not hold stays empty.

How to recognise it: the operand is on `meta`, no hook of an offloading library stands behind it, and it was made with
`device="meta"` or under `torch.device("meta")`.

Before:

    self.table = nn.Parameter(torch.empty(n, d, device="meta"))

After:

    self.table = nn.Parameter(torch.empty(n, d, device="cpu"))

Unsafe: it then has the values that it is made with (those of `torch.empty` are arbitrary), until it is loaded or initialised. `.to()` cannot help: there is nothing to move.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .. import edits
from ..evidence.anchors import NAMED
from ..evidence.collect import Evidence
from ..evidence.infer import keyword
from ..evidence.scopes import Scope, own_nodes
from ..types import Certainty
from ._finding import Finding, Mend
from ._moves import best_anchor
from ._user_calls import every_scope

NAME = "meta-not-filled"
TITLE = "a tensor was made on the meta device and never filled"


def find(evidence: Evidence) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None or "meta" not in (wrong.device, evidence.wrong_device):
        return None
    traced = _traced(evidence) or _told(evidence)
    found = [traced] if traced is not None else list(_literals(evidence))
    if len(found) != 1:
        return None
    literal, scope = found[0]
    held = wrong.held.path if wrong.held is not None else ""
    part = f"`{wrong.expression}`" if not held else f"`{held}` of `{wrong.expression}`"
    certainty: Certainty = "certain" if traced is not None else "likely"
    finding = Finding(
        certainty=certainty,
        culprit=wrong.expression,
        headline=f"{part} is on meta: it was made there, and never got any data",
        root_node=literal,
        root_scope=scope,
        root_note="makes tensors that have a shape and no data",
    )
    wanted = evidence.wanted or "cpu"
    anchor = best_anchor(evidence, scope, literal) if wanted != "cpu" else None
    text = anchor.text if anchor is not None and anchor.rank == NAMED else f'"{wanted}"'
    made = edits.replace_node(scope.source, literal, text)
    reason = "it then has the values that it is made with, until it is loaded or initialised"
    finding.mends.append(Mend("make it where it can have data", made, literal, scope, "unsafe", reason))
    return finding


def _is_meta(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == "meta"


def _traced(evidence: Evidence) -> tuple[ast.expr, Scope] | None:
    """The `"meta"` of the call that the way from the operand leads to."""
    for step in reversed(evidence.steps):
        for node in ast.walk(step.node):
            given = keyword(node, "device") if isinstance(node, ast.Call) else None
            if given is not None and _is_meta(given) and step.editable:
                return given, step.scope
    return None


def _told(evidence: Evidence) -> tuple[ast.expr, Scope] | None:
    """What the call that made it was given as its device, where that is no literal (`device=config.device`)."""
    root = evidence.root
    if root is None or root.kind != "factory" or not root.editable or not isinstance(root.node, ast.Call):
        return None
    given = keyword(root.node, "device")
    return (given, root.scope) if given is not None else None


def _literals(evidence: Evidence) -> Iterator[tuple[ast.expr, Scope]]:
    """Every `"meta"` that the user's code gives as a device."""
    for scope in every_scope(evidence):
        for node in own_nodes(scope.node):
            if isinstance(node, ast.Call):
                given = keyword(node, "device")
                if given is not None and _is_meta(given):
                    yield given, scope
                elif (
                    ast.unparse(node.func) in ("torch.device", "device")
                    and node.args
                    and _is_meta(node.args[0])
                ):
                    yield node.args[0], scope
