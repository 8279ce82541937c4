"""What happened: a value was computed once and kept, and the device that it was computed on has become the wrong one.

`lru_cache`, a dict at module level, `cached_property`, `if self._cos is None: self._cos = ...`: the first call decides
where the value is, and each later one gets the same tensor, wherever the model has moved since.

How to recognise it: the value came out of a cache, and its key or its test says nothing of a device.

Before:

    if n > self._len:
        self._len, self._cos = n, table(n).cos()

After:

    if n > self._len or self._cos.device != self.inv_freq.device:
        self._len, self._cos = n, table(n).cos()

Safe: the value is the same. What a cache gives back to several callers is moved at the call, not in the cache.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .. import edits
from ..evidence import values
from ..evidence.anchors import LITERAL, anchors
from ..evidence.collect import Evidence, Wrong
from ..evidence.infer import keyword
from ..evidence.libraries import is_library
from ..evidence.scopes import MISSING, Scope, dotted, own_nodes
from ..evidence.steps import Step
from ._factories import cached, factory_mend, usable
from ._finding import Finding, Mend
from ._moves import appended, best_anchor, move_text
from ._user_calls import every_scope

NAME = "stale-cache"
TITLE = "a cached value is still on the device where it was first computed"


def find(evidence: Evidence) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None or evidence.wanted == "cpu" or wrong.leaf.is_module:
        return None
    return _guarded(evidence) or _property(evidence) or _returned(evidence, wrong) or _stored(evidence)


# -- an attribute that is computed again only when a test says so ---------------------------------------------------


def _guarded(evidence: Evidence) -> Finding | None:
    for step in evidence.steps:
        name = _kept_attribute(evidence, step)
        guard = _guard(step) if name is not None and step.editable else None
        if name is None or guard is None:
            continue
        if evidence.inference.device(step.node, step.scope) != evidence.wanted:
            continue  # computed anew it would be wrong again: the test is not what is missing
        before = f"`self.{name}` was computed before the move, and its test does not see that"
        if _set_from_outside(evidence, name):  # what is there now may be another value than was computed
            before = "it is kept from an earlier call, and the test does not ask for the device"
        finding = Finding(
            certainty="certain" if before.startswith("`") else "likely",
            headline=f"`{_said(evidence)}` is on {evidence.wrong_device}: {before}",
            root_node=guard,
            root_scope=step.scope,
            root_note="this test does not ask for the device",
        )
        finding.trail.append((step.stmt or step.node, step.scope, "kept here"))
        mend = _with_device(evidence, step, name, guard)
        if mend is not None:
            finding.mends.append(mend)
        return finding
    return None


def _kept_attribute(evidence: Evidence, step: Step) -> str | None:
    """The attribute that a step assigns, where the object holds a tensor on the wrong device under it now."""
    first = step.scope.parameters()[0].arg if step.scope.parameters() else ""
    owner, name = step.owner, step.name
    if step.kind == "assign" and name.startswith(f"{first}."):
        owner, name = step.scope.receiver, name.removeprefix(f"{first}.")
    if owner is MISSING or not name.isidentifier() or step.kind not in ("assign", "attribute"):
        return None
    try:
        held = values.attribute(owner, name)
    except LookupError:
        return None
    return name if values.is_tensor(held) and values.device_of(held) == evidence.wrong_device else None


def _set_from_outside(evidence: Evidence, name: str) -> bool:
    """Whether the user's code sets the attribute elsewhere than in a method of its object (`model.mask = ...`)."""
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr == name
        and not (scope.parameters() and ast.unparse(node.value) == scope.parameters()[0].arg)
        for scope in every_scope(evidence)
        for node in own_nodes(scope.node)
    )


def _said(evidence: Evidence) -> str:
    return evidence.wrong.expression if evidence.wrong is not None else ""


def _guard(step: Step) -> ast.If | None:
    """The `if` around the assignment whose test asks for the kept value or for what was kept with it."""
    if step.stmt is None:
        return None
    kept = {name for target in getattr(step.stmt, "targets", []) for name in _attributes(target)}
    for up in step.scope.source.ancestors(step.stmt):
        if isinstance(up, ast.If) and step.stmt in up.body:
            asked = set(_attributes(up.test))
            asked |= {
                n.value for n in ast.walk(up.test) if isinstance(n, ast.Constant) and type(n.value) is str
            }
            return up if asked & kept else None
    return None


