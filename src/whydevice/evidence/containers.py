"""Follows the items of lists, dicts and other containers to where they were put in."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import values, vocabulary
from .activations import method_scope
from .calls import enter
from .evaluate import call_name, try_evaluate
from .infer import NOT_A_TENSOR
from .passive import same_scalar
from .scopes import (
    MISSING,
    Argument,
    Binding,
    Scope,
    bindings_of,
    comprehension_binding,
    dotted,
    own_nodes,
    reaching,
)
from .steps import Step, return_step
from .taken import fitting, reached

if TYPE_CHECKING:
    from .origins import Tracer


def follow_items(
    tracer: Tracer, node: ast.AST, scope: Scope, steps: list[Step], key: object, path: tuple[int, ...]
) -> None:
    """Go on with an item of a container: the one under `key`, else one that is on the wrong device."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        elements = node.elts
        if (
            type(key) is int
            and -len(elements) <= key < len(elements)
            and not any(isinstance(e, ast.Starred) for e in elements)
        ):
            elements = [elements[key]]
        _pick(tracer, elements, node, scope, steps, path)
        return
    if isinstance(node, ast.Dict):
        chosen = [
            v
            for k, v in zip(node.keys, node.values, strict=True)
            if k is None or key is None or not isinstance(k, ast.Constant) or same_scalar(k.value, key)
        ]
        _pick(tracer, chosen or list(node.values), node, scope, steps, path)
        return
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        steps.append(
            Step("item", node.elt, scope, "", scope.source.statement(node), extra={"comprehension": node})
        )
        tracer.follow(node.elt, scope, steps, path)
        return
    if isinstance(node, ast.DictComp):
        steps.append(
            Step("item", node.value, scope, "", scope.source.statement(node), extra={"comprehension": node})
        )
        tracer.follow(node.value, scope, steps, path)
        return
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Add):
        follow_items(tracer, node.left, scope, steps, key, path)
        return
    if isinstance(node, ast.Call):
        _call_items(tracer, node, scope, steps, key, path)
        return
    if isinstance(node, ast.Name):
        _name_items(tracer, node, scope, steps, key, path)
        return
    if isinstance(node, ast.Attribute):
        _attribute_items(tracer, node, scope, steps, key, path)
        return
    if isinstance(node, ast.Subscript):
        follow_items(tracer, node.value, scope, steps, None, path)
        return
    tracer.follow(node, scope, steps, path)


def _pick(
    tracer: Tracer,
    elements: list[ast.expr],
    whole: ast.AST,
    scope: Scope,
    steps: list[Step],
    path: tuple[int, ...],
) -> None:
    judged = [(tracer.is_bad(_into(e, path), scope), e) for e in elements]
    chosen = next((e for bad, e in judged if bad), None) or next(
        (e for bad, e in judged if bad is None), None
    )
    if chosen is None:
        steps.append(Step("unknown", whole, scope))
        return
    step = Step("item", chosen, scope, "", scope.source.statement(whole), extra={"literal": whole})
    if isinstance(whole, ast.Dict) and sum(bad is not False for bad, _ in judged) > 1:
        step.extra["one_of"] = True  # under another key another item of it may have been the one
    steps.append(step)
    tracer.branches += [(e, scope) for bad, e in judged if e is not chosen and (bad or _alike(e, chosen))]
    tracer.follow(chosen, scope, steps, path)


def _alike(one: ast.expr, other: ast.expr) -> bool:
    """Whether two items of a literal are calls of the same function: what holds of one holds of the other."""
    if not (isinstance(one, ast.Call) and isinstance(other, ast.Call)):
        return False
    return ast.dump(one.func) == ast.dump(other.func)


def _into(node: ast.expr, path: tuple[int, ...]) -> ast.expr:
    for index in path:
        if isinstance(node, ast.Tuple | ast.List) and index < len(node.elts):
            node = node.elts[index]
        else:
            break
    return node


