"""What happened: a library made something on the device that it prefers, because it was not told which one to use.

Adapters are loaded to "the first GPU, if there is one", an index or a feature extractor is made on its own default,
a helper asks a module that is offloaded where it is. The call has a parameter for the device, and it was left out.

How to recognise it: the tensor that failed is held (or was made) by an object that a library's function returned to
your code, and that function has a device parameter with a default.

Before:

    model = load_adapter(model, path)

After:

    model = load_adapter(model, path, device=device)

Safe: the parameter is there for this.
"""

from __future__ import annotations

import ast
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.infer import canonical, keyword
from ..evidence.operands import flat, held_tensors
from ..evidence.scopes import MISSING
from ..types import Certainty
from ._finding import Finding, Mend
from ._modules import appended_move
from ._moves import best_anchor
from ._order import value_now
from ._user_calls import UserCall, device_parameter, package_of, user_calls

NAME = "library-default-device"
TITLE = "a library was not told the device, and chose its own"
ORDER = 11


def find(evidence: Evidence) -> Finding | None:
    wrong, wanted = evidence.wrong_device, evidence.wanted
    if wrong is None or wanted is None or "meta" in (wrong, wanted) or _own_tensor(evidence):
        return None
    failing = _failing(evidence)
    for one in user_calls(evidence):
        if not one.library or one.package == "torch":
            continue
        name = device_parameter(one.absent)
        if name is not None and canonical(one.absent[name]) == wanted:
            continue
        made = one.result()
        if name is not None and one.node is evidence.node and _made_in_call(evidence, name):
            return _finding(evidence, one, name, MISSING, canonical(one.absent[name]))
        if made is MISSING or made is None:
            continue
        if name is not None and (_holds(made, failing, one.package, wrong) or _made_by(evidence, made)):
            return _finding(evidence, one, name, made, canonical(one.absent[name]))
        if name is None and _put_into(one, made) and _holds(made, failing, one.package, wrong):
            return _placed(evidence, one, made)
    return None


def _put_into(one: UserCall, made: Any) -> bool:
    """Whether the library put parts of its own into a module that your code had made and gave to it."""
    if (
        not values.is_module(made)
        or device_parameter(one.given) is not None
        or len(values.module_devices(made)) < 2
    ):
        return False
    target = one.target()
    for given in one.given.values():
        held = value_now(given, one.scope)
        same = target is not None and ast.unparse(given) == ast.unparse(target)
        if values.is_module(held) and (same or package_of(held) != one.package):
            return True
    return False


def _placed(evidence: Evidence, one: UserCall, made: Any) -> Finding | None:
    """The library takes no device: what it put in is moved with the rest."""
    if any(values.lookup(values.instance_dict(made), m) is not None for m in ("hf_device_map", "_hf_hook")):
        return None
    mend = appended_move(evidence, one.node, one.scope, "move what the library put in")
    target = one.target()
    held = one.scope.source.one_line(target if target is not None else one.node.func)
    return Finding(
        certainty="likely",
        culprit=next((leaf.expression for leaf in evidence.leaves if leaf.value is made), held),
        headline=f"`{held}` has parts on {evidence.wrong_device} that {one.package} put in, but the rest is on {evidence.wanted}",
        root_node=one.node,
        root_scope=one.scope,
        root_note=f"{one.package} puts its own parts on {evidence.wrong_device}",
        mends=[mend] if mend is not None else [],
    )


def _made_in_call(evidence: Evidence, name: str) -> bool:
    """Whether the failing tensor was made inside the failing call, on a device that the parameter decides."""
    for one in flat(evidence.inner):
        if not one.is_tensor or one.device != evidence.wrong_device:
            continue
        for step in evidence.tracer.trace(one.node, one.scope, evidence.wrong_device):
            given = keyword(step.node, "device") if isinstance(step.node, ast.Call) else None
            if step.kind == "factory" and given is not None and name in ast.unparse(given):
                return any(p.arg == name for p in step.scope.parameters())
    return False


def _own_tensor(evidence: Evidence) -> bool:
    """Whether the user's own call has a tensor of the user's on the wrong device: that one is to be named."""
    wrong = evidence.wrong
    return wrong is not None and wrong.leaf.is_tensor and bool(evidence.wrongs) and _is_bound(evidence)


def _is_bound(evidence: Evidence) -> bool:
    root = evidence.root
    return root is None or root.kind not in ("library", "construct")


def _failing(evidence: Evidence) -> set[int]:
    """The tensors on the wrong device in the line that failed, by id."""
    found = {id(w.held.tensor) for w in evidence.wrongs if w.held is not None}
    for one in flat(evidence.inner):
        found |= {id(h.tensor) for h in one.held if h.device == evidence.wrong_device}
    return found


def _holds(made: Any, failing: set[int], package: str, wrong: str) -> bool:
    """Whether an object of the library's has a failing tensor, and is not a module that `.to()` was forgotten for."""
    if values.is_module(made):
        devices = values.module_devices(made)
        if set(devices) == {wrong} and wrong == "cpu":
            return False
        parts = [sub for _, sub in values.submodules(made) if package_of(sub) == package]
        return any(id(t) in failing for part in parts for _, t, _ in values.module_tensors(part))
    if package_of(made) != package:
        return False
    return any(id(h.tensor) in failing for h in held_tensors(made))


def _made_by(evidence: Evidence, made: Any) -> bool:
    """Whether a method of this very object made the failing tensor, on a device that the object answers."""
    if values.is_module(made) or not any(s.receiver is made for s in evidence.scopes):
        return False
    for one in flat(evidence.inner):
        if not one.is_tensor or one.device != evidence.wrong_device:
            continue
        for step in evidence.tracer.trace(one.node, one.scope, evidence.wrong_device):
            node = step.node
            if step.kind != "factory" or not isinstance(node, ast.Call):
                continue
            if step.scope.receiver is made and keyword(node, "device") is not None:
                return True
    return False


def _finding(evidence: Evidence, one: UserCall, name: str, made: Any, default: str | None) -> Finding:
    text = one.scope.source.one_line(one.node.func)
    target = one.target()
    held = one.scope.source.one_line(target) if target is not None else text
    seen = next((leaf.expression for leaf in evidence.leaves if leaf.value is made), held)
    certainty: Certainty = "certain" if default == evidence.wrong_device else "likely"
    holds = made is not MISSING and any(h.device == evidence.wrong_device for h in held_tensors(made))
    what = f"has tensors on {evidence.wrong_device}" if holds else f"made a tensor on {evidence.wrong_device}"
    if made is MISSING:
        seen = text
    finding = Finding(
        certainty=certainty,
        culprit=seen,
        headline=f"`{seen}` {what}: `{text}` was not told the device, and {evidence.wanted} is in use",
        root_node=one.node,
        root_scope=one.scope,
        root_note=f"`{name}` was not passed, so {one.package} chose {evidence.wrong_device}",
    )
    anchor = best_anchor(evidence, one.scope, one.node)
    if anchor is not None:
        made_edits = edits.add_keyword(one.scope.source, one.node, name, anchor.text)
        finding.mends.append(Mend(f"pass the device as `{name}`", made_edits, one.node, one.scope))
    return finding
