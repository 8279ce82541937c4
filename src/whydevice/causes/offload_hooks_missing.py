"""What happened: a second pipeline was built from the parts of one that offloads them, and does not offload itself.

Offloading keeps the parts in host memory and moves each to the GPU while it runs. The moves belong to the pipeline on
which they were switched on. Another pipeline that was given the same parts finds them on the CPU.

How to recognise it: two objects of one library share modules, your code switched offloading on for one of them, and the
other one failed.

Before:

    refine = Img2Img(**text2img.components)

After:

    refine = Img2Img(**text2img.components)
    refine.enable_model_cpu_offload()

Safe: the same switch, for the same parts.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.libraries import is_library
from ..evidence.passive import OF_PYTHON, bases, class_entries, class_module, code_file
from ..evidence.scopes import MISSING, Scope, own_nodes
from ._finding import Finding, Mend
from ._order import value_now
from ._user_calls import every_scope, package_of

NAME = "offload-hooks-missing"
TITLE = "offloading was switched on for another pipeline that shares these parts"


def find(evidence: Evidence) -> Finding | None:
    failed = _failed(evidence)
    if failed is None or evidence.user is None:
        return None
    switches = list(_switches(evidence, package_of(failed)))
    if any(held is failed for _, _, held in switches):
        return None
    parts = _parts(failed)
    for scope, call, held in switches:
        assert isinstance(call.func, ast.Attribute)
        method = values.class_attribute(type(failed), call.func.attr)
        if method is None or not parts & _parts(held):
            continue
        return _finding(evidence, scope, call, failed)
    return None


def _failed(evidence: Evidence) -> Any:
    """The library's object whose call or method failed in the user's frame."""
    node = evidence.node
    if evidence.user is None or not isinstance(node, ast.Call):
        return None
    called = try_evaluate(node.func, evidence.user)
    base = try_evaluate(node.func.value, evidence.user) if isinstance(node.func, ast.Attribute) else MISSING
    for held in (called, base):
        if held is MISSING or values.is_class(held) or class_module(type(held)) in OF_PYTHON:
            continue
        if package_of(held) != "torch" and _of_library(type(held)):
            return held
    return None


def _of_library(cls: type) -> bool:
    """Whether the class, or a base of it, is written in a library's file."""
    return any(
        is_library(code_file(member.__code__))
        for base in bases(cls)
        for _, member in values.named(class_entries(base))[:50]
        if type(member) is types.FunctionType
    )


def _switches(evidence: Evidence, package: str) -> Iterator[tuple[Scope, ast.Call, Any]]:
    """The user's `a.enable_..._offload()` statements, with the object that `a` is."""
    for scope in every_scope(evidence):
        for node in own_nodes(scope.node):
            if not (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Attribute)
                and "offload" in node.value.func.attr.lower()
            ):
                continue
            held = value_now(node.value.func.value, scope)
            if held is not MISSING and package_of(held) == package:
                yield scope, node.value, held


def _parts(held: Any) -> set[int]:
    """The modules that an object keeps: as attributes, or in a container of its own."""
    found: set[int] = set()
    for _, value in values.named(values.instance_dict(held))[:100]:
        if values.is_module(value):
            found.add(id(value))
        elif values.is_container(value):
            found |= {id(item) for _, item in values.items(value) if values.is_module(item)}
    return found


def _finding(evidence: Evidence, scope: Scope, call: ast.Call, failed: Any) -> Finding:
    assert isinstance(call.func, ast.Attribute)
    other = scope.source.one_line(call.func.value)
    method = call.func.attr
    built = _binding(evidence, failed)
    name = ast.unparse(built[0].targets[0]) if built is not None else "it"
    finding = Finding(
        culprit=_expression(evidence, failed) or name,
        headline=f"`{name}` shares its parts with `{other}`, which offloads them: `{name}.{method}()` was not called",
        root_node=built[0] if built is not None else evidence.node,
        root_scope=built[1] if built is not None else evidence.user,
        root_note=f"shares the parts of `{other}`, without its offloading",
    )
    if built is not None:
        statement, place = built
        arguments = ", ".join(ast.unparse(a) for a in [*call.args, *call.keywords])
        made = edits.insert_after(place.source, statement, f"{name}.{method}({arguments})".replace("'", '"'))
        finding.mends.append(Mend("switch offloading on for it too", made, statement, place))
    return finding


def _expression(evidence: Evidence, failed: Any) -> str | None:
    return next((o.expression for o in evidence.leaves if o.value is failed), None)


def _binding(evidence: Evidence, failed: Any) -> tuple[ast.Assign, Scope] | None:
    for scope in every_scope(evidence):
        for node in own_nodes(scope.node):
            if isinstance(node, ast.Assign) and value_now(node.targets[0], scope) is failed:
                return node, scope
    return None
