"""What happened: a library's own code met two GPUs, because the model it runs is spread over them.

Nothing that your code passed is wrong. That part of the library does not work with a model on several GPUs (an index
that stays on the first one, a bias shared by all layers, a cache).

How to recognise it: the line that failed is the library's, the model has parameters on both GPUs of the message, and
your code chose that placement with a device map.

Before:

    model = load(name, device_map={"encoder": "cuda:0", "decoder": "cuda:1"})

After:

    model = load(name, device_map={"encoder": "cuda:0", "decoder": "cuda:0"})

Unsafe: the whole model has to fit on one GPU. Otherwise use a version of the library in which it is mended.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.infer import canonical
from ..evidence.scopes import Scope, own_nodes
from ..types import Edit
from ._facts import owners
from ._finding import Finding, Mend
from ._order import value_now
from ._user_calls import every_scope

NAME = "split-model-in-library"
TITLE = "a library's code does not work with a model on several GPUs"
_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")


def find(evidence: Evidence) -> Finding | None:
    from .library_fault import library_name

    sides = {d for d in (evidence.wanted, evidence.wrong_device) if d is not None}
    if len(sides) < 2 or not all(d.startswith("cuda") for d in sides) or evidence.user is None:
        return None
    failed = _library_scope(evidence)
    split = _split(evidence, sides)
    if failed is None or split is None:
        return None
    model, parts = split
    for scope in every_scope(evidence):
        for node, made, note in _maps(scope, sides, parts):
            name = library_name(failed.source.path)
            line = failed.live.line if failed.live is not None else 0
            finding = Finding(
                certainty="likely",
                either=True,
                culprit=model,
                headline=f"{name} met {' and '.join(sorted(sides))} in its own code: `{model}` is spread over both",
                root_node=node,
                root_scope=scope,
                root_note=note,
                notes=[f"{name}: line {line}, in `{failed.function or 'the module'}`"],
            )
            reason = "the whole model has to fit on one GPU"
            finding.mends.append(Mend("keep the model on one GPU", made, node, scope, "unsafe", reason))
            return finding
    return None


def _library_scope(evidence: Evidence) -> Scope | None:
    """The library's scope that failed: the innermost one that is not torch's, below the user's."""
    for scope in reversed(evidence.scopes):
        if scope is evidence.user:
            return None
        if not scope.module_name.startswith("torch"):
            return scope if scope.live is not None and scope.live.library else None
    return None


def _split(evidence: Evidence, sides: set[str]) -> tuple[str, set[str]] | None:
    """A model that has parameters on both devices and takes part in the failing call: its name, and its parts'."""
    running = [s.receiver for s in evidence.scopes]
    for one in evidence.leaves:
        if one.is_module and sides <= set(values.module_devices(one.value)):
            return one.expression, {path for path, _ in values.submodules(one.value)}
    for owner, name, _ in owners(evidence):
        if values.is_module(owner) and sides <= set(values.module_devices(owner)):
            if any(owner is r for r in running):
                return name, {path for path, _ in values.submodules(owner)}
    return None


def _maps(scope: Scope, sides: set[str], parts: set[str]) -> Iterator[tuple[ast.expr, tuple[Edit, ...], str]]:
    """The device maps in the user's code that name both devices, with the edit that leaves one."""
    for node in own_nodes(scope.node):
        if isinstance(node, ast.Dict) and len(node.values) > 1:
            made = _one_gpu(node, scope, sides, parts)
            if made:
                yield node, made, "puts the parts on several GPUs"
        elif isinstance(node, ast.DictComp | ast.List):
            made = _one_for_all(node, scope, sides)
            if made:
                yield node, made, "puts the parts on several GPUs"
        elif isinstance(node, ast.keyword) and node.arg == "device_map":
            value: Any = node.value.value if isinstance(node.value, ast.Constant) else None
            if value in _MAPS:
                text = f'"{sorted(sides)[0]}"'
                yield (
                    node.value,
                    edits.replace_node(scope.source, node.value, text),
                    "spreads the model over all GPUs",
                )


def _one_gpu(node: ast.Dict, scope: Scope, sides: set[str], parts: set[str]) -> tuple[Edit, ...]:
    """The edits of `{part: device}` or `{gpu: [layers]}` that leave one GPU in it."""
    source = scope.source
    placed = [canonical(v.value) if isinstance(v, ast.Constant) else None for v in node.values]
    named = {k.value for k in node.keys if isinstance(k, ast.Constant) and type(k.value) is str}
    if None not in placed and sides <= set(placed) and named & parts:
        first = source.one_line(node.values[0])
        return tuple(
            e
            for value, device in zip(node.values, placed, strict=True)
            if device != placed[0]
            for e in edits.replace_node(source, value, first)
        )
    keys = [canonical(k.value) if isinstance(k, ast.Constant) else None for k in node.keys]
    lists = [v for v in node.values if isinstance(v, ast.List)]
    handed = isinstance(source.parent(node), ast.Call | ast.keyword | ast.Assign)
    if None in keys or not sides <= set(keys) or len(lists) != len(node.values) or not handed:
        return ()
    layers = ", ".join(source.one_line(e) for one in lists for e in one.elts)
    key = node.keys[0]
    return (
        edits.replace_node(source, node, f"{{{source.one_line(key)}: [{layers}]}}") if key is not None else ()
    )


def _one_for_all(node: ast.DictComp | ast.List, scope: Scope, sides: set[str]) -> tuple[Edit, ...]:
    """`{name: f"cuda:{i % 2}" for ...}` bound to a name, and `["cuda:0", "cuda:1"]`, with one GPU in every place."""
    if isinstance(node, ast.List):
        texts = [e.value if isinstance(e, ast.Constant) else None for e in node.elts]
        placed = [canonical(t) if type(t) is str else None for t in texts]
        if None in placed or not sides <= set(placed):
            return ()
        first = scope.source.one_line(node.elts[0])
        return tuple(e for one in node.elts[1:] for e in edits.replace_node(scope.source, one, first))
    statement = scope.source.statement(node)
    if not (isinstance(statement, ast.Assign) and statement.value is node):
        return ()
    held = value_now(statement.targets[0], scope)
    devices = {canonical(device) for _, device in values.items(held)} if values.is_container(held) else set()
    if not sides <= devices:
        return ()
    return edits.replace_node(scope.source, node.value, f'"{sorted(sides)[0]}"')
