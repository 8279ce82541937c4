"""What happened: a tensor was computed from parameters in `__init__` and kept.

It is not a parameter and not a buffer, so `.to()` leaves it behind; and it holds the graph and the values of the moment
when the module was made, so training never changes it.

How to recognise it: the attribute has a `grad_fn`: autograd made it from others.

Before:

    def __init__(self):
        ...
        self.mixed = self.left @ self.right

    def forward(self, x):
        return self.mixed * x

After:

    def forward(self, x):
        mixed = self.left @ self.right
        return mixed * x

A library's object may do so too. Where it has a method that makes the tensor anew, call that after the move:

    policy = policy.to(device)
    policy.reset_noise()

Unsafe: the result changes, as it should: the product now follows the parameters. A buffer would be wrong here.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.steps import Step
from ._finding import Finding, Mend
from ._reset import reset_finding

NAME = "tensor-from-parameters-in-init"
TITLE = "a tensor computed from parameters was kept from __init__"


def find(evidence: Evidence) -> Finding | None:
    step = next(
        (
            s
            for s in evidence.steps
            if s.kind == "attribute" and values.is_module(s.owner) and values.is_tensor(s.value)
        ),
        None,
    )
    if step is None:
        return reset_finding(evidence)
    if step.extra.get("held") != "attribute" or values.is_leaf(step.value):
        return None
    if step.extra.get("outside") or step.extra.get("method") not in ("__init__", None):
        return None  # kept by a later call, as a state is: it was not computed before the move
    finding = Finding(
        headline=f"`self.{step.name}` is on {evidence.wrong_device}: it was computed from parameters in __init__, before they were moved",
        root_node=step.stmt,
        root_scope=step.scope,
        root_note="computed once, from parameters where they were then",
    )
    mend = _to_forward(evidence, step)
    if mend is not None:
        finding.mends.append(mend)
    return finding


def _to_forward(evidence: Evidence, step: Step) -> Mend | None:
    """Compute it where it is used: at the head of the failing method, from `self` alone."""
    user = evidence.user
    statement = step.stmt
    if (
        user is None
        or not isinstance(statement, ast.Assign)
        or not step.editable
        or user.source is not step.scope.source
    ):
        return None
    receiver = user.parameters()[0].arg if user.parameters() else "self"
    own = step.scope.parameters()[0].arg if step.scope.parameters() else "self"
    names = {n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name)}
    if (
        receiver != own
        or not names <= {own, "torch", "math", "F", "nn"}
        or not isinstance(user.node, ast.FunctionDef)
    ):
        return None
    source = user.source
    text = step.scope.source.one_line(statement.value)
    made = list(edits.delete_statement(source, statement))
    made += edits.insert_at_suite_start(source, user.node, f"{step.name} = {text}")
    for node in ast.walk(user.node):
        if (
            isinstance(node, ast.Attribute)
            and node.attr == step.name
            and isinstance(node.value, ast.Name)
            and node.value.id == receiver
        ):
            made += edits.replace_node(source, node, step.name)
    reason = (
        "the values now follow the parameters, as training needs; before, they were those of the first moment"
    )
    return Mend("compute it where it is used", tuple(made), statement, step.scope, "unsafe", reason)
