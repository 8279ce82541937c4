"""How a container came to be moved in part, and the edit of what moved it."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterator
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.calls import enter_method
from ..evidence.collect import Evidence
from ..evidence.conditions import lookup
from ..evidence.evaluate import try_evaluate
from ..evidence.libraries import is_library
from ..evidence.operands import held_tensors
from ..evidence.partly import Mover
from ..evidence.passive import exactly, same_scalar, type_name
from ..evidence.scopes import MISSING, Scope, bindings_of, own_nodes
from ..evidence.until import until
from ..evidence.ways import Gap, Link, parts, way_to
from ..source import Source
from ._finding import Mend
from ._moves import moved_whole, text_of_move

MOST_NAMES = 200


def gap_of(evidence: Evidence) -> Gap | None:
    """The place on the wrong tensor's way that moved what is beside it and let it through."""
    mover = Mover(evidence.inference, evidence.sources, evidence.wanted or "")
    for node, way, scope in [*_on_the_way(evidence), *_bound_now(evidence)]:
        if is_library(scope.source.path):
            continue
        found = mover.gap(node, way, scope)
        if found is not None and not is_library(found.scope.source.path) and _moved_beside(found, evidence):
            return found
    for way in held_now(evidence):
        for index, link in enumerate(way[:-1]):
            for scope, name in _methods(evidence, link.value):
                found = mover.through(scope, name, way[index:])
                if found is not None and found.kind != "passed" and _moved_beside(found, evidence):
                    return found
    return None


def _moved_beside(gap: Gap, evidence: Evidence) -> bool:
    """Whether the container's other tensors really are where they should be, as far as they can be seen."""
    seen = {h.device for link in gap.way[:-1] if link.value is not MISSING for h in held_tensors(link.value)}
    return gap.kind in ("element", "branch", "condition") or not seen or evidence.wanted in seen


def _tensors(evidence: Evidence) -> list[Any]:
    """The live tensors on the wrong tensor's way, itself first."""
    wrong = evidence.wrong
    assert wrong is not None
    found = [wrong.tensor]
    found += [try_evaluate(s.node, s.scope) for s in evidence.steps]
    return [t for t in found if values.is_tensor(t) and values.device_of(t) == evidence.wrong_device]


def _way(root: Any, tensors: list[Any]) -> list[Link] | None:
    return next((w for w in (way_to(root, t) for t in tensors) if w is not None), None)


def _on_the_way(evidence: Evidence) -> Iterator[tuple[ast.expr, list[Link], Scope]]:
    """The expressions on the way whose value is gone but was unpacked: the targets say where the tensor was in it."""
    tensors = _tensors(evidence)
    for step in evidence.steps if tensors else ():
        literal = step.scope.source.parent(step.node)
        if step.kind == "assign" and step.path and isinstance(step.node, ast.Call | ast.Tuple):
            yield step.node, [*(Link(MISSING, p) for p in step.path), Link(tensors[0])], step.scope
        elif step.kind == "assign" and isinstance(step.node, ast.Tuple | ast.List):
            into = step.extra.get("into", ())
            yield step.node, [*(Link(MISSING, p) for p in into), Link(tensors[0])], step.scope
        elif (
            step.kind == "return"
            and isinstance(literal, ast.Tuple | ast.List)
            and isinstance(step.node, ast.expr)
        ):
            index = literal.elts.index(step.node)  # of what a generator yields
            yield literal, [Link(MISSING, index), Link(tensors[0])], step.scope


