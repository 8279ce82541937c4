"""What happened: an attribute was set to a buffer of the same module, and kept the old tensor when the buffer moved.

`.to()` puts a new tensor in the buffer's place. A second name for the old one stays on the CPU.

How to recognise it: the plain attribute was assigned from a buffer (`self.base = self.inv_freq`) or a view of one, or an
object that is no module was given the buffer when it was made.

Before:

    self.base_freq = self.inv_freq

After:

    self.register_buffer("base_freq", self.inv_freq.clone(), persistent=False)

Safe: `persistent=False` keeps it out of `state_dict()`.
"""

from __future__ import annotations

import ast
from itertools import pairwise

from .. import edits
from ..evidence import attributes, values
from ..evidence.collect import Evidence
from ..evidence.scopes import dotted
from ..evidence.steps import Step
from ._finding import Finding, Mend

_VIEWS = (
    "t",
    "view",
    "reshape",
    "transpose",
    "permute",
    "unsqueeze",
    "squeeze",
    "expand",
    "narrow",
    "detach",
    "flatten",
)
NAME = "buffer-alias"
TITLE = "a second name for a buffer kept the tensor from before the move"


def find(evidence: Evidence) -> Finding | None:
    return _given_away(evidence) or _kept(evidence)


def _kept(evidence: Evidence) -> Finding | None:
    """`self.base = self.inv_freq`, or a view of it: `self.left = self.grid[:-1]`."""
    step = next((s for s in evidence.steps if s.kind == "attribute" and values.is_module(s.owner)), None)
    if step is None or step.extra.get("held") != "attribute" or not values.is_tensor(step.value):
        return None
    read = _viewed(step.node)
    if read is None or not values.is_leaf(step.value):
        return None
    name = dotted(read) or ""
    own = step.scope.parameters()[0].arg if step.scope.parameters() else "self"
    if not name.startswith(f"{own}."):
        return None
    if attributes.kind_in(step.owner, name.removeprefix(f"{own}.")) not in ("buffer", "parameter"):
        return None
    what = "it is" if read is step.node else "it is a view of"
    finding = Finding(
        headline=f"`self.{step.name}` is on {evidence.wrong_device}: {what} the tensor that `{name}` was before the move",
        root_node=step.stmt,
        root_scope=step.scope,
        root_note="a second name for the buffer: .to() gives the buffer a new tensor",
    )
    if step.editable and isinstance(step.stmt, ast.stmt) and isinstance(step.node, ast.expr):
        source = step.scope.source
        made = edits.attribute_to_buffer(source, step.stmt, persistent=False, attributes=(step.name,))
        cloned = tuple(made) + tuple(edits.append_method(source, step.node, ".clone()"))
        try:
            edits.plan(cloned)
            made = cloned
        except edits.EditError:
            pass
        finding.mends.append(Mend("register it as a buffer of its own", made, step.stmt, step.scope))
    return finding


def _viewed(node: ast.AST) -> ast.Attribute | None:
    """The attribute that an expression is, or is a view of."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT", "data"):
            node = node.value
        else:
            return node if isinstance(node, ast.Attribute) else None


def _given_away(evidence: Evidence) -> Finding | None:
    """An object that is no module was given the buffer when it was made: `self.decoder = Decoder(self.anchors)`."""
    steps, wrong = evidence.steps, evidence.wrong
    for kept, given in pairwise(steps):
        if kept.kind != "attribute" or given.kind != "parameter" or values.is_module(kept.owner):
            continue
        if not isinstance(given.node, ast.Attribute) or not given.editable or wrong is None:
            continue
        owner = given.scope.receiver
        if not values.is_module(owner) or attributes.kind_in(owner, given.node.attr) not in (
            "buffer",
            "parameter",
        ):
            continue
        name = given.node.attr
        finding = Finding(
            culprit=wrong.expression,
            headline=f"`{wrong.expression}` is on {evidence.wrong_device}: it is the tensor that `{name}` of {values.type_name(owner)} was before the move",
            root_node=given.scope.source.statement(given.node),
            root_scope=given.scope,
            root_note="given away here: .to() gives the buffer a new tensor",
        )
        mend = _read_again(evidence, kept, given, owner)
        if mend is not None:
            finding.mends.append(mend)
        return finding
    return None


def _read_again(evidence: Evidence, kept: Step, given: Step, owner: object) -> Mend | None:
    """Give the object the buffer of now, before the module's own line that uses it."""
    for live in reversed(evidence.tracer.live):
        if live.receiver is not owner or live.live is None or live.live.statement is None:
            continue
        receiver = live.parameters()[0].arg if live.parameters() else "self"
        held = next((n for n, v in values.named(values.instance_dict(owner)) if v is kept.owner), None)
        if held is None or live.source is not given.scope.source or not isinstance(given.node, ast.Attribute):
            return None
        line = f"{receiver}.{held}.{kept.name} = {receiver}.{given.node.attr}"
        made = edits.insert_before(live.source, live.live.statement, line)
        return Mend("give it the buffer as it is now", made, live.live.statement, live)
    return None
