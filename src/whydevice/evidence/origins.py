"""Follows a value back to where it got its device: through names, calls, attributes, loops and containers."""

from __future__ import annotations

import ast
import contextlib
from typing import Any

from . import attributes, values, vocabulary
from .calls import enter, returned
from .evaluate import call_name, try_evaluate
from .infer import NOT_A_TENSOR, Inference
from .scopes import (
    MISSING,
    Argument,
    Binding,
    Scope,
    bindings_of,
    comprehension_binding,
    dotted,
    own_nodes,
    position,
    reaching,
)
from .sources import FunctionNode, ScopeNode, Sources
from .steps import Step

MOST_STEPS = 40


class Tracer:
    """Traces within one explanation. `module_scopes` are the module-level frames still on the stack."""

    def __init__(self, sources: Sources, inference: Inference, live: list[Scope]) -> None:
        self.sources = sources
        self.inference = inference
        self.live = live
        self.bad: str | None = None
        self.branches: list[tuple[ast.AST, Scope]] = []

    def trace(self, node: ast.AST, scope: Scope, bad: str | None) -> list[Step]:
        """The steps from the use back to the root, for a value that is on device `bad`."""
        self.bad = bad
        self.branches = []
        steps = [Step("use", node, scope, value=try_evaluate(node, scope))]
        self._follow(node, scope, steps)
        return steps

    # -- one expression -------------------------------------------------------------------------------------

    def _follow(self, node: ast.AST, scope: Scope, steps: list[Step], path: tuple[int, ...] = ()) -> None:
        if len(steps) > MOST_STEPS or any(s.node is node and s.scope is scope for s in steps[1:-1]):
            return
        if isinstance(node, ast.Name):
            self._name(node, scope, steps, path)
        elif isinstance(node, ast.Attribute):
            self._attribute(node, scope, steps, path)
        elif isinstance(node, ast.Subscript):
            self._subscript(node, scope, steps, path)
        elif isinstance(node, ast.Call):
            self._call(node, scope, steps, path)
        elif isinstance(node, ast.Tuple | ast.List) and path and path[0] < len(node.elts):
            self._follow(node.elts[path[0]], scope, steps, path[1:])
        elif isinstance(node, ast.Starred | ast.Await | ast.NamedExpr):
            self._follow(node.value, scope, steps, path)
        elif isinstance(node, ast.IfExp):
            self._choose([node.body, node.orelse], node, scope, steps)
        elif isinstance(node, ast.BinOp):
            self._choose([node.left, node.right], node, scope, steps)
        elif isinstance(node, ast.UnaryOp):
            self._follow(node.operand, scope, steps)
        elif isinstance(node, ast.Compare):
            self._choose([node.left, *node.comparators], node, scope, steps)
        elif isinstance(node, ast.BoolOp):
            self._choose(node.values, node, scope, steps)
        elif isinstance(
            node, ast.List | ast.Tuple | ast.Set | ast.Dict | ast.ListComp | ast.DictComp | ast.GeneratorExp
        ):
            self._items(node, scope, steps, None, path)
        else:
            steps.append(Step("unknown", node, scope))

    def _is_bad(self, node: ast.AST, scope: Scope) -> bool | None:
        """Whether the expression's value is on the wrong device; None when it cannot be told."""
        held = try_evaluate(node, scope)
        if values.is_module(held):
            devices = values.module_devices(held)
            return self.bad in devices if devices else False
        found = self.inference.device(node, scope)
        if found is None:
            return None
        return found == self.bad

    def _choose(self, nodes: list[ast.expr], whole: ast.AST, scope: Scope, steps: list[Step]) -> None:
        """Go on with the operand that is on the wrong device; a 0-dim one may be legal, so it comes last."""
        judged = [(self._is_bad(n, scope), n) for n in nodes]
        sure = [n for bad, n in judged if bad]
        sized = [n for n in sure if not self._is_scalar(n, scope)]
        maybe = [n for bad, n in judged if bad is None]
        candidates = sized or sure or maybe
        if not candidates:
            steps.append(Step("derived", whole, scope))
            return
        chosen = candidates[0]
        self.branches += [(n, scope) for n in sized if n is not chosen]
        self._follow(chosen, scope, steps)

    def _is_scalar(self, node: ast.AST, scope: Scope) -> bool:
        held = try_evaluate(node, scope)
        return values.is_tensor(held) and values.shape_of(held) == ()

    # -- names ----------------------------------------------------------------------------------------------

    def _name(self, node: ast.Name, scope: Scope, steps: list[Step], path: tuple[int, ...]) -> None:
        inner = comprehension_binding(scope.source, node, node.id)
        if inner is not None:
            self._bound(inner, node, scope, steps, path)
            return
        found = bindings_of(scope.node).get(node.id)
        binding = reaching(scope.source, found, node, _until(scope)) if found else None
        if binding is not None:
            self._bound(binding, node, scope, steps, path)
            return
        if node.id in scope.bound:
            self._argument(scope.bound[node.id], node.id, scope, steps, path)
            return
        if scope.is_parameter(node.id):
            steps.append(Step("unknown", node, scope, node.id))
            return
        outer = self._outer(node.id, scope)
        if outer is None:
            steps.append(Step("unknown", node, scope, node.id))
            return
        outer_scope, binding = outer
        self._bound(binding, node, outer_scope, steps, path)

    def _outer(self, name: str, scope: Scope) -> tuple[Scope, Binding] | None:
        """Where a free or global name was bound: an enclosing function, else the module."""
        function = scope.node
        while True:
            enclosing = scope.source.scope(function)
            if enclosing is None or enclosing is function:
                return None
            if not isinstance(enclosing, ast.ClassDef):
                found = bindings_of(enclosing).get(name)
                holder = self._scope_of(enclosing, scope)
                if found:
                    until = _until(holder)
                    usable = [b for b in found if b.position < until] or found
                    plain = [b for b in usable if b.kind != "augmented"] or usable
                    return holder, max(plain, key=lambda b: b.position)
            if isinstance(enclosing, ast.Module):
                return None
            function = enclosing

    def _scope_of(self, node: Any, scope: Scope) -> Scope:
        for live in self.live:
            if live.node is node and live.source is scope.source:
                return live
        return Scope(scope.source, node, scope.globals, values=dict(scope.values), depth=scope.depth)

    def _bound(
        self, binding: Binding, use: ast.Name, scope: Scope, steps: list[Step], path: tuple[int, ...]
    ) -> None:
        if binding.kind == "augmented":
            found = bindings_of(scope.node).get(use.id, [])
            earlier = [b for b in found if b.kind != "augmented"]
            anchor = binding.target if binding.target is not None else use
            before = reaching(scope.source, earlier, anchor, _until(scope))
            if before is not None:
                self._bound(before, use, scope, steps, path)
            elif use.id in scope.bound:
                self._argument(scope.bound[use.id], use.id, scope, steps, path)
            return
        if binding.value is None:
            steps.append(Step("unknown", use, scope, use.id))
            return
        if binding.kind in ("loop", "comprehension"):
            steps.append(
                Step("loop", binding.value, scope, use.id, binding.stmt, path=(*binding.path, *path))
            )
            self._iterate(binding.value, scope, steps, (*binding.path, *path))
            return
        steps.append(Step("assign", binding.value, scope, use.id, binding.stmt, path=binding.path))
        if isinstance(binding.value, ast.List | ast.Dict) and not binding.path:
            from .containers import follow_additions

            if follow_additions(self, use.id, scope, use, steps, None, path):
                return
        if binding.kind == "with":
            steps.append(Step("unknown", binding.value, scope, use.id))
            return
        self._follow(binding.value, scope, steps, (*binding.path, *path))

    def _argument(
        self, argument: Argument, name: str, scope: Scope, steps: list[Step], path: tuple[int, ...]
    ) -> None:
        steps.append(
            Step(
                "parameter",
                argument.node,
                argument.scope,
                name,
                extra={"callee": scope, "default": argument.default, "key": argument.key},
            )
        )
        if argument.spread:
            self._items(argument.node, argument.scope, steps, argument.key, path)
        else:
            self._follow(argument.node, argument.scope, steps, path)

    # -- attributes -----------------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute, scope: Scope, steps: list[Step], path: tuple[int, ...]) -> None:
        name = dotted(node)
        found = bindings_of(scope.node).get(name, []) if name is not None else []
        binding = reaching(scope.source, found, node, _until(scope)) if found else None
        if binding is not None and binding.kind == "assign" and binding.value is not None:
            steps.append(Step("assign", binding.value, scope, name or "", binding.stmt, path=binding.path))
            self._follow(binding.value, scope, steps, (*binding.path, *path))
            return
        owner = try_evaluate(node.value, scope)
        if owner is MISSING or values.is_tensor(owner):
            if node.attr in vocabulary.TENSOR_ATTRIBUTES:
                self._follow(node.value, scope, steps)
            else:
                self._static_attribute(node, scope, steps, path)
            return
        self.attribute_of(owner, node.attr, node, scope, steps, path)

    def attribute_of(
        self,
        owner: Any,
        name: str,
        node: ast.AST,
        scope: Scope,
        steps: list[Step],
        path: tuple[int, ...] = (),
    ) -> None:
        """Go on where an attribute of a live object was assigned."""
        held: Any = MISSING
        with contextlib.suppress(LookupError):
            held = values.attribute(owner, name)
        outside = self._assigned_outside(owner, name, node, scope)
        if outside is not None:
            value, _target, stmt, where = outside
            steps.append(
                Step(
                    "attribute",
                    value,
                    where,
                    name,
                    stmt,
                    held,
                    owner,
                    extra={"outside": True, "held": attributes.kind_in(owner, name)},
                )
            )
            self._follow(value, where, steps, path)
            return
        places = attributes.assignments(owner, name, self.sources)
        place, inner = self._likeliest(places, owner, node, scope)
        if place is None or inner is None:
            if values.is_module(held) or values.is_tensor(held):
                if self._listed(owner, name, node, scope, steps):
                    return
            data = values.instance_dict(owner).get("data")
            if isinstance(data, dict) and name in data and isinstance(node, ast.Attribute):
                self._items(node.value, scope, steps, name, path)
                return
            self._field(owner, name, node, scope, steps, path)
            return
        kind = "property" if place.kind == "property" else "attribute"
        held_as = place.kind if place.kind in ("buffer", "parameter") else attributes.kind_in(owner, name)
        steps.append(
            Step(
                kind,
                place.node,
                inner,
                name,
                place.stmt,
                held,
                owner,
                place.path,
                {
                    "held": held_as,
                    "registered": place.kind,
                    "method": place.method.name if place.method else None,
                    "places": places,
                },
            )
        )
        self._follow(place.node, inner, steps, (*place.path, *path))

    def _listed(self, owner: Any, name: str, node: ast.AST, scope: Scope, steps: list[Step]) -> bool:
        """A child of nn.Sequential or ModuleList has a number for a name: go on with the container itself."""
        if not name.isdigit() or not isinstance(node, ast.Attribute | ast.Subscript):
            return False
        self._items(node.value, scope, steps, int(name), ())
        return True

    def _assigned_outside(self, owner: Any, name: str, node: ast.AST, scope: Scope) -> Any:
        """`model.head = head` in a script: the last such assignment in the files of the stack whose owner fits."""
        kind = attributes.kind_in(owner, name)
        if kind is None:
            return None
        for live in reversed(self.live):
            for value, target, stmt in reversed(attributes.outside_assignments(name, live.source)):
                where_node = live.source.scope(stmt)
                if where_node is None:
                    continue
                holder = self._scope_of(where_node, live)
                if holder.frame is None and not isinstance(where_node, ast.Module):
                    holder = self._returned_scope(where_node, live) or holder
                if not isinstance(node, ast.AST) or position(stmt) >= _until(holder):
                    continue
                base = try_evaluate(target.value, holder)
                if base is owner:
                    return value, target, stmt, holder
                if base is MISSING and self._is_bad(value, holder) is not False and holder.frame is None:
                    return value, target, stmt, holder
        return None

    def _returned_scope(self, node: Any, live: Scope) -> Scope | None:
        """The scope of a function that has returned, through a call of it in a live frame."""
        for scope in reversed(self.live):
            for inner in own_nodes(scope.node):
                if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name | ast.Attribute):
                    called = inner.func.id if isinstance(inner.func, ast.Name) else inner.func.attr
                    if called == getattr(node, "name", None):
                        entered = enter(inner, scope, self.sources)
                        if entered is not None and entered.node is node:
                            return entered
        return None

    def _likeliest(
        self, places: list[attributes.Assignment], owner: Any, node: ast.AST, scope: Scope
    ) -> tuple[attributes.Assignment | None, Scope | None]:
        """Of several assignments: the one whose value would be on the wrong device, a later method's first."""
        judged: list[tuple[int, attributes.Assignment, Scope]] = []
        for place in places:
            inner = self._method_scope(place, owner, node, scope)
            bad = self._is_bad(place.node, inner)
            if place.kind == "property":
                return place, inner
            if bad is False and len(places) > 1:
                continue
            rank = 0 if bad else 1
            constructor = place.method is None or place.method.name in ("__init__", "__post_init__")
            judged.append(
                (rank * 4 + (2 if place.kind == "buffer" else 0) + (1 if constructor else 0), place, inner)
            )
        if not judged:
            return (places[0], self._method_scope(places[0], owner, node, scope)) if places else (None, None)
        _, place, inner = min(judged, key=lambda j: j[0])
        return place, inner

    def _method_scope(self, place: attributes.Assignment, owner: Any, node: ast.AST, scope: Scope) -> Scope:
        method = place.method
        for live in self.live:
            if method is not None and live.node is method and live.receiver is owner:
                return live
        holder = Scope(
            place.source,
            _node_of(place),
            _globals_of(place.cls, scope),
            caller=scope,
            receiver=owner,
            depth=scope.depth + 1,
        )
        if method is not None and method.name in ("__init__", "__post_init__"):
            call = self.construction(node, scope)
            if call is not None and isinstance(call.node, ast.Call):
                entered = enter(call.node, call.scope, self.sources)
                if entered is not None and entered.node is method:
                    entered.receiver = owner
                    return entered
                if entered is not None:
                    inner = self._super_scope(entered, method)
                    if inner is not None:
                        inner.receiver = owner
                        return inner
        elif method is not None:
            called = self._method_call(method.name, owner)
            if called is not None:
                entered = enter(*called, self.sources)
                if entered is not None and entered.node is method:
                    entered.receiver = owner
                    return entered
        return holder

    def _super_scope(self, entered: Scope, method: FunctionNode) -> Scope | None:
        for inner in own_nodes(entered.node):
            if (
                isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Attribute)
                and inner.func.attr == "__init__"
            ):
                name = getattr(method, "name", "__init__")
                deeper = Scope(
                    entered.source,
                    method,
                    entered.globals,
                    caller=entered,
                    call=inner,
                    depth=entered.depth + 1,
                )
                if name == "__init__":
                    from .calls import _bind_entered

                    _bind_entered(deeper, inner, entered, method=True)
                    return deeper
        return None

    def _method_call(self, name: str, owner: Any) -> tuple[ast.Call, Scope] | None:
        """A call `owner.name(...)` in a live frame that ran before the failure."""
        for scope in reversed(self.live):
            for inner in own_nodes(scope.node):
                if (
                    isinstance(inner, ast.Call)
                    and isinstance(inner.func, ast.Attribute)
                    and inner.func.attr == name
                ):
                    if try_evaluate(inner.func.value, scope) is owner:
                        return inner, scope
        return None

    def construction(self, node: ast.AST, scope: Scope) -> Step | None:
        """The call that constructed the object whose attribute an expression reads."""
        base = node.value if isinstance(node, ast.Attribute) else node
        saved, self.bad = self.bad, None
        steps: list[Step] = []
        try:
            self._follow(base, scope, steps)
        finally:
            self.bad = saved
        return next((s for s in steps if s.kind == "construct"), None)

    def _static_attribute(
        self, node: ast.Attribute, scope: Scope, steps: list[Step], path: tuple[int, ...]
    ) -> None:
        """`sched.betas` where the object is gone: through the construction that its name leads to."""
        built = self.construction(node, scope)
        if built is None or not isinstance(built.node, ast.Call):
            steps.append(Step("unknown", node, scope))
            return
        cls = try_evaluate(built.node.func, built.scope)
        places = attributes.assignments(cls, node.attr, self.sources) if isinstance(cls, type) else []
        if not places:
            if isinstance(cls, type):
                self._constructed_field(built.node, cls, node.attr, built.scope, steps, path)
            else:
                steps.append(Step("unknown", node, scope))
            return
        entered = enter(built.node, built.scope, self.sources)
        place = places[0]
        if entered is None or entered.node is not place.method:
            entered = Scope(
                place.source,
                _node_of(place),
                _globals_of(place.cls, scope),
                caller=scope,
                depth=scope.depth + 1,
            )
        steps.append(
            Step(
                "attribute",
                place.node,
                entered,
                node.attr,
                place.stmt,
                extra={
                    "registered": place.kind,
                    "method": place.method.name if place.method else None,
                    "places": places,
                },
            )
        )
        self._follow(place.node, entered, steps, (*place.path, *path))

    def _field(
        self, owner: Any, name: str, node: ast.AST, scope: Scope, steps: list[Step], path: tuple[int, ...]
    ) -> None:
        """A field of a dataclass, namedtuple or other object whose constructor took it."""
        built = self.construction(node, scope) if isinstance(node, ast.Attribute) else None
        if built is not None and isinstance(built.node, ast.Call):
            steps.append(built)
            self._constructed_field(built.node, type(owner), name, built.scope, steps, path)
            return
        steps.append(Step("unknown", node, scope, name))

    def _constructed_field(
        self, call: ast.Call, cls: type, name: str, scope: Scope, steps: list[Step], path: tuple[int, ...]
    ) -> None:
        for keyword in call.keywords:
            if keyword.arg == name:
                steps.append(Step("item", keyword.value, scope, name, extra={"construct": call}))
                self._follow(keyword.value, scope, steps, path)
                return
        fields = values.class_attribute(cls, "_fields") or list(
            values.class_attribute(cls, "__dataclass_fields__") or ()
        )
        if name in fields and list(fields).index(name) < len(call.args):
            value = call.args[list(fields).index(name)]
            steps.append(Step("item", value, scope, name, extra={"construct": call}))
            self._follow(value, scope, steps, path)
            return
        self._choose([*call.args, *(k.value for k in call.keywords)], call, scope, steps)

    # -- items and loops ------------------------------------------------------------------------------------

    def _subscript(self, node: ast.Subscript, scope: Scope, steps: list[Step], path: tuple[int, ...]) -> None:
        name = ast.unparse(node)
        for inner in reversed(own_nodes(scope.node)):
            if isinstance(inner, ast.Assign) and position(inner) < position(node):
                for target in inner.targets:
                    if isinstance(target, ast.Subscript) and ast.unparse(target) == name:
                        steps.append(Step("assign", inner.value, scope, name, inner))
                        self._follow(inner.value, scope, steps, path)
                        return
        base = try_evaluate(node.value, scope)
        key = try_evaluate(node.slice, scope)
        if values.is_tensor(base) or base is MISSING:
            kind = self.inference.device(node.value, scope)
            if base is MISSING and kind in (None, NOT_A_TENSOR):
                self._items(node.value, scope, steps, key if isinstance(key, int | str) else None, path)
            else:
                self._follow(node.value, scope, steps)
            return
        self._items(node.value, scope, steps, key if isinstance(key, int | str) else None, path)

    def _items(
        self, node: ast.AST, scope: Scope, steps: list[Step], key: object, path: tuple[int, ...]
    ) -> None:
        """Go on with the item (of this key, else any on the wrong device) of a container expression."""
        from .containers import follow_items

        follow_items(self, node, scope, steps, key, path)

    def _iterate(self, node: ast.AST, scope: Scope, steps: list[Step], path: tuple[int, ...]) -> None:
        from .containers import follow_iteration

        follow_iteration(self, node, scope, steps, path)

    # -- calls ----------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, scope: Scope, steps: list[Step], path: tuple[int, ...]) -> None:
        kind, name = self.inference.call_kind(node, scope)
        operands = [*node.args, *(k.value for k in node.keywords)]
        if kind in ("factory", "constructor"):
            inner = self._wrapped_operand(node, name, scope)
            if inner is not None:
                self._follow(inner, scope, steps)
            else:
                steps.append(Step(kind, node, scope, name))
        elif kind == "like":
            if any(k.arg == "device" for k in node.keywords) or not node.args:
                steps.append(Step("factory", node, scope, name))
            else:
                steps.append(Step("like", node, scope, name))
                self._follow(node.args[0], scope, steps)
        elif kind == "move":
            self._move(node, name, scope, steps)
        elif kind == "method" and isinstance(node.func, ast.Attribute):
            self._method(node, scope, steps, operands, path)
        elif kind == "torch":
            self._choose(operands, node, scope, steps)
        elif kind == "module":
            self._module_call(node, scope, steps, operands)
        else:
            self._function(node, scope, steps, operands, path)

    def _wrapped_operand(self, node: ast.Call, name: str, scope: Scope) -> ast.expr | None:
        """`torch.as_tensor(x)` of a tensor keeps the device of x: follow x."""
        if name in ("as_tensor", "asarray") and node.args:
            if self.inference.device(node.args[0], scope) not in (None, NOT_A_TENSOR):
                return node.args[0]
        return None

    def _move(self, node: ast.Call, name: str, scope: Scope, steps: list[Step]) -> None:
        assert isinstance(node.func, ast.Attribute)
        target = self.inference.moved_to(node, scope)
        receiver = self.inference.device(node.func.value, scope)
        if name == "to" and target is not None and target == receiver and not self._names_device(node, scope):
            self._follow(node.func.value, scope, steps)  # `.to(torch.float32)` moves nothing
            return
        steps.append(Step("move", node, scope, name, extra={"to": target}))
        if (
            target is None
            or (self.bad is not None and target != self.bad)
            or values.is_module(try_evaluate(node.func.value, scope))
            or self.bad is None
        ):
            self._follow(node.func.value, scope, steps)

    def _names_device(self, node: ast.Call, scope: Scope) -> bool:
        return any(
            self.inference.device_named(a, scope) is not None
            for a in [*node.args, *(k.value for k in node.keywords)]
        )

    def _method(
        self, node: ast.Call, scope: Scope, steps: list[Step], operands: list[ast.expr], path: tuple[int, ...]
    ) -> None:
        assert isinstance(node.func, ast.Attribute)
        receiver = node.func.value
        if node.func.attr in ("items", "values", "pop", "get", "popleft", "copy") and self.inference.device(
            receiver, scope
        ) in (None, NOT_A_TENSOR):
            key = try_evaluate(node.args[0], scope) if node.args else None
            self._items(receiver, scope, steps, key if isinstance(key, int | str) else None, path)
            return
        if self._is_bad(receiver, scope) is False and operands:
            judged = [n for n in operands if self._is_bad(n, scope)]
            if judged:
                self._follow(judged[0], scope, steps)
                return
        device = self.inference.device(receiver, scope)
        if device in (None, NOT_A_TENSOR) and enter(node, scope, self.sources) is not None:
            self._function(node, scope, steps, operands, path)
            return
        self._follow(receiver, scope, steps)

    def _module_call(self, node: ast.Call, scope: Scope, steps: list[Step], operands: list[ast.expr]) -> None:
        module = try_evaluate(node.func, scope)
        devices = values.module_devices(module)
        if devices and self.bad in devices and len(devices) == 1:
            steps.append(Step("module-call", node, scope, value=module))
            self._follow(node.func, scope, steps)
            return
        judged = [n for n in operands if self._is_bad(n, scope)]
        if judged and not devices:
            self._follow(judged[0], scope, steps)
            return
        self._function(node, scope, steps, operands, ())

    def _function(
        self, node: ast.Call, scope: Scope, steps: list[Step], operands: list[ast.expr], path: tuple[int, ...]
    ) -> None:
        held = try_evaluate(node.func, scope)
        name = call_name(node) or ""
        last = name.rpartition(".")[2]
        if isinstance(held, type):
            steps.append(Step("construct", node, scope, last, value=held))
            if self.bad is not None and not _is_module_class(held):
                self._constructed_from(node, scope, steps, operands)
            return
        if name in ("copy.deepcopy", "copy.copy", "deepcopy") and node.args:
            steps.append(Step("construct", node, scope, last, value=held, extra={"copy": True}))
            return
        if last == "next" and node.args:
            steps.append(Step("loop", node.args[0], scope, "", node))
            self._iterate(node.args[0], scope, steps, path)
            return
        if last in vocabulary.PASS_THROUGH and node.args:
            self._items(node.args[0], scope, steps, None, path)
            return
        entered = enter(node, scope, self.sources)
        if entered is None:
            steps.append(Step("library", node, scope, last, value=held))
            return
        steps.append(Step("call", node, scope, last, value=held, extra={"entered": entered}))
        self._returned(entered, node, steps, path)

    def _constructed_from(
        self, node: ast.Call, scope: Scope, steps: list[Step], operands: list[ast.expr]
    ) -> None:
        """An object that keeps what it was given (a partial, a distribution, a dataset): the wrong argument."""
        wrong = [operand for operand in operands if self._is_bad(operand, scope)]
        self.branches += [(operand, scope) for operand in wrong[1:]]
        if wrong:
            steps.append(
                Step("item", wrong[0], scope, "", scope.source.statement(node), extra={"construct": node})
            )
            self._follow(wrong[0], scope, steps)

    def _returned(self, entered: Scope, call: ast.Call, steps: list[Step], path: tuple[int, ...]) -> None:
        candidates = returned(entered.node)
        picked: list[ast.expr] = []
        for value in candidates:
            leaf: ast.expr = value
            if path and isinstance(value, ast.Tuple) and path[0] < len(value.elts):
                leaf = value.elts[path[0]]
            picked.append(leaf)
        judged = [
            (self._is_bad(leaf, entered), value) for leaf, value in zip(picked, candidates, strict=True)
        ]
        chosen = next((v for bad, v in judged if bad), None) or next(
            (v for bad, v in judged if bad is None), None
        )
        if chosen is None and judged and self.bad is None:
            chosen = judged[-1][1]
        if chosen is None:
            return
        steps.append(
            Step(
                "return",
                chosen,
                entered,
                entered.function or "",
                entered.source.statement(chosen),
                extra={"call": call},
            )
        )
        self._follow(chosen, entered, steps, path)


def _until(scope: Scope) -> tuple[int, int]:
    """Before which position bindings had happened: the failure, in a live frame outside of a loop."""
    live = scope.live
    if live is None or live.node is None or not hasattr(live.node, "lineno"):
        return scope.until
    inside = (
        any(isinstance(up, ast.For | ast.While | ast.AsyncFor) for up in live.source.ancestors(live.node))
        if live.source
        else False
    )
    end = (live.node.end_lineno or live.line, live.node.end_col_offset or 0)  # type: ignore[attr-defined]
    return (1 << 30, 0) if inside else end


def _node_of(place: attributes.Assignment) -> ScopeNode:
    node = place.method or place.source.tree
    assert node is not None  # a file whose text does not parse gives no assignments
    return node


def _is_module_class(cls: type) -> bool:
    torch = values.torch()
    return torch is not None and issubclass(cls, torch.nn.Module)


def _globals_of(cls: type, scope: Scope) -> dict[str, Any]:
    import sys

    module = sys.modules.get(type.__getattribute__(cls, "__dict__").get("__module__", ""))
    return module.__dict__ if module is not None else scope.globals