def _bound_now(evidence: Evidence) -> Iterator[tuple[ast.expr, list[Link], Scope]]:
    """The expressions that gave the names of the live frames what they hold, where the tensor is in that."""
    tensors = _tensors(evidence)
    for scope in reversed(evidence.tracer.live):
        for name, held in list(scope.locals.items())[:MOST_NAMES]:
            way = _way(held, tensors)
            if way is None:
                continue
            found = bindings_of(scope.node).get(name, [])
            binding = max(
                (b for b in found if b.kind == "assign" and b.position < until(scope)),
                key=lambda b: b.position,
                default=None,
            )
            if binding is not None and binding.value is not None:
                yield binding.value, [*(Link(MISSING, p) for p in binding.path), *way], scope
            for node in own_nodes(scope.node):
                if (
                    isinstance(node, ast.Expr)
                    and isinstance(node.value, ast.Call)
                    and node.lineno < until(scope)[0]
                ):
                    if any(isinstance(a, ast.Name) and a.id == name for a in node.value.args):
                        yield node.value, way, scope
            if name in scope.bound and not found:
                argument = scope.bound[name]
                key = [Link(MISSING, argument.key)] if argument.spread else []
                yield argument.node, [*key, *way], argument.scope


def held_now(evidence: Evidence) -> Iterator[list[Link]]:
    """The ways to the tensor from what the live frames' names hold."""
    tensors = _tensors(evidence)
    for scope in reversed(evidence.tracer.live):
        for held in list(scope.locals.values())[:MOST_NAMES]:
            way = _way(held, tensors)
            if way is not None and len(way) > 1:
                yield way


def _methods(evidence: Evidence, owner: Any) -> Iterator[tuple[Scope, str]]:
    """The `to` and `cuda` methods of an object's class, as they would run on it."""
    for name in ("to", "cuda"):
        found = values.class_attribute(type(owner), name)
        if type(found) is types.FunctionType and evidence.user is not None and not values.is_module(owner):
            scope = enter_method(found, owner, evidence.user, evidence.sources)
            if scope is not None and scope.parameters() and not is_library(scope.source.path):
                yield scope, scope.parameters()[0].arg


# -- edits ----------------------------------------------------------------------------------------------------------


def mend_gap(evidence: Evidence, gap: Gap) -> Mend | None:
    """Move it where the others are moved, in the same words."""
    made = _EDITS[gap.kind](evidence, gap)
    if not made:
        return None
    return Mend("move it where the others are moved", tuple(made), gap.node, gap.scope)


def _element(evidence: Evidence, gap: Gap) -> tuple[Any, ...]:
    assert isinstance(gap.node, ast.expr) and gap.sibling is not None
    text = text_of_move(gap.sibling, gap.scope)
    source = gap.scope.source
    if len(gap.way) == 1:
        return edits.append_method(source, gap.node, text)
    moved = moved_whole(source.segment(gap.node), gap.way[0].value, text)
    return edits.replace_node(source, gap.node, moved) if moved else ()


def _condition(evidence: Evidence, gap: Gap) -> tuple[Any, ...]:
    """Drop a test that tells tensors by their keys; where the container holds other things too, ask for tensors."""
    assert isinstance(gap.node, ast.IfExp | ast.If) and gap.sibling is not None
    source = gap.scope.source
    receiver = gap.sibling.func.value  # type: ignore[attr-defined]
    plain = _only_tensors(gap, evidence)
    names = {n.id for n in ast.walk(gap.node.test) if isinstance(n, ast.Name)}
    if _asks_for_tensor(gap.node.test):
        return _container_branch(gap) if isinstance(gap.node, ast.If) else ()
    test = f"torch.is_tensor({ast.unparse(receiver)})"
    if isinstance(gap.node, ast.IfExp):
        inverted = any(n is gap.sibling for n in ast.walk(gap.node.orelse))
        moved = gap.node.orelse if inverted else gap.node.body
        if not plain and not inverted:
            return (
                edits.replace_node(source, gap.node.test, test)
                if "torch" in gap.scope.globals and names
                else ()
            )
        return _replaced(source, gap.node, source.segment(moved)) if plain else ()
    return edits.replace_node(source, gap.node.test, test) if "torch" in gap.scope.globals else ()


