"""Where a container's tensors were moved, and one of them was let through: in a literal, a helper or a `.to()` method."""

from __future__ import annotations

import ast
import types
from typing import Any

from . import values
from .calls import enter, enter_method
from .conditions import holds, lookup
from .evaluate import call_name, try_evaluate
from .infer import Inference
from .passive import same_scalar
from .scopes import MISSING, Scope, bindings_of, own_nodes, reaching
from .sources import Sources
from .ways import Gap, Link

MOST_CALLS = 8
MOVERS = ("to", "cuda")
PASSED = Gap("passed", ast.Pass(), None, [])  # type: ignore[arg-type]


class Mover:
    """Reads the code that moved a container, with the container's live values standing for those it was given."""

    def __init__(self, inference: Inference, sources: Sources, wanted: str) -> None:
        self.inference, self.sources, self.wanted = inference, sources, wanted
        self.calls = 0

    def gap(self, node: ast.expr, way: list[Link], scope: Scope) -> Gap | None:
        """The gap in an expression whose value has the tensor at the end of `way`."""
        self.calls = 0
        found = self._visit(node, way, scope, {})
        return found if found is not PASSED else None

    # -- expressions ---------------------------------------------------------------------------------------------

    def _visit(self, node: ast.expr, way: list[Link], scope: Scope, known: dict[str, Any]) -> Gap | None:
        if isinstance(node, ast.Name):
            return self._name(node, way, scope, known)
        if isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
            return PASSED
        if isinstance(node, ast.Tuple | ast.List) and len(way) > 1:
            index = _index(way[0], node.elts)
            return self._element(node.elts, index, way, scope, known) if index is not None else None
        if isinstance(node, ast.Dict) and len(way) > 1:
            for index, key in enumerate(node.keys):
                if key is not None and lookup(key, scope, known) == way[0].key:
                    return self._element(node.values, index, way, scope, known)
            return PASSED if None in node.keys else None
        if isinstance(node, ast.IfExp):
            return self._either(node, way, scope, known)
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) and len(way) > 1:
            return self._comprehension(node, way, scope, known)
        if isinstance(node, ast.Call):
            return self._call(node, way, scope, known)
        return None

    def _name(self, node: ast.Name, way: list[Link], scope: Scope, known: dict[str, Any]) -> Gap | None:
        found = bindings_of(scope.node).get(node.id, [])
        binding = reaching(scope.source, found, node)
        mutated = self._mutations(own_nodes(scope.node), node.id, way, scope, known)
        if mutated is not None:
            return mutated
        if binding is None or binding.kind != "assign" or binding.value is None or node.id in known:
            return PASSED
        links = way
        for index in reversed(binding.path):
            links = [Link(MISSING, index), *links]
        return self._visit(binding.value, links, scope, known)

    def _element(
        self, elements: list[ast.expr], index: int, way: list[Link], scope: Scope, known: dict[str, Any]
    ) -> Gap | None:
        inner = self._visit(elements[index], way[1:], scope, known)
        if inner is not PASSED:
            return inner
        for other in elements:
            sibling = self._move(other, scope) if other is not elements[index] else None
            if sibling is not None:
                return Gap("element", elements[index], scope, way[1:], sibling, known=known)
        return PASSED

    def _either(self, node: ast.IfExp, way: list[Link], scope: Scope, known: dict[str, Any]) -> Gap | None:
        taken = holds(node.test, scope, known)
        branches = [node.body, node.orelse] if taken is None else [node.body if taken else node.orelse]
        for branch in branches:
            inner = self._visit(branch, way, scope, known)
            other = node.orelse if branch is node.body else node.body
            sibling = self._move(other, scope)
            if inner is PASSED and sibling is not None:
                return Gap("condition", node, scope, way, sibling, known=known)
            if inner is not None:
                return inner
        return None

    def _comprehension(self, node: Any, way: list[Link], scope: Scope, known: dict[str, Any]) -> Gap | None:
        inside = dict(known)
        for clause in node.generators[:1]:
            self._bind(clause.target, clause.iter, way, inside)
        item = node.value if isinstance(node, ast.DictComp) else node.elt
        return self._visit(item, way[1:], scope, inside)

    def _bind(self, target: ast.expr, iterated: ast.expr, way: list[Link], known: dict[str, Any]) -> None:
        """The names that a loop over a container takes, for the turn that leads to the tensor."""
        while (
            isinstance(iterated, ast.Call)
            and call_name(iterated) in ("list", "tuple", "sorted")
            and iterated.args
        ):
            iterated = iterated.args[0]
        key, item = way[0].key, way[1].value if len(way) > 1 else MISSING
        method = (
            iterated.func.attr
            if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Attribute)
            else ""
        )
        counted = isinstance(iterated, ast.Call) and call_name(iterated) == "enumerate"
        if isinstance(target, ast.Tuple) and len(target.elts) == 2 and (method == "items" or counted):
            pairs = [(target.elts[0], key), (target.elts[1], item)]
        elif isinstance(target, ast.Name):
            keyed = type(key) is str and method != "values"
            pairs = [(target, key if keyed else item)]
        else:
            return
        for name, value in pairs:
            if isinstance(name, ast.Name):
                known[name.id] = value

    # -- calls ---------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, way: list[Link], scope: Scope, known: dict[str, Any]) -> Gap | None:
        name = (call_name(node) or "").rpartition(".")[2]
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in MOVERS and len(way) == 1:
            return None
        if name in ("list", "tuple", "dict", "sorted") and len(node.args) == 1 and not node.keywords:
            return self._visit(node.args[0], way, scope, known)
        if (isinstance(func, ast.Call) and call_name(func) == "type") or name == "__class__":
            if len(node.args) == 1:
                inner = node.args[0].value if isinstance(node.args[0], ast.Starred) else node.args[0]
                return self._visit(inner, way, scope, known)
        if isinstance(func, ast.Attribute) and name == "_replace":
            return self._replaced(node, func.value, way, scope)
        if name == "replace" and node.args and node.keywords:
            return self._replaced(node, node.args[0], way, scope)
        held = try_evaluate(func, scope)
        if values.is_class(held) and len(way) > 1:
            argument = _argument(node, held, way[0].key)
            elements = [*node.args, *(k.value for k in node.keywords)]
            if argument is None:
                return None
            return self._element(elements, elements.index(argument), way, scope, known)
        return self._entered(node, way, scope, known)

    def _replaced(self, node: ast.Call, owner: ast.expr, way: list[Link], scope: Scope) -> Gap | None:
        if any(k.arg == way[0].key or k.arg is None for k in node.keywords):
            return None
        for keyword in node.keywords:
            sibling = self._move(keyword.value, scope)
            if sibling is not None:
                return Gap("keyword", node, scope, way, sibling, owner=owner)
        return None

    def _entered(self, node: ast.Call, way: list[Link], scope: Scope, known: dict[str, Any]) -> Gap | None:
        self.calls += 1
        if self.calls > MOST_CALLS:
            return None
        held = try_evaluate(node.func, scope)
        inner = enter(node, scope, self.sources)
        if inner is None and isinstance(node.func, ast.Attribute) and way:
            inner = self._method(node, node.func.attr, way[0].value, scope)
        if inner is None or values.is_class(held):
            return None
        given = self._parameter(inner, node)
        if given is None:
            return None
        return self.through(inner, given, way)

    def _method(self, node: ast.Call, name: str, owner: Any, scope: Scope) -> Scope | None:
        found = values.class_attribute(type(owner), name)
        if type(found) is not types.FunctionType or values.is_module(owner) or values.is_tensor(owner):
            return None
        return enter_method(found, owner, scope, self.sources, node)

    def _parameter(self, inner: Scope, call: ast.Call) -> str | None:
        """The parameter that a function was given the container as: the receiver of a method, else the first that is
        given no device."""
        names = [p.arg for p in inner.parameters()]
        if inner.receiver is not MISSING and names and not values.is_module(inner.receiver):
            return names[0]
        if inner.receiver is not MISSING:
            names = names[1:]
        for name in names:
            argument = inner.bound.get(name)
            if argument is None or (not argument.default and "dev" not in name):
                return name
        return names[0] if names else None

    def through(self, inner: Scope, given: str, way: list[Link]) -> Gap | None:
        """The gap in a function that was given the container as its parameter `given`."""
        node = inner.node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            known = {given: way[0].value}
            return self._visit(node.body, way, inner, known) if isinstance(node, ast.Lambda) else None
        known = {given: way[0].value} if way[0].value is not MISSING else {}
        found = self._body(node.body, given, way, inner, known)
        if found is not None and found is not PASSED and not found.function:
            found.function = node.name
        return found

    # -- statements ----------------------------------------------------------------------------------------------

    def _body(
        self, body: list[ast.stmt], given: str, way: list[Link], scope: Scope, known: dict[str, Any]
    ) -> Gap | None:
        for statement in body:
            if isinstance(statement, ast.If):
                taken = holds(statement.test, scope, known)
                branches = [statement.body] if taken is not False else []
                branches += [statement.orelse] if taken is not True else []
                for branch in branches:
                    found = self._body(branch, given, way, scope, known)
                    if found is not None:
                        return found
            elif isinstance(statement, ast.Return | ast.Expr) and isinstance(statement.value, ast.Yield):
                if statement.value.value is not None:
                    return self._visit(statement.value.value, way, scope, known)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                found = self._visit(statement.value, way, scope, known)
                if found is not PASSED or len(way) < 2 or not _is(statement.value, given):
                    return found
                return self._no_branch(scope, given, way) or PASSED
            elif isinstance(statement, ast.For | ast.With):
                found = self._body(statement.body, given, way, scope, known)
                if found is not None:
                    return found
        nodes = own_nodes(scope.node)
        if getattr(scope.node, "body", None) is body and not any(isinstance(n, ast.Return) for n in nodes):
            return self._mutations(nodes, given, way, scope, known)
        return None

    def _no_branch(self, scope: Scope, given: str, way: list[Link]) -> Gap | None:
        """A helper that tells containers by their types, and gives back as it is what it has no case for."""
        for node in own_nodes(scope.node):
            test = node.test if isinstance(node, ast.If) else None
            if not isinstance(test, ast.Call) or call_name(test) != "isinstance" or not test.args:
                continue
            if not _is(test.args[0], given) or holds(test, scope, {given: way[0].value}) is not False:
                continue
            if any(self._recurses(n, scope) for n in ast.walk(node)):
                return Gap("branch", node, scope, way)
        return None

    def _recurses(self, node: ast.AST, scope: Scope) -> bool:
        if not isinstance(node, ast.Call):
            return False
        called = (call_name(node) or "").rpartition(".")[2]
        return called == scope.function or self._move(node, scope) is not None

    def _mutations(
        self, nodes: list[ast.AST], given: str, way: list[Link], scope: Scope, known: dict[str, Any]
    ) -> Gap | None:
        """`obj.x = obj.x.to(device)`, `obj["x"] = ...`, `setattr(obj, name, ...)`: for others than this one."""
        if len(way) < 2:
            return None
        last: Gap | None = None
        for node in nodes:
            stored = _stored(node, given)
            if stored is None:
                continue
            key, value = stored
            if isinstance(key, ast.Constant) and key.value == way[0].key and _has_move(value):
                return None  # moved as well, wherever to: what is there now came later
            sibling = self._move(value, scope)
            if sibling is None:
                continue
            statement = scope.source.statement(node)
            loop = next((u for u in scope.source.ancestors(node) if isinstance(u, ast.For)), None)
            if isinstance(key, ast.Constant):
                last = Gap("statement", statement or node, scope, way, sibling, owner=_owner(node))
            elif loop is not None:
                found = self._left_out(loop, node, key, sibling, way, scope, known)
                if found is None:
                    return None
                last = found
        return last

    def _left_out(
        self,
        loop: ast.For,
        node: ast.AST,
        key: ast.expr,
        sibling: ast.Call,
        way: list[Link],
        scope: Scope,
        known: dict[str, Any],
    ) -> Gap | None:
        """Why a loop over keys did not come to this one: they are listed, or a test leaves it out."""
        listed = loop.iter
        if isinstance(listed, ast.Name):
            found = [b for b in bindings_of(scope.node).get(listed.id, []) if b.value is not None]
            listed = found[-1].value if found and found[-1].value is not None else listed
        if isinstance(listed, ast.Tuple | ast.List | ast.Set):
            written = [e.value for e in listed.elts if isinstance(e, ast.Constant)]
            return Gap("names", listed, scope, way, sibling) if way[0].key not in written else None
        inside = dict(known)
        self._bind(loop.target, loop.iter, way, inside)
        for up in scope.source.ancestors(node):
            if up is loop:
                break
            if isinstance(up, ast.If) and holds(up.test, scope, inside) is False:
                return Gap("condition", up, scope, way, sibling, known=inside)
        return None

    def _move(self, node: ast.AST, scope: Scope) -> ast.Call | None:
        """A move to the wanted device that makes (the items of) an expression."""
        for inner in ast.walk(node):
            if (
                isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Attribute)
                and inner.func.attr in MOVERS
            ):
                target = self.inference.moved_to(inner, scope)
                if target in (self.wanted, None):
                    return inner
        return None


