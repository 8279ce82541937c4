"""What happened: a cache has a tensor for every layer, all on one GPU, and the layers are on several.

How to recognise it: the cache was made with the first of a list of devices, its tensors are all there, and the layer
that failed is on another device of that list.

Before:

    cache = LayerCache(num_layers, device=devices[0])

After:

    cache = LayerCache(num_layers, device=devices)

Safe where the cache takes a device for every layer, as its own code shows.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.infer import canonical
from ..evidence.operands import flat, held_tensors
from ..evidence.passive import code_file, code_name
from ..evidence.scopes import MISSING, Scope, bindings_of
from ..evidence.sources import Source
from ..types import Edit
from ._facts import owners
from ._finding import Finding, Mend
from ._user_calls import UserCall, device_parameter, user_calls

NAME = "cache-on-one-gpu"
TITLE = "a cache for layers on several GPUs is on one of them"
_EACH = re.compile(r"(?:layer|stage|block)\w*device|device\w*(?:map|s)$|devices")


def find(evidence: Evidence) -> Finding | None:
    sides = {evidence.wanted, evidence.wrong_device}
    if len(sides) < 2 or not all(d is not None and d.startswith("cuda") for d in sides):
        return None
    for one in user_calls(evidence):
        made = one.result() if values.is_class(one.called) else MISSING
        if made is MISSING or values.is_module(made) or not _in_use(evidence, made):
            continue
        devices = {h.device for h in held_tensors(made)}
        if len(devices) != 1 or len(held_tensors(made)) < 2 or not devices <= sides:
            continue
        name = device_parameter(one.given)
        every = _list_of(one.given[name], one.scope, sides) if name is not None else None
        if name is not None and every is not None:
            return _finding(evidence, one, name, every, made, devices.pop())
    return None


def _in_use(evidence: Evidence, made: Any) -> bool:
    """Whether the cache takes part in the failing call: an operand of it, or the object whose method failed."""
    if any(one.value is made for one in flat(evidence.leaves)):
        return True
    return any(scope.receiver is made for scope in evidence.scopes) and any(
        value is made for value, _, _ in owners(evidence)
    )


def _list_of(given: ast.expr, scope: Scope, sides: set[str | None]) -> str | None:
    """The list that the given device is one item of; else a list in the scope that names both devices."""
    node: ast.expr | None = given
    if isinstance(node, ast.Name):
        bound = [b for b in bindings_of(scope.node).get(node.id, []) if b.value is not None and not b.path]
        node = bound[0].value if len(bound) == 1 else None
    if isinstance(node, ast.Subscript) and _names_both(try_evaluate(node.value, scope), sides):
        return scope.source.one_line(node.value)
    return next((name for name, held in scope.locals.items() if _names_both(held, sides)), None)


def _names_both(held: Any, sides: set[str | None]) -> bool:
    if not values.is_container(held) or issubclass(type(held), dict):
        return False
    return sides <= {canonical(item) for _, item in values.items(held)}


def _finding(evidence: Evidence, one: UserCall, name: str, every: str, made: Any, device: str) -> Finding:
    target = one.target()
    text = one.scope.source.one_line(target) if target is not None else ast.unparse(one.node.func)
    seen = next((leaf.expression for leaf in flat(evidence.leaves) if leaf.value is made), text)
    finding = Finding(
        either=True,
        culprit=seen,
        culprit_device=device,
        headline=f"`{seen}` is all on {device}, but the layers that use it are on {' and '.join(_sides(evidence))}",
        root_node=one.node,
        root_scope=one.scope,
        root_note=f"made for {device} alone",
    )
    edit = _edit(evidence, one, name, every)
    if edit:
        finding.mends.append(Mend("give every layer's part its own GPU", edit, one.node, one.scope))
    return finding


def _sides(evidence: Evidence) -> list[str]:
    return sorted(d for d in (evidence.wanted, evidence.wrong_device) if d is not None)


def _edit(evidence: Evidence, one: UserCall, name: str, every: str) -> tuple[Edit, ...]:
    source = one.scope.source
    given = one.given[name]
    if _takes_list(evidence, one, name):
        return edits.replace_node(source, given, every)
    other = next((p for p in one.absent if _EACH.search(p)), None)
    if other is None:
        return ()
    keyword = next((k for k in one.node.keywords if k.value is given), None)
    if keyword is not None:
        return edits.replace_node(source, keyword, f"{other}={every}")
    return edits.add_keyword(source, one.node, other, every)


def _takes_list(evidence: Evidence, one: UserCall, name: str) -> bool:
    """Whether the constructor asks the parameter if it is a list: `isinstance(device, (list, tuple))`."""
    source = evidence.sources.get(code_file(one.function.__code__), one.function.__globals__)
    node = (
        source.function_at(one.function.__code__.co_firstlineno, code_name(one.function.__code__))
        if source
        else None
    )
    if source is None or node is None:
        return False
    return any(_asks(test, name, source) for test in ast.walk(node))


def _asks(node: ast.AST, name: str, source: Source) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"):
        return False
    if len(node.args) != 2 or not (isinstance(node.args[0], ast.Name) and node.args[0].id == name):
        return False
    kinds = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
    kinds |= {n.attr for n in ast.walk(node.args[1]) if isinstance(n, ast.Attribute)}
    return bool(kinds & {"list", "tuple", "Sequence", "Iterable", "str", "device"})
