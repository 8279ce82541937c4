"""What happened: a library made a tensor on the CPU by itself, although everything that it was given is on the GPU.

How to recognise it: every argument of the call in your code is on one device, and the wrong tensor was made in the
library's own code, without a device.

Before and after: nothing in your code is wrong. Pass the value that the library would make by itself, run this part
where the library makes its tensors, or use a version in which it is mended.

Neither safe nor unsafe: no edit is offered, as a library's own file is never changed.
"""

from __future__ import annotations

import ast
import os
from importlib import metadata

from ..evidence import values
from ..evidence.calls import enter, returned
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.infer import keyword
from ..evidence.libraries import is_library
from ..evidence.operands import Leaf, flat, leaves
from ..evidence.scopes import MISSING, Scope, bindings_of
from ..evidence.steps import Step
from ._finding import Finding, Mend

NAME = "library-fault"
TITLE = "a library made the tensor on the wrong device"
MADE = ("factory", "constructor")
_MOVING = ("to", "cuda", "cpu", "set_device", "device", "move_to")


def find(evidence: Evidence) -> Finding | None:
    user = evidence.user
    if user is None or evidence.wrong_device is None or not isinstance(evidence.node, ast.Call):
        return None
    own = _object_without_move(evidence)
    given_to = [one for one in evidence.leaves if one is not own]
    if any(d != evidence.wanted for one in flat(given_to) if not one.is_scalar for d in one.devices()):
        return None
    made = _made_in_library(evidence)
    if made is None or _was_told(made):
        return None
    name = library_name(made.file)
    where = f"{os.path.basename(made.file)}, line {made.line}, in `{made.scope.function or 'the module'}`"
    argument = _absent_argument(evidence, made)
    given = argument if argument is not None else own.node if own is not None else evidence.node.func
    text = user.source.one_line(given)
    title = f"{name} made `{made.text()}` on {evidence.wrong_device} by itself"
    reason = f"{title} ({where}); your arguments are all on {evidence.wanted}."
    if argument is not None:
        reason += f" Pass a tensor on {evidence.wanted} instead of None for `{text}`, or use a version that makes it there."
    elif own is not None:
        reason += f" `{text}` has no way to move it: bring the arguments to {evidence.wrong_device} for this call and its result back, or use a version of {name} that makes it there."
    elif values.is_module(try_evaluate(given, user)):
        reason += f" Use a version of {name} that makes it there."
    else:
        reason += f" Run this call before the move to {evidence.wanted}, or use a version of {name} that makes it there."
    return Finding(
        certainty="certain" if own is None else "likely",  # how else it could be moved is not known
        either=own is not None,
        culprit=text,
        headline=f"{title}, but everything it was given is on {evidence.wanted}",
        root_node=evidence.node,
        root_scope=user,
        root_note=f"the library makes a tensor on {evidence.wrong_device} in here"
        if own is None
        else f"the library uses a tensor here that `{text}` keeps on {evidence.wrong_device}",
        mends=[Mend("work around the library", (), evidence.node, user, "manual", reason)],
        trail=[(made.node, made.scope, f"made on {evidence.wrong_device} by {name}")],
    )


def _was_told(made: Step) -> bool:
    """Whether the call names a device that something outside of the function may decide: an attribute, a global name, an
    argument, what is computed. Where that came from is not seen, so that the library chose it by itself is not either."""
    given = keyword(made.node, "device") if isinstance(made.node, ast.Call) else None
    if isinstance(given, ast.Name):
        argument = made.scope.bound.get(given.id)
        if argument is not None:
            return not argument.default
        return given.id not in bindings_of(made.scope.node)
    return given is not None and not isinstance(given, ast.Name | ast.Constant)


def _object_without_move(evidence: Evidence) -> Leaf | None:
    """The object whose library's method failed, where its class offers nothing to move it: what it keeps is its own."""
    node = evidence.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    for one in evidence.leaves:
        if one.node is not node.func.value or one.value is MISSING or one.is_module or one.is_tensor:
            continue
        ran = any(
            s.receiver is one.value and s.call is node and is_library(s.source.path) for s in evidence.scopes
        )
        kind = type(one.value)
        if ran and all(values.class_attribute(kind, name) is None for name in _MOVING):
            return one
    return None


def _made_in_library(evidence: Evidence) -> Step | None:
    """The factory call in the library's own code that the wrong operand of its failing line came from."""
    scope = next((s for s in reversed(evidence.scopes) if s.live is not None and not _is_torch(s)), None)
    if scope is None or scope.live is None or not scope.live.library or scope is evidence.user:
        return None
    found = leaves(scope.live.node, scope, evidence.inference)
    listed = [
        i
        for one in found
        if isinstance(one.node, ast.List | ast.Tuple)
        for i in leaves(one.node, scope, evidence.inference)
    ]
    for one in flat([*found, *listed]):
        if not (one.is_tensor and one.device == evidence.wrong_device):
            continue
        steps = evidence.tracer.trace(one.node, scope, evidence.wrong_device)
        last = _entered(evidence, steps[-1]) if steps else None
        if last is not None and last.kind in MADE and last.library:
            return last
    return None


def _entered(evidence: Evidence, step: Step) -> Step:
    """Where a way ends at a call that returns one name: the only factory call that is bound to that name in there."""
    entered = enter(step.node, step.scope, evidence.sources) if isinstance(step.node, ast.Call) else None
    results = returned(entered.node) if entered is not None else []
    if step.kind in MADE or entered is None or len(results) != 1 or not isinstance(results[0], ast.Name):
        return step
    bound = [
        b
        for b in bindings_of(entered.node).get(results[0].id, [])
        if b.kind == "assign" and b.value is not None
    ]
    if len(bound) != 1 or bound[0].value is None:
        return step
    steps = evidence.tracer.trace(bound[0].value, entered, evidence.wrong_device)
    return steps[-1] if steps else step


def _is_torch(scope: Scope) -> bool:
    torch = values.torch()
    home = os.path.dirname(str(getattr(torch, "__file__", ""))) + os.sep
    return is_library(scope.source.path) and scope.source.path.startswith(home)


def _absent_argument(evidence: Evidence, made: Step) -> ast.expr | None:
    """The user's argument that was None, so that the library made a value in its place."""
    scope: Scope | None = made.scope
    guards = [up for up in made.scope.source.ancestors(made.node) if isinstance(up, ast.If | ast.IfExp)]
    if not guards:
        return None
    names = {n.id for g in guards for n in ast.walk(g.test) if isinstance(n, ast.Name)}
    for name in names:
        bound = made.scope.bound.get(name)
        while bound is not None:
            scope = bound.scope
            if bound.default:
                return None
            if scope is evidence.user:
                return bound.node if try_evaluate(bound.node, scope) is None else None
            bound = scope.bound.get(bound.node.id) if isinstance(bound.node, ast.Name) else None
    return None


def library_name(path: str) -> str:
    """`name 1.2` of the distribution that a file belongs to; the top package where it has no version."""
    parts = path.replace("\\", "/").split("/")
    marks = [i for i, p in enumerate(parts) if p in ("site-packages", "dist-packages")]
    top = (
        parts[marks[-1] + 1]
        if marks and marks[-1] + 1 < len(parts)
        else parts[-2]
        if len(parts) > 1
        else path
    )
    try:
        return f"{top} {metadata.version(top)}"
    except metadata.PackageNotFoundError:
        return top
