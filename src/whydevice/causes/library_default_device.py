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
from ..evidence.scopes import MISSING, own_nodes, position
from ..types import Certainty
from ._finding import Finding, Mend
from ._modules import appended_move
from ._moves import best_anchor, moves_in
from ._order import moved, value_now
from ._user_calls import UserCall, device_parameter, package_of, user_calls

NAME = "library-default-device"
TITLE = "a library was not told the device, and chose its own"
UNDECIDED = ("", "majority")


def find(evidence: Evidence) -> Finding | None:
    wanted, wrong = evidence.wanted, evidence.wrong_device
    if wrong is None or wanted is None or "meta" in (wrong, wanted):
        return None
    finding = None if _own_tensor(evidence) else _search(evidence, wanted, wrong)
    if finding is None and evidence.direction in UNDECIDED:
        # Of two GPUs the one that the library chose by itself is the wrong one.
        finding = _search(evidence, wrong, wanted)
        if finding is not None:
            evidence.wanted, evidence.wrong_device, evidence.wrongs = wrong, wanted, []
    return finding


def _search(evidence: Evidence, wanted: str, wrong: str) -> Finding | None:
    failing = _failing(evidence, wrong)
    for one in user_calls(evidence):
        if not one.library or one.package == "torch":
            continue
        name = device_parameter(one.absent)
        default = canonical(one.absent[name]) if name is not None else None
        if default == wanted:
            continue
        made = _made(evidence, one)
        if _changed_since(evidence, one, wrong):
            continue
        if name is not None and one.node is evidence.node and _made_in_call(evidence, name):
            return _finding(evidence, one, name, MISSING, (default, wanted, wrong))
        if made is MISSING or made is None:
            continue
        if name is not None and (
            _holds(made, failing, one.package, wrong) or _made_by(evidence, made, wrong)
        ):
            return _finding(evidence, one, name, made, (default, wanted, wrong))
        if name is None and _put_into(one, made) and _holds(made, failing, one.package, wrong):
            return _placed(evidence, one, made, (wanted, wrong))
    return None


def _made(evidence: Evidence, one: UserCall) -> Any:
    """What a call made: its value; for one whose value is not kept, the module that it was given to work on."""
    statement = one.statement()
    if isinstance(statement, ast.Expr) and statement.value is one.node:
        given = (value_now(node, one.scope) for node in one.given.values())
        return next((held for held in given if values.is_module(held)), MISSING)
    made = one.result()
    if made is MISSING and isinstance(statement, ast.Return):
        seen = [leaf.value for leaf in evidence.leaves] + [scope.receiver for scope in evidence.scopes]
        same = {id(held): held for held in seen if type(held) is one.called}
        made = next(iter(same.values())) if len(same) == 1 else MISSING
    return made


def _changed_since(evidence: Evidence, one: UserCall, wrong: str) -> bool:
    """Whether your code, below the call, moves what it made to the wrong device, or puts something in it: then it is
    not where the library chose."""
    target = one.target()
    text = ast.unparse(target) if target is not None else None
    for node in own_nodes(one.scope.node) if text is not None else ():
        if not isinstance(node, ast.Call | ast.Attribute) or position(node) < position(one.node):
            continue
        if isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == text:
                return True
        elif isinstance(node.func, ast.Name):
            if node.func.id == "setattr" and node.args and ast.unparse(node.args[0]) == text:
                return True
        elif next(moves_in([node]), None) is node and ast.unparse(moved(node)) == text:
            if evidence.inference.moved_to(node, one.scope) == wrong:
                return True
    return False


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


def _placed(evidence: Evidence, one: UserCall, made: Any, sides: tuple[str, str]) -> Finding | None:
    """The library takes no device: what it put in is moved with the rest."""
    wanted, wrong = sides
    if any(values.lookup(values.instance_dict(made), m) is not None for m in ("hf_device_map", "_hf_hook")):
        return None
    evidence.wanted = wanted
    if isinstance(one.statement(), ast.Expr):
        return None
    mend = appended_move(
        evidence, one.node, one.scope, f"move the model after {one.package} has put its parts in"
    )
    target = one.target()
    held = one.scope.source.one_line(target if target is not None else one.node.func)
    return Finding(
        certainty="likely",
        culprit=next((leaf.expression for leaf in evidence.leaves if leaf.value is made), held),
        headline=f"`{held}` has parts on {wrong} that {one.package} put in, but the rest is on {wanted}",
        root_node=one.node,
        root_scope=one.scope,
        root_note=f"{one.package} puts its own parts on {wrong}",
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


def _failing(evidence: Evidence, wrong: str) -> set[int]:
    """The tensors on this device in the line that failed, by id."""
    found = {id(w.held.tensor) for w in evidence.wrongs if w.held is not None and w.held.device == wrong}
    for one in flat(evidence.inner):
        found |= {id(h.tensor) for h in one.held if h.device == wrong}
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


def _made_by(evidence: Evidence, made: Any, wrong: str) -> bool:
    """Whether a method of this very object made the failing tensor, on a device that the object answers."""
    if values.is_module(made) or not any(s.receiver is made for s in evidence.scopes):
        return False
    for one in flat(evidence.inner):
        if not one.is_tensor or one.device != wrong:
            continue
        for step in evidence.tracer.trace(one.node, one.scope, wrong):
            node = step.node
            if step.kind != "factory" or not isinstance(node, ast.Call):
                continue
            if step.scope.receiver is made and keyword(node, "device") is not None:
                return True
    return False


def _finding(
    evidence: Evidence, one: UserCall, name: str, made: Any, sides: tuple[str | None, str, str]
) -> Finding:
    default, wanted, wrong = sides
    text = one.scope.source.one_line(one.node.func)
    target = one.target()
    given = next((node for node in one.given.values() if value_now(node, one.scope) is made), None)
    place = target if target is not None else given if given is not None else one.node.func
    held = one.scope.source.one_line(place)
    seen = next((leaf.expression for leaf in evidence.leaves if leaf.value is made), held)
    certainty: Certainty = "certain" if default == wrong else "likely"
    holds = made is not MISSING and any(h.device == wrong for h in held_tensors(made))
    what = f"has tensors on {wrong}" if holds else f"made a tensor on {wrong}"
    if made is MISSING:
        seen = text
    told = "it" if seen == text else f"`{text}`"
    finding = Finding(
        certainty=certainty,
        culprit=seen,
        headline=f"`{seen}` {what}: {told} was not told the device, and {wanted} is in use",
        root_node=one.node,
        root_scope=one.scope,
        root_note=f"`{name}` was not passed, so {one.package} chose {wrong}",
    )
    evidence.wanted = wanted
    anchor = best_anchor(evidence, one.scope, one.node)
    if anchor is not None:
        made_edits = edits.add_keyword(one.scope.source, one.node, name, anchor.text)
        finding.mends.append(Mend(f"pass the device as `{name}`", made_edits, one.node, one.scope))
    return finding
