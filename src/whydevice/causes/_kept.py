"""Tensors that were made once and filled later: accumulators, and buffers that results are copied into."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ..edits import EditError
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.infer import NOT_A_TENSOR
from ..evidence.scopes import Scope, dotted, own_nodes
from ..evidence.steps import Step
from ..types import Edit
from ._factories import factory_mend
from ._finding import Finding, Mend
from ._mend import mend_value
from ._moves import suite_of
from ._order import method_scopes

MADE = ("factory", "constructor", "like")


class Write(NamedTuple):
    """A statement that puts `value` into a tensor kept under a name: by item, `copy_`, or in place."""

    node: ast.AST
    value: ast.expr
    scope: Scope
    kind: str  # item | copy | inplace


def made_at(evidence: Evidence) -> tuple[Step, Step] | None:
    """(the call that made the wrong tensor, the binding that kept it), where both are known and editable."""
    root = evidence.root
    if root is None or root.kind not in MADE or not root.editable or keeps_device(root):
        return None
    for step in reversed(evidence.steps[:-1]):
        if step.kind in ("assign", "attribute", "item", "property"):
            return root, step
        if step.kind in ("return", "call", "parameter"):
            return None
    return None


def keeps_device(root: Step) -> bool:
    """Whether the call says itself where its result lies."""
    keywords = root.node.keywords if isinstance(root.node, ast.Call) else []
    return any(k.arg == "device" for k in keywords)


def names_of(step: Step) -> list[str]:
    """How the scope that made a tensor, and its class's methods, call it: `out`, `self.cache`, `buf["obs"]`."""
    found = []
    for target in getattr(step.stmt, "targets", None) or [getattr(step.stmt, "target", None)]:
        for leaf in ast.walk(target) if target is not None else ():
            if isinstance(leaf, ast.Name | ast.Attribute | ast.Subscript) and isinstance(leaf.ctx, ast.Store):
                found.append(ast.unparse(leaf))
    found += [f"{name}[{key!r}]" for name in found for key in _keys(step)]
    if step.name and step.name.replace(".", "").isidentifier():
        found.append(step.name)
    return list(dict.fromkeys(found))


def _keys(step: Step) -> list[str]:
    """The key under which a dict literal holds the item that a step stands for."""
    literal = step.extra.get("literal")
    pairs = zip(literal.keys, literal.values, strict=True) if isinstance(literal, ast.Dict) else ()
    return [
        k.value for k, v in pairs if v is step.node and isinstance(k, ast.Constant) and type(k.value) is str
    ]


def writes(evidence: Evidence, scope: Scope, names: list[str]) -> Iterator[Write]:
    """The statements of a scope that write into a tensor with one of these names, or into a view of it."""
    for node in own_nodes(scope.node):
        if isinstance(node, ast.Assign):
            for target, value in _pairs(node):
                if (
                    isinstance(target, ast.Subscript)
                    and _base(target) in names
                    and _base(target) != ast.unparse(target)
                ):
                    yield Write(node, value, scope, "item")
        elif isinstance(node, ast.AugAssign) and _base(node.target) in names:
            yield Write(node, node.value, scope, "inplace")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            method = node.func.attr
            if method.endswith("_") and not method.endswith("__") and _base(node.func.value) in names:
                value = node.args[-1] if method != "copy_" else node.args[0]
                yield Write(node, value, scope, "copy" if method == "copy_" else "inplace")


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in node.targets:
        if (
            isinstance(target, ast.Tuple)
            and isinstance(node.value, ast.Tuple)
            and len(target.elts) == len(node.value.elts)
        ):
            yield from zip(target.elts, node.value.elts, strict=True)
        else:
            yield target, node.value


def _base(node: ast.expr) -> str:
    """`out` of `out[i]`, `self.k` of `self.k[:, pos]`; `buf["obs"]` of `buf["obs"][t]`."""
    here = node
    while isinstance(here, ast.Subscript):
        inner = here.value
        if isinstance(here.slice, ast.Constant) and isinstance(here.slice.value, str):
            return ast.unparse(here)
        here = inner
    return ast.unparse(here)


