"""What happened: a custom autograd function's `backward` returned a gradient on another device than its input.

How to recognise it: the message names the function (`XBackward returned an invalid gradient`); no frame of its
`backward` is in the traceback, since the autograd engine called it.

Before:

    return grad

After:

    return grad.to(grad_output.device)

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
from ..evidence.frames import is_library
from ..evidence.scopes import Scope
from ._finding import Finding, Mend

NAME = "autograd-device"
TITLE = "a gradient came back on the wrong device"
ORDER = 9
_MESSAGE = re.compile(r"Function (\w+?)Backward\w* returned an invalid gradient at index (\d+)")


def find(evidence: Evidence) -> Finding | None:
    said = _MESSAGE.search(evidence.error.message)
    if said is None:
        return None
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
        headline=f"`{said[1]}.backward` returned `{text}` on another device than its input",
        root_node=result,
        root_scope=scope,
        root_note="returned on the wrong device",
    )
    if len(parameters) > 1 and not is_library(scope.source.path):
        made = edits.append_method(scope.source, result, f".to({parameters[1].arg}.device)")
        finding.mends.append(Mend("return it where the gradient came from", made, result, scope))
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