def _replaced(source: Source, node: ast.expr, text: str) -> tuple[Any, ...]:
    """A conditional expression replaced by one of its arms, with the parentheses that only it needed."""
    start, end = source.span(node)
    before, after = source.text[:start].rstrip(" "), source.text[end:].lstrip(" ")
    own = isinstance(source.parent(node), ast.DictComp | ast.ListComp | ast.Dict | ast.Assign | ast.Return)
    if own and before.endswith("(") and after.startswith(")"):
        return (source.edit(len(before) - 1, len(source.text) - len(after) + 1, text),)
    return edits.replace_node(source, node, text)


def _asks_for_tensor(test: ast.expr) -> bool:
    """`torch.is_tensor(v)`, `isinstance(v, torch.Tensor)`: right as it is, and what it lets through holds tensors."""
    names = {
        ast.unparse(n).rpartition(".")[2] for n in ast.walk(test) if isinstance(n, ast.Name | ast.Attribute)
    }
    return isinstance(test, ast.Call) and bool(names & {"is_tensor", "Tensor"})


def _container_branch(gap: Gap) -> tuple[Any, ...]:
    """Below `if torch.is_tensor(v): setattr(self, name, v.to(device))`: the same for a flat container of tensors."""
    assert isinstance(gap.node, ast.If) and gap.sibling is not None
    source, held = gap.scope.source, gap.way[-2].value if len(gap.way) > 1 else None
    receiver = gap.sibling.func.value  # type: ignore[attr-defined]
    if gap.node.orelse or len(gap.node.body) != 1 or not exactly(held, dict, list, tuple):
        return ()
    moved = moved_whole(ast.unparse(receiver), held, text_of_move(gap.sibling, gap.scope))
    statement = source.segment(gap.node.body[0])
    if moved is None or statement.count(source.segment(gap.sibling)) != 1 or "\n" in statement:
        return ()
    own = re.match(r"\s*", source.line(gap.node.lineno))
    body = re.match(r"\s*", source.line(gap.node.body[0].lineno))
    if own is None or body is None or len(body[0]) <= len(own[0]):
        return ()
    again = statement.replace(source.segment(gap.sibling), moved)
    end = source.end(gap.node)
    text = f"\n{own[0]}elif isinstance({ast.unparse(receiver)}, {type_name(held)}):\n{body[0]}{again}"
    return (source.edit(end, end, text),)


def _only_tensors(gap: Gap, evidence: Evidence) -> bool:
    """Whether every item that the test was asked about is a tensor."""
    comprehension = next(
        (u for u in gap.scope.source.ancestors(gap.node) if isinstance(u, ast.DictComp | ast.ListComp)), None
    )
    if comprehension is None:
        return False
    iterated = comprehension.generators[0].iter
    base = (
        iterated.func.value
        if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Attribute)
        else iterated
    )
    held = lookup(base, gap.scope, gap.known)
    if held is MISSING:
        held = next((v for v in gap.known.values() if values.is_container(v)), MISSING)
    return values.is_container(held) and all(values.is_tensor(v) for _, v in values.items(held))


def _names(evidence: Evidence, gap: Gap) -> tuple[Any, ...]:
    assert isinstance(gap.node, ast.Tuple | ast.List | ast.Set)
    source = gap.scope.source
    last = gap.node.elts[-1]
    quote = source.segment(last)[:1] if source.segment(last)[:1] in "\"'" else '"'
    more = "".join(f", {quote}{key}{quote}" for key in left_out(gap, evidence))
    return (source.edit(source.end(last), source.end(last), more),)


def left_out(gap: Gap, evidence: Evidence) -> list[str]:
    """The keys of the container's tensors on the wrong device: this one, and those like it that are no lengths."""
    first = str(gap.way[0].key)
    held = gap.way[0].value
    found = [first]
    for key, item in parts(held) if held is not MISSING else ():
        if type(key) is str and key != first and values.is_tensor(item) and "len" not in key:
            if values.device_of(item) == evidence.wrong_device:
                found.append(key)
    return found