def _attributes(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
            yield inner.attr


def _with_device(evidence: Evidence, step: Step, name: str, guard: ast.If) -> Mend | None:
    """Ask for the device too: that of the owner's own state or of an argument."""
    receiver = step.scope.parameters()[0].arg if step.scope.parameters() else "self"
    found = anchors(step.scope, guard, evidence.wanted or "", evidence.inference)
    own = f"{receiver}.{name}"
    text = next((a.text for a in found if a.rank != LITERAL and not a.text.startswith(own)), None)
    if text is None:
        return None
    source = step.scope.source
    made = edits.replace_node(source, guard.test, f"{source.segment(guard.test)} or {own}.device != {text}")
    return Mend("compute it again when the device has changed", made, guard, step.scope)


# -- an entry of a dict that is made only where it is missing --------------------------------------------------------


def _stored(evidence: Evidence) -> Finding | None:
    for step in evidence.steps:
        added = step.extra.get("added", step.stmt)
        target = added.targets[0] if isinstance(added, ast.Assign) else None
        store = dotted(target.value) if isinstance(target, ast.Subscript) else None
        if store is None or not step.editable or not isinstance(added, ast.Assign):
            continue
        ups = step.scope.source.ancestors(added)
        guards = [u for u in ups if isinstance(u, ast.If) and added in u.body]
        guard = next((g for g in guards if any(_asks(n, store) for n in ast.walk(g.test))), None)
        if guard is None or evidence.inference.device(step.node, step.scope) != evidence.wanted:
            continue  # computed anew it would be wrong again: the test is not what is missing
        finding = Finding(
            headline=f"`{_said(evidence)}` is on {evidence.wrong_device}: `{store}` keeps it from an earlier call, and the test does not ask for the device",
            root_node=guard.test,
            root_scope=step.scope,
            root_note="this test does not ask for the device",
        )
        found = anchors(step.scope, guard, evidence.wanted or "", evidence.inference)
        text = next((a.text for a in found if a.rank != LITERAL and not a.text.startswith(store)), None)
        if text is not None:
            source, entry = step.scope.source, step.scope.source.segment(target)  # type: ignore[arg-type]
            again = f"{source.segment(guard.test)} or {entry}.device != {text}"
            made = edits.replace_node(source, guard.test, again)
            finding.mends.append(
                Mend("compute it again when the device has changed", made, guard.test, step.scope)
            )
        return finding
    return None


# -- a cached property ----------------------------------------------------------------------------------------------


def _property(evidence: Evidence) -> Finding | None:
    step = next((s for s in evidence.steps if s.kind == "property" and cached(s.scope)), None)
    root = evidence.root
    if step is None or root is None or not step.editable:
        return None
    mend = None
    inside = root.scope.node is step.scope.node
    if not inside and evidence.inference.device(step.node, step.scope) == evidence.wrong_device:
        return None  # computed anew it would be wrong again: what it is computed from is
    if root.kind == "factory" and inside:
        mend = factory_mend(evidence, root, evidence.steps, last_resort=True)
    finding = Finding(
        root_node=root.node if mend is not None else step.node,
        root_scope=step.scope,
        root_note=f"computed once, on {evidence.wrong_device}, and kept by the cached property",
    )
    mend = mend or _at_call(evidence, evidence.steps.index(step))
    if mend is not None:
        finding.mends.append(mend)
    return finding


# -- a function that keeps its results ------------------------------------------------------------------------------


def _returned(evidence: Evidence, wrong: Wrong) -> Finding | None:
    for index, step in enumerate(evidence.steps):
        entered = step.extra.get("entered") if step.kind == "call" else None
        if entered is None or not (cached(entered) or keeps_results(entered)):
            continue
        if _keyed_by_device(evidence, entered):
            continue  # the device is a part of the key: it was asked for on the wrong one
        if is_library(entered.source.path) and not cached(entered):
            continue  # a library stores many things in passing: without the decorator nothing is proven
        mend = _at_call(evidence, index)
        name = entered.function or "the function"
        note = f"`{name}` keeps its results, and gives back the one that it made on {evidence.wrong_device}"
        finding = Finding("certain" if wrong.proven else "likely", culprit=_said(evidence), root_note=note)
        finding.root_node, finding.root_scope = (mend.node, mend.scope) if mend else (step.node, step.scope)
        if mend is not None:
            finding.mends.append(mend)
        root = evidence.root
        if root is not None and root.kind in ("factory", "constructor") and root.scope.node is entered.node:
            finding.trail.append(
                (root.node, root.scope, f"made here, on {evidence.wrong_device}; what comes of it is kept")
            )
        return finding
    return None


def _keyed_by_device(evidence: Evidence, entered: Scope) -> bool:
    """Whether the call that made the tensor takes its device from a parameter of the function with the decorator."""
    root = evidence.root
    given = keyword(root.node, "device") if root is not None and isinstance(root.node, ast.Call) else None
    if root is None or root.scope.node is not entered.node or not cached(entered):
        return False
    return isinstance(given, ast.Name) and entered.is_parameter(given.id)


def keeps_results(scope: Scope) -> bool:
    """Whether a function stores what it makes in a container that outlives it, under a test whether it is there."""
    nodes = own_nodes(scope.node)
    local = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    local |= {p.arg for p in scope.parameters()[1:]}
    if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef) and scope.node.args.kwarg is not None:
        local.add(scope.node.args.kwarg.arg)
    first = scope.parameters()[0].arg if scope.parameters() else ""
    for node in nodes:
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            store = dotted(target.value) if isinstance(target, ast.Subscript) else None
            if store is None or store.partition(".")[0] in local or store == first:
                continue
            if any(_asks(n, store) for n in nodes):
                return True
    return False


def _asks(node: ast.AST, store: str) -> bool:
    """`key in store`, `store.get(key)`, `try: return store[key]`."""
    if isinstance(node, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
        return any(dotted(c) == store for c in node.comparators)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        return dotted(node.func.value) == store
    if isinstance(node, ast.Try):
        return any(
            isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load) and dotted(n.value) == store
            for s in node.body
            for n in ast.walk(s)
        )
    return False


def _at_call(evidence: Evidence, index: int) -> Mend | None:
    """Move what the cache gives back, at the first place outside of it where the device can be named."""
    steps = evidence.steps
    for strict in (True, False):
        for step in [steps[index], *reversed(steps[:index])]:
            if not step.editable or not isinstance(step.node, ast.expr) or cached(step.scope):
                continue
            if keeps_results(step.scope) or step.kind not in (
                "call",
                "assign",
                "parameter",
                "use",
                "property",
            ):
                continue
            anchor = best_anchor(evidence, step.scope, step.node)
            if anchor is None or step.path or (strict and not usable(anchor, step, evidence)):
                continue
            node = steps[index - 1].node if step.kind == "property" and index else step.node
            scope = steps[index - 1].scope if step.kind == "property" and index else step.scope
            place = Step("use", node, scope)
            mend = appended(place, move_text(evidence, scope, node, anchor), "move what the cache gives back")
            if mend is not None:
                return mend
    return None
