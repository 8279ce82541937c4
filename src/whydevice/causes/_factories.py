"""A factory call, and how it gets the device of its use."""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import values
from ..evidence.anchors import GLOBAL_DEVICE, LITERAL, LOCAL, NAMED, OWN_DEVICE, Anchor, anchors
from ..evidence.collect import Evidence
from ..evidence.infer import keyword
from ..evidence.scopes import MISSING, Scope
from ..evidence.steps import Step
from ..types import Edit
from ._finding import Mend
from ._moves import appended, best_anchor, move_text


def factory_mend(
    evidence: Evidence, root: Step, steps: list[Step], *, last_resort: bool = False
) -> Mend | None:
    """Give a factory call its `device=`; where that is a parameter's, give the caller's call one."""
    call = root.node
    assert isinstance(call, ast.Call)
    given = keyword(call, "device")
    if given is not None:
        return _given_device(evidence, root, given)
    anchor = best_anchor(evidence, root.scope, call)
    if anchor is None or not (last_resort or usable(anchor, root, evidence)):
        return None
    source = root.scope.source
    if keyword(call, "generator") is not None:
        text = move_text(evidence, root.scope, call, anchor)
        return (
            appended(root, text, "move it where it is made; its generator stays where it is")
            if text
            else None
        )
    made: tuple[Edit, ...] = ()
    if anchor.base and _same_dtype(anchor, root, evidence):
        try:
            made = edits.rename_to_like(source, call)
        except edits.EditError:
            made = ()
        if made and _like_base(call) != anchor.base and not _on_wanted(_like_base(call), root, evidence):
            made = ()
    if not made:
        made = edits.add_keyword(source, call, "device", anchor.text)
    return Mend("make it on the device where it is used", made, call, root.scope)


def _like_base(call: ast.Call) -> str:
    size = call.args[0] if call.args else None
    if isinstance(size, ast.Starred):
        size = size.value
    if isinstance(size, ast.Call) and isinstance(size.func, ast.Attribute):
        return ast.unparse(size.func.value)
    return ast.unparse(size.value) if isinstance(size, ast.Attribute) else ""


def _on_wanted(text: str, root: Step, evidence: Evidence) -> bool:
    if not text.isidentifier():
        return False
    return any(
        a.base == text for a in anchors(root.scope, root.node, evidence.wanted or "", evidence.inference)
    )


def _same_dtype(anchor: Anchor, root: Step, evidence: Evidence) -> bool:
    """`*_like` takes over the dtype too: only where both are the default float32."""
    held = (
        evidence.user.locals.get(anchor.base, MISSING)
        if evidence.user is not None and evidence.user.node is root.scope.node
        else MISSING
    )
    return values.is_tensor(held) and values.dtype_of(held) == "float32"


def _given_device(evidence: Evidence, root: Step, given: ast.expr) -> Mend | None:
    scope = root.scope
    if isinstance(given, ast.Name) and given.id in scope.bound:
        argument = scope.bound[given.id]
        if argument.default and scope.call is not None and scope.caller is not None:
            place = Step("construct", scope.call, scope.caller)
            anchor = best_anchor(evidence, scope.caller, scope.call)
            if place.editable and anchor is not None:
                made = edits.add_keyword(scope.caller.source, scope.call, given.id, anchor.text)
                return Mend(f"pass the device as `{given.id}`", made, scope.call, scope.caller)
            return None
        if not argument.default and not argument.spread:
            place = Step("parameter", argument.node, argument.scope)
            anchor = best_anchor(evidence, argument.scope, argument.node)
            if place.editable and anchor is not None:
                made = edits.replace_node(argument.scope.source, argument.node, anchor.text)
                return Mend("pass the device where it is used", made, argument.node, argument.scope)
        return None
    anchor = best_anchor(evidence, scope, root.node)
    if anchor is None or not root.editable:
        return None
    made = edits.replace_node(scope.source, given, anchor.text)
    return Mend("make it on the device where it is used", made, root.node, scope)


def usable(anchor: Anchor, step: Step, evidence: Evidence) -> bool:
    """Whether an anchor is good enough away from the failing frame: a helper should not reach for a global."""
    if evidence.user is not None and step.scope.node is evidence.user.node:
        return True
    if isinstance(step.scope.node, ast.Module):
        return anchor.rank in (NAMED, OWN_DEVICE, GLOBAL_DEVICE, LITERAL) or anchor.rank <= LOCAL
    return anchor.rank < LOCAL


def cached(scope: Scope) -> bool:
    """Whether a function's result is kept between calls (`lru_cache`, `cache`): it must not follow one call's device."""
    decorators = getattr(scope.node, "decorator_list", [])
    return any("cache" in ast.unparse(d) for d in decorators)