def _has_move(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in MOVERS for n in ast.walk(node))


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _index(link: Link, elements: list[ast.expr]) -> int | None:
    if any(isinstance(e, ast.Starred) for e in elements):
        return None
    key = link.key
    return key if type(key) is int and 0 <= key < len(elements) else None


def _argument(call: ast.Call, cls: type, key: object) -> ast.expr | None:
    """The argument of a construction that became this field of the object."""
    for keyword in call.keywords:
        if same_scalar(keyword.arg, key):
            return keyword.value
    names = values.field_names(cls)
    if not names:
        init = values.class_attribute(cls, "__init__")
        code = init.__code__ if type(init) is types.FunctionType else None
        names = list(code.co_varnames[1 : code.co_argcount]) if code is not None else []
    if type(key) is str and key in names and names.index(key) < len(call.args):
        found = call.args[names.index(key)]
        return None if isinstance(found, ast.Starred) else found
    return None


def _stored(node: ast.AST, name: str) -> tuple[ast.expr, ast.expr] | None:
    """(key, value) of a statement that puts something under a key or attribute of the named container."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and _is(target.value, name):
            return target.slice, node.value
        if isinstance(target, ast.Attribute) and _is(target.value, name):
            return ast.Constant(target.attr), node.value
    if (
        isinstance(node, ast.Call)
        and call_name(node) == "setattr"
        and len(node.args) == 3
        and _is(node.args[0], name)
    ):
        return node.args[1], node.args[2]
    return None


def _owner(node: ast.AST) -> ast.expr | None:
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return target if isinstance(target, ast.Subscript | ast.Attribute) else None
