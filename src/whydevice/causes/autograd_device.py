"""What happened: the autograd engine met a gradient, or what a hook or function computes with one, on another device.

`backward(gradient=g)` and `grad(..., grad_outputs=g)` want `g` where the output is; a hook gets its gradient where the
tensor is; a custom function's `backward` has to return each gradient where that input was.

How to recognise it: the message says `invalid gradient`, or the engine called the function that failed, so that no frame
of yours leads to it.

Before:

    grad = torch.zeros(ctx.shape)

After:

    grad = torch.zeros(ctx.shape, device=grad_output.device)

Safe: the gradient has to be where the input is.
"""

from __future__ import annotations

import ast
import re

from .. import edits
from ..evidence import values
from ..evidence.attributes import class_source
from ..evidence.calls import returned
from ..evidence.collect import Evidence
from ..evidence.infer import keyword
from ..evidence.libraries import is_library
from ..evidence.scopes import Scope
from ._finding import Finding, Mend
from ._kept import kept_mend
from ._values_shared import value_finding

NAME = "autograd-device"
TITLE = "a gradient came back on the wrong device"
_ROOT_MESSAGE = re.compile(r"(^|: )invalid gradient at index \d+")
_MESSAGE = re.compile(r"Function (\w+?)Backward\w* returned an invalid gradient at index (\d+)")


def find(evidence: Evidence) -> Finding | None:
    said = _MESSAGE.search(evidence.error.message)
    if said is None:
        return _given(evidence) or _in_hook(evidence)
    scope = _backward(evidence, said[1])
    if scope is None:
        return None
    results = [r for r in returned(scope.node) if not (isinstance(r, ast.Constant) and r.value is None)]
    if len(results) != 1:
        return None
    result = results[0]
    index = int(said[2])
    if isinstance(result, ast.Tuple):
        if index >= len(result.elts):
            return None
        result = result.elts[index]
    parameters = scope.parameters()
    text = scope.source.one_line(result)
    finding = Finding(
        certainty="likely",
        culprit=text,
        culprit_at=(result, scope),
        headline=f"`{said[1]}.backward` returned `{text}` on another device than its input",
        root_node=result,
        root_scope=scope,
        root_note="returned on the wrong device",
    )
    made_at = _made(evidence, result, scope)
    if made_at is not None and len(parameters) > 1 and not is_library(scope.source.path):
        finding.trail.append((result, scope, finding.root_note))
        finding.root_node, finding.root_note = made_at, "made here without device=, so on cpu"
        made = edits.add_keyword(scope.source, made_at, "device", f"{parameters[1].arg}.device")
        finding.mends.append(
            Mend("make it on the device of the gradient that comes in", made, made_at, scope)
        )
    elif len(parameters) > 1 and not is_library(scope.source.path):
        made = edits.append_method(scope.source, result, f".to({parameters[1].arg}.device)")
        finding.mends.append(
            Mend("return it on the device of the gradient that comes in", made, result, scope)
        )
    return finding


def _made(evidence: Evidence, result: ast.expr, scope: Scope) -> ast.Call | None:
    """The factory call in the `backward` itself that made what it returned, where it says nothing of a device."""
    steps = evidence.tracer.trace(result, scope, evidence.inference.default_device())
    root = steps[-1]
    if root.kind != "factory" or root.scope is not scope or not isinstance(root.node, ast.Call):
        return None
    return root.node if keyword(root.node, "device") is None else None


def _given(evidence: Evidence) -> Finding | None:
    """A gradient that was given to `backward()` or `grad()` (`gradient=`, `grad_outputs=`)."""
    if _ROOT_MESSAGE.search(evidence.error.message) is None or evidence.wanted == "cpu":
        return None
    return value_finding(evidence, f"on {evidence.wrong_device}, and given as a gradient")


def _in_hook(evidence: Evidence) -> Finding | None:
    """An operand of a hook on a gradient: the engine called it, with a gradient on the device of its tensor."""
    user, wrong = evidence.user, evidence.wrong
    index = next((i for i, f in enumerate(evidence.frames) if user is not None and f is user.live), 0)
    caller = evidence.frames[index - 1] if index else None
    if wrong is None or caller is None or not caller.library or evidence.wanted == "cpu":
        return None
    *_, folder, file = ["", "", *caller.path.replace("\\", "/").split("/")]
    if folder != "autograd" or wrong.leaf.is_module:
        return None
    where = "a hook on a gradient"
    if file == "function.py":  # a Function's own method: its forward is no part of autograd's work
        where = "`backward`"
        if user is None or user.function != "backward":
            return None
    finding = value_finding(evidence, f"on {evidence.wrong_device}, and used in {where}")
    root = evidence.root
    if finding is not None and root is not None and root.kind == "factory" and root.editable:
        mend = kept_mend(evidence, root)  # made once: not moved anew at every gradient
        if mend is not None and mend.node is root.node:
            finding.mends[:1] = [mend]
            finding.root_node, finding.root_scope = root.node, root.scope
    return finding


def _backward(evidence: Evidence, name: str) -> Scope | None:
    """The `backward` of the autograd function with this name that the user's frames can see."""
    torch = values.torch()
    for live in evidence.scopes:
        for held in list(live.globals.values()):
            if not values.is_class(held) or not issubclass(held, torch.autograd.Function):
                continue
            if values.class_name(held) != name:
                continue
            found = class_source(held, evidence.sources)
            if found is None:
                continue
            for member in found[1].body:
                if isinstance(member, ast.FunctionDef) and member.name == "backward":
                    return Scope(found[0], member, live.globals)
    return None