def _statement(evidence: Evidence, gap: Gap) -> tuple[Any, ...]:
    """The sibling's statement again, for each field that was forgotten."""
    source = gap.scope.source
    if not isinstance(gap.node, ast.stmt) or gap.owner is None or gap.sibling is None:
        return ()
    base = source.segment(gap.owner.value)  # type: ignore[attr-defined]
    move = text_of_move(gap.sibling, gap.scope)
    lines = []
    for key in left_out(gap, evidence):
        place = f"{base}.{key}" if isinstance(gap.owner, ast.Attribute) else f'{base}["{key}"]'
        held = next((v for k, v in parts(gap.way[0].value) if same_scalar(k, key)), gap.way[1].value)
        value = f"{place}{move}" if values.is_tensor(held) else moved_whole(place, held, move)
        if value is None or not (isinstance(gap.owner, ast.Attribute) or key.isprintable()):
            return ()
        lines.append(f"{place} = {value}")
    return edits.insert_after(
        source, gap.node, source.newline.join(lines) if hasattr(source, "newline") else "\n".join(lines)
    )


def _keyword(evidence: Evidence, gap: Gap) -> tuple[Any, ...]:
    assert isinstance(gap.node, ast.Call) and gap.owner is not None and gap.sibling is not None
    source = gap.scope.source
    key = str(gap.way[0].key)
    value = f"{source.segment(gap.owner)}.{key}{text_of_move(gap.sibling, gap.scope)}"
    return edits.add_keyword(source, gap.node, key, value)


def _branch(evidence: Evidence, gap: Gap) -> tuple[Any, ...]:
    """A case for tuples: in the test for lists, whose result unpacks alike; named ones are built from their items."""
    assert isinstance(gap.node, ast.If)
    source = gap.scope.source
    held = gap.way[0].value
    function = gap.scope.node
    if not issubclass(type(held), tuple | list) or not isinstance(function, ast.FunctionDef):
        return ()
    other = "tuple" if issubclass(type(held), tuple) else "list"
    named = values.class_attribute(type(held), "_fields") is not None
    for node in ast.walk(function):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Call) and len(node.test.args) == 2):
            continue
        kind = node.test.args[1]
        written = {ast.unparse(k) for k in (kind.elts if isinstance(kind, ast.Tuple) else [kind])}
        if named or not written & {"list", "tuple", "List", "Tuple"}:
            continue
        gap.node = node
        if isinstance(kind, ast.Tuple):
            return (source.edit(source.end(kind.elts[-1]), source.end(kind.elts[-1]), f", {other}"),)
        return edits.replace_node(source, kind, f"({source.segment(kind)}, {other})")
    return _new_branch(gap, function, other, named)


def _new_branch(gap: Gap, function: ast.FunctionDef, other: str, named: bool) -> tuple[Any, ...]:
    source = gap.scope.source
    assert isinstance(gap.node, ast.If) and isinstance(gap.node.test, ast.Call)
    call = next(
        (
            n
            for n in ast.walk(function)
            if isinstance(n, ast.Call)
            and isinstance(n.func, ast.Name)
            and n.func.id == function.name
            and n.args
        ),
        None,
    )
    if call is None or not isinstance(call.args[0], ast.Name):
        return ()
    given, item = ast.unparse(gap.node.test.args[0]), call.args[0].id
    inner = f"{source.segment(call)} for {item} in {given}"
    unit = re.match(r"\s*", gap.scope.source.line(gap.node.body[0].lineno))
    own = re.match(r"\s*", gap.scope.source.line(gap.node.lineno))
    step = (unit[0] if unit else "")[len(own[0]) if own else 0 :] or "    "
    built = f"type({given})(*({inner}))" if named else f"{other}({inner})"
    return edits.insert_before(source, gap.node, f"if isinstance({given}, {other}):\n{step}return {built}")


_EDITS = {
    "element": _element,
    "condition": _condition,
    "names": _names,
    "statement": _statement,
    "keyword": _keyword,
    "branch": _branch,
}