def _call_items(
    tracer: Tracer, node: ast.Call, scope: Scope, steps: list[Step], key: object, path: tuple[int, ...]
) -> None:
    name = call_name(node) or ""
    last = name.rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    if last in vocabulary.PASS_THROUGH and node.args:
        follow_items(tracer, node.args[0], scope, steps, key, path)
        return
    if isinstance(node.func, ast.Attribute) and last in ("items", "values", "copy"):
        follow_items(tracer, node.func.value, scope, steps, key, path)
        return
    held = try_evaluate(node.func, scope)
    if last in (
        "ModuleList",
        "Sequential",
        "ModuleDict",
        "ParameterList",
        "dict",
        "BatchEncoding",
        "OrderedDict",
        "TensorDict",
        "defaultdict",
    ) or values.is_class(held):
        if values.is_class(held):
            steps.append(Step("construct", node, scope, last, value=held))
        elements = [k.value for k in node.keywords if key is None or same_scalar(k.arg, key)] or list(
            node.args
        )
        if type(key) is int and key < len(node.args):
            elements = [node.args[key]]
        if len(elements) == 1 and isinstance(
            elements[0],
            ast.List | ast.Dict | ast.ListComp | ast.GeneratorExp | ast.Name | ast.DictComp | ast.Starred,
        ):
            inner = elements[0].value if isinstance(elements[0], ast.Starred) else elements[0]
            if elements[0] in node.args:
                follow_items(tracer, inner, scope, steps, key, path)
                return
        if elements:
            _pick(tracer, elements, node, scope, steps, path)
            return
    inner_scope = enter(node, scope, tracer.sources)
    if inner_scope is None or values.is_class(held):
        steps.append(Step("library", node, scope, last, value=held))
        return
    if path and any(isinstance(n, ast.Yield) for n in own_nodes(inner_scope.node)):
        tracer.iterate(node, scope, steps, path)
        return
    steps.append(Step("call", node, scope, last, value=held, extra={"entered": inner_scope}))
    found = fitting(reached(inner_scope), inner_scope, steps, tracer.inference)
    for value in found:
        if isinstance(value, ast.Constant):
            continue
        if (
            len(found) > 1
            and tracer.is_bad(value, inner_scope) is False
            and tracer.inference.device(value, inner_scope) != NOT_A_TENSOR
        ):
            continue
        steps.append(return_step(value, inner_scope))
        follow_items(tracer, value, inner_scope, steps, key, path)
        return
    steps.append(Step("unknown", node, scope))


def _name_items(
    tracer: Tracer, node: ast.Name, scope: Scope, steps: list[Step], key: object, path: tuple[int, ...]
) -> None:
    inner = comprehension_binding(scope.source, node, node.id)
    if inner is not None and inner.value is not None:
        steps.append(Step("loop", inner.value, scope, node.id, inner.stmt, path=inner.path))
        tracer.iterate(inner.value, scope, steps, (*inner.path, *_key_path(key), *path))
        return
    if follow_additions(tracer, node.id, scope, node, steps, key, path):
        return
    found = bindings_of(scope.node).get(node.id)
    binding = reaching(scope.source, found, node) if found else None
    if binding is not None and binding.value is not None:
        kind = "loop" if binding.kind == "loop" else "assign"
        steps.append(Step(kind, binding.value, scope, node.id, binding.stmt, path=binding.path))
        if binding.kind == "loop":
            tracer.iterate(binding.value, scope, steps, (*binding.path, *_key_path(key), *path))
        elif binding.path:
            tracer.follow(binding.value, scope, steps, (*binding.path, *_key_path(key), *path))
        else:
            follow_items(tracer, binding.value, scope, steps, key, path)
        return
    if node.id in scope.bound:
        _argument_items(tracer, scope.bound[node.id], node.id, scope, steps, key, path)
        return
    outer = None if scope.is_parameter(node.id) else tracer.outer(node.id, scope)
    if outer is None:
        steps.append(Step("unknown", node, scope, node.id))
        return
    outer_scope, bound = outer
    if type(bound) is Argument:
        _argument_items(tracer, bound, node.id, outer_scope, steps, key, path)
    elif type(bound) is Binding:
        _outer_items(tracer, bound, node, outer_scope, steps, key, path)


