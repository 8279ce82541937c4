"""What happened: a tensor was put on a GPU that the code names by itself, and the rest runs on another one.

`device="cuda"`, `.cuda()` and `"cuda:0"` mean the current or the first GPU, whatever the run was told to use.

How to recognise it: the way back from the failing operand ends at a literal GPU or a bare `.cuda()`, and the other
operands are on another GPU.

Before:

    noise = torch.randn(x.shape, device="cuda")

After:

    noise = torch.randn(x.shape, device=x.device)

Safe: the same values, made where they are used.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.infer import keyword
from ..evidence.scopes import Scope
from ..evidence.steps import Step
from ._facts import owners
from ._finding import Finding, Mend
from ._moves import best_anchor

NAME = "gpu-index-hard-coded"
TITLE = "a GPU is written into the code, and another one is in use"


def find(evidence: Evidence) -> Finding | None:
    sides = (evidence.wanted, evidence.wrong_device)
    if not all(d is not None and d.startswith("cuda") for d in sides) or evidence.wrong is None:
        return None
    step = _named_gpu(evidence)
    if step is None or not isinstance(step.node, ast.Call) or _in_use(evidence):
        return None
    written = _written(step.node)
    call, scope = step.node, step.scope
    said = f"`{scope.source.one_line(written)}`" if written is not None else "`.cuda()`"
    does = "names that GPU" if written is not None else "takes the current GPU"
    finding = Finding(
        certainty="certain" if evidence.wrong.proven and evidence.direction else "likely",
        culprit=evidence.wrong.expression,
        headline=f"`{evidence.wrong.expression}` is on {evidence.wrong_device}, because {said} {does}; the rest is on {evidence.wanted}",
        root_node=call,
        root_scope=scope,
        root_note=f"{said} is {evidence.wrong_device} here"
        if written is not None
        else f"moves to the current GPU, {evidence.wrong_device}",
    )
    mend = _mend(evidence, call, written, scope)
    if mend is not None:
        finding.mends.append(mend)
    return finding


def _in_use(evidence: Evidence) -> bool:
    """Whether a module of the frames has state on that GPU too: then the code means to use both."""
    return any(
        values.is_module(owner) and evidence.wrong_device in values.module_devices(owner)
        for owner, _, _ in owners(evidence)
    )


def _named_gpu(evidence: Evidence) -> Step | None:
    """The step that put the value on its GPU, when the code itself names the GPU there."""
    for step in reversed(evidence.steps):
        if step.kind not in ("factory", "move", "constructor") or not isinstance(step.node, ast.Call):
            continue
        written = _written(step.node)
        bare = step.kind == "move" and written is None and not step.node.args
        if step.editable and (bare or _literal(written)):
            return step
    return None


def _written(call: ast.Call) -> ast.expr | None:
    given = keyword(call, "device")
    if (
        given is None
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("to", "cuda")
        and call.args
    ):
        given = call.args[0]
    return given


def _literal(node: ast.expr | None) -> bool:
    """`"cuda"`, `"cuda:0"`, `0`, `torch.device("cuda")`: no name that a caller could set."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int or str(node.value).startswith("cuda")
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.device", "device"):
        return bool(node.args) and all(_literal(a) for a in node.args)
    return False


def _mend(evidence: Evidence, call: ast.Call, written: ast.expr | None, scope: Scope) -> Mend | None:
    anchor = best_anchor(evidence, scope, call)
    if anchor is None:
        return None
    source = scope.source
    title = "use the GPU that the rest is on"
    if written is not None:
        return Mend(title, edits.replace_node(source, written, anchor.text), call, scope)
    assert isinstance(call.func, ast.Attribute)
    receiver = scope.source.one_line(call.func.value)
    return Mend(title, edits.replace_node(source, call, f"{receiver}.to({anchor.text})"), call, scope)