def silent_copies(evidence: Evidence, kept: Step) -> Iterator[Write]:
    """The writes that are known to have copied from the wanted device into the kept tensor."""
    names = names_of(kept)
    scopes = [kept.scope]
    if kept.kind == "attribute":
        names += [f"self.{kept.name}"]
        scopes += list(method_scopes(evidence, kept.owner))
    seen: set[int] = set()
    for scope in [*scopes, *evidence.tracer.live]:
        for write in writes(evidence, scope, names if scope in scopes else _held_as(scope, evidence)):
            if id(write.node) in seen or write.kind == "inplace":
                continue
            seen.add(id(write.node))
            if evidence.inference.device(write.value, write.scope) == evidence.wanted:
                yield write


def _held_as(scope: Scope, evidence: Evidence) -> list[str]:
    """The names of a live frame that hold the wrong tensor itself."""
    wrong = evidence.wrong
    tensor = wrong.held.tensor if wrong is not None and wrong.held is not None else None
    key = values.storage_key(tensor) if tensor is not None else None
    if key is None or scope.frame is None:
        return []
    return [
        name
        for name, held in list(scope.locals.items())[:200]
        if values.is_tensor(held) and values.storage_key(held) == key
    ]


def kept_mend(evidence: Evidence, root: Step) -> Mend | None:
    """Make the tensor on the wanted device where it is made; where nothing names that there, by the script's own word."""
    try:
        mend = mend_value(evidence, evidence.steps)
    except EditError:
        mend = None
    if mend is not None and mend.node is root.node:
        return mend
    if root.kind == "factory":
        made = factory_mend(evidence, root, evidence.steps, last_resort=True)
        if made is not None:
            return made
    return mend


def add_kept_mend(evidence: Evidence, finding: Finding, root: Step, kept: Step) -> None:
    """Add the mend of what was made once; with those made beside it, where it is mended where it was made."""
    mend = kept_mend(evidence, root)
    if mend is None:
        return
    if mend.node is root.node:
        with_neighbours(evidence, mend, root, kept)
    finding.mends.append(mend)


def with_neighbours(evidence: Evidence, mend: Mend, root: Step, kept: Step) -> None:
    """Mend the tensors made beside it in the same way that are filled in the same way."""
    made: list[Edit] = list(mend.edits)
    for call, scope in _neighbours(root, kept):
        kind, name = evidence.inference.call_kind(call, scope)
        if kind != "factory" or any(k.arg == "device" for k in call.keywords):
            continue
        try:
            more = factory_mend(
                evidence, Step("factory", call, scope, name), evidence.steps, last_resort=True
            )
        except EditError:
            continue
        if more is not None:
            made += more.edits
    mend.edits = tuple(dict.fromkeys(made))


def _neighbours(root: Step, kept: Step) -> Iterator[tuple[ast.Call, Scope]]:
    """The other calls in the same literal, and those bound in the same block to what is filled in the same body."""
    statement = root.scope.source.statement(root.node)
    if statement is None:
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and node is not root.node:
            parent = root.scope.source.parent(node)
            if isinstance(parent, ast.Dict | ast.Tuple | ast.List):
                yield node, root.scope
    nodes = own_nodes(root.scope.node)
    for other in suite_of(root.scope, statement):
        if other is statement or not isinstance(other, ast.Assign) or not isinstance(other.value, ast.Call):
            continue
        name = dotted(other.targets[0])
        if name is None:
            continue
        if kept.kind == "attribute" or _filled(nodes, name):
            yield other.value, root.scope


def _filled(nodes: list[ast.AST], name: str) -> bool:
    for node in nodes:
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) == name:
            return True
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Subscript) and _base(t) == name for t in node.targets
        ):
            return True
    return False


def on_wanted(evidence: Evidence, node: ast.expr, scope: Scope) -> bool:
    return evidence.inference.device(node, scope) == evidence.wanted


def may_be_tensor(evidence: Evidence, node: ast.expr, scope: Scope) -> bool:
    return evidence.inference.device(node, scope) not in (NOT_A_TENSOR, evidence.wrong_device)