def _outer_items(
    tracer: Tracer,
    bound: Binding,
    node: ast.Name,
    outer_scope: Scope,
    steps: list[Step],
    key: object,
    path: tuple[int, ...],
) -> None:
    """The items of what a name of an enclosing function or of the module is bound to."""
    if follow_additions(tracer, node.id, outer_scope, None, steps, key, path):
        return
    if bound.value is None:
        steps.append(Step("unknown", node, outer_scope, node.id))
        return
    steps.append(Step("assign", bound.value, outer_scope, node.id, bound.stmt))
    if bound.kind == "loop":
        tracer.iterate(bound.value, outer_scope, steps, bound.path)
    else:
        follow_items(tracer, bound.value, outer_scope, steps, key, path)


def _argument_items(
    tracer: Tracer,
    argument: Argument,
    name: str,
    callee: Scope,
    steps: list[Step],
    key: object,
    path: tuple[int, ...],
) -> None:
    steps.append(Step("parameter", argument.node, argument.scope, name, extra={"callee": callee}))
    follow_items(tracer, argument.node, argument.scope, steps, None if argument.spread else key, path)


def _key_path(key: object) -> tuple[int, ...]:
    return (key,) if type(key) is int else ()


def follow_additions(
    tracer: Tracer,
    name: str,
    scope: Scope,
    use: ast.AST | None,
    steps: list[Step],
    key: object,
    path: tuple[int, ...],
) -> bool:
    """`name.append(x)`, `name[k] = x`, `name.update(...)` in a function's body: go on with the item put in."""
    for node in own_nodes(scope.node):
        item: ast.expr | None = None
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and dotted(node.func.value) == name
        ):
            if node.func.attr in ("append", "add", "appendleft", "insert") and node.args:
                item = node.args[-1]
            elif node.func.attr in ("extend", "update") and node.args and tracer.is_bad(node.args[0], scope):
                steps.append(
                    Step(
                        "item", node.args[0], scope, name, scope.source.statement(node), extra={"added": node}
                    )
                )
                follow_items(tracer, node.args[0], scope, steps, key, path)
                return True
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and dotted(target.value) == name:
                    held = try_evaluate(target.slice, scope)
                    if key is None or held is MISSING or same_scalar(held, key):
                        item = node.value
        if item is None:
            continue
        leaf = _into(item, path)
        if tracer.is_bad(leaf, scope) is False:
            continue
        steps.append(Step("item", item, scope, name, scope.source.statement(node), extra={"added": node}))
        tracer.follow(item, scope, steps, path)
        return True
    return False


def _attribute_items(
    tracer: Tracer, node: ast.Attribute, scope: Scope, steps: list[Step], key: object, path: tuple[int, ...]
) -> None:
    """The items of `self.heads`: appended in the class, or in the value that the class assigns."""
    from . import attributes

    name = dotted(node)
    if name is not None and follow_additions(tracer, name, scope, node, steps, key, path):
        return
    owner = try_evaluate(node.value, scope)
    if owner is MISSING:
        tracer.follow(node, scope, steps, path)
        return
    for place in attributes.assignments(owner, node.attr, tracer.sources):
        inner = method_scope(tracer, place, owner, node, scope)
        steps.append(
            Step(
                "attribute",
                place.node,
                inner,
                node.attr,
                place.stmt,
                owner=owner,
                path=place.path,
                extra={
                    "held": attributes.kind_in(owner, node.attr),
                    "registered": place.kind,
                    "method": place.method.name if place.method else None,
                    "container": True,
                },
            )
        )
        if place.method is not None:
            receiver = place.method.args.args[0].arg if place.method.args.args else "self"
            if follow_additions(tracer, f"{receiver}.{node.attr}", inner, None, steps, key, path):
                return
        follow_items(tracer, place.node, inner, steps, key, path)
        return
    tracer.follow(node, scope, steps, path)
