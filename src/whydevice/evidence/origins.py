"""Follows a value back to where it got its device: through names, calls, attributes, loops and containers."""

from __future__ import annotations

import ast
from typing import Any

from . import partials, values
from .activations import returned_scope
from .calls import enter, returned
from .containers import follow_additions, follow_items
from .evaluate import try_evaluate
from .infer import NOT_A_TENSOR, Inference
from .iteration import follow_iteration, follow_yield
from .members import follow_attribute
from .passive import exactly
from .results import follow_call
from .scopes import (
    MISSING,
    Argument,
    Binding,
    Scope,
    all_reaching,
    bindings_of,
    comprehension_binding,
    excludes,
    item_of,
    own_nodes,
    position,
    reaching,
)
from .sources import Sources
from .steps import Step
from .until import until

MOST_STEPS = 40


class Tracer:
    """Traces within one explanation. `live` are the user's scopes that are still on the stack, outermost first."""

    def __init__(self, sources: Sources, inference: Inference, live: list[Scope]) -> None:
        self.sources = sources
        self.inference = inference
        self.live = live
        self.bad: str | None = None
        self.sought: Any = (
            MISSING  # the module that is followed: what makes one of another class did not make it
        )
        self.branches: list[tuple[ast.AST, Scope]] = []

    def trace(self, node: ast.AST, scope: Scope, bad: str | None) -> list[Step]:
        """The steps from the use back to the root, for a value that is on device `bad`."""
        self.bad = bad
        self.branches = []
        self.sought = try_evaluate(node, scope)
        steps = [Step("use", node, scope, value=self.sought)]
        self.follow(node, scope, steps)
        self._made_as_partial(steps)
        return steps

    def _made_as_partial(self, steps: list[Step]) -> None:
        """Go on from the call that made a partial, where what it went through since is not seen."""
        made = partials.only_call(self.sought, steps[0].scope, self.sources)
        if made is None:
            return
        call, bare = made
        inside = set(ast.walk(call))
        if not any(step.node in inside for step in steps):
            self.follow(call, returned_scope(self, bare.node, bare) or bare, steps)

    def follow(self, node: ast.AST, scope: Scope, steps: list[Step], path: tuple[int, ...] = ()) -> None:
        """Go on with an expression; `path` leads into its value where a target is unpacked."""
        if len(steps) > MOST_STEPS or any(s.node is node and s.scope is scope for s in steps[1:-1]):
            return
        if isinstance(node, ast.Name):
            self._name(node, scope, steps, path)
        elif isinstance(node, ast.Attribute):
            follow_attribute(self, node, scope, steps, path)
        elif isinstance(node, ast.Subscript):
            self._subscript(node, scope, steps, path)
        elif isinstance(node, ast.Call):
            follow_call(self, node, scope, steps, path)
        elif isinstance(node, ast.Tuple | ast.List) and path and path[0] < len(node.elts):
            self.follow(node.elts[path[0]], scope, steps, path[1:])
        elif isinstance(node, ast.Starred | ast.Await | ast.NamedExpr):
            self.follow(node.value, scope, steps, path)
        elif isinstance(node, ast.IfExp):
            self.choose([node.body, node.orelse], node, scope, steps)
        elif isinstance(node, ast.BinOp):
            self.choose([node.left, node.right], node, scope, steps)
        elif isinstance(node, ast.UnaryOp):
            self.follow(node.operand, scope, steps)
        elif isinstance(node, ast.Lambda):  # a factory of defaults: what it makes
            self.follow(node.body, self.scope_of(node, scope), steps, path)
        elif isinstance(node, ast.Compare):
            self.choose([node.left, *node.comparators], node, scope, steps)
        elif isinstance(node, ast.BoolOp):
            self.choose(node.values, node, scope, steps)
        elif isinstance(
            node, ast.List | ast.Tuple | ast.Set | ast.Dict | ast.ListComp | ast.DictComp | ast.GeneratorExp
        ):
            follow_items(self, node, scope, steps, None, path)
        else:
            steps.append(Step("unknown", node, scope))

    def is_bad(self, node: ast.AST, scope: Scope) -> bool | None:
        """Whether the expression's value is on the wrong device; None when it cannot be told."""
        held = try_evaluate(node, scope)
        if values.is_module(held):
            devices = values.module_devices(held)
            return self.bad in devices if devices else False
        if self._makes_another(node, scope):
            return False
        found = self.inference.device(node, scope)
        if found is None:
            return None
        return found == self.bad

    def _makes_another(self, node: ast.AST, scope: Scope) -> bool:
        """Whether an expression constructs a module of another class than the one that is followed."""
        if not isinstance(node, ast.Call) or not values.is_module(self.sought):
            return False
        made = try_evaluate(node.func, scope)
        torch = values.torch()
        if not values.is_class(made) or torch is None or not issubclass(made, torch.nn.Module):
            return False
        kind = type(self.sought)  # of a parametrized or lazy module, a class that was derived or is the base
        return not (issubclass(kind, made) or issubclass(made, kind))

    def choose(self, nodes: list[ast.expr], whole: ast.AST, scope: Scope, steps: list[Step]) -> None:
        """Go on with the operand that is on the wrong device; a 0-dim one may be legal, so it comes last."""
        judged = [(self.is_bad(n, scope), n) for n in nodes]
        sure = [n for bad, n in judged if bad]
        sized = [n for n in sure if not self._is_scalar(n, scope)]
        maybe = [n for bad, n in judged if bad is None]
        candidates = sized or sure or maybe
        if not candidates:
            steps.append(Step("derived", whole, scope))
            return
        chosen = candidates[0]
        self.branches += [(n, scope) for n in sized if n is not chosen]
        self.follow(chosen, scope, steps)

    def _is_scalar(self, node: ast.AST, scope: Scope) -> bool:
        held = try_evaluate(node, scope)
        return values.is_tensor(held) and values.shape_of(held) == ()

    def iterate(self, node: ast.AST, scope: Scope, steps: list[Step], path: tuple[int, ...]) -> None:
        """Go on with what one turn of a loop over the expression takes."""
        follow_iteration(self, node, scope, steps, path)

    def _name(self, node: ast.Name, scope: Scope, steps: list[Step], path: tuple[int, ...]) -> None:
        inner = comprehension_binding(scope.source, node, node.id)
        if inner is not None:
            self._bound(inner, node, scope, steps, path)
            return
        binding = self.binding(node.id, node, scope, path)
        if binding is not None:
            sure = self._is_sure(binding, node, scope)
            self._rivals_too(binding, node, scope)
            self._bound(binding, node, scope, steps, path, sure)
            return
        if node.id in scope.bound:
            self._argument(scope.bound[node.id], node.id, scope, steps, path)
            return
        outer = None if scope.is_parameter(node.id) else self.outer(node.id, scope)
        if outer is None:
            steps.append(Step("unknown", node, scope, node.id))
            return
        holder, found = outer
        if type(found) is Argument:
            self._argument(found, node.id, holder, steps, path)
        elif type(found) is Binding:
            self._bound(found, node, holder, steps, path)

    def binding(self, name: str, use: ast.AST, scope: Scope, path: tuple[int, ...] = ()) -> Binding | None:
        """The binding of a name (or dotted text) that a use sees: of several, one with a value on the wrong device,
        or with one at `path` in its value."""
        found = bindings_of(scope.node).get(name)
        reached = all_reaching(scope.source, found, use, until(scope)) if found else []
        return self._likeliest(reached, scope, path)

    def _likeliest(
        self, candidates: list[Binding], scope: Scope, path: tuple[int, ...] = ()
    ) -> Binding | None:
        if len(candidates) < 2 or self.bad is None:
            return candidates[0] if candidates else None
        judged = [(self._binds_bad(b, scope, path), b) for b in candidates]
        for wanted in (True, None):
            for bad, binding in judged:
                if bad is wanted:
                    return binding
        return candidates[0]

    def _binds_bad(self, binding: Binding, scope: Scope, path: tuple[int, ...] = ()) -> bool | None:
        if binding.kind not in ("assign", "walrus") or binding.value is None:
            return None
        value = item_of(binding.value, (*binding.path, *path), scope)
        if value is None:
            return False if isinstance(binding.value, ast.Constant) else None
        return self.is_bad(value, scope)

    def _is_sure(self, binding: Binding, use: ast.Name, scope: Scope) -> bool:
        """Whether no other binding that may reach the use, in a branch or a turn of a loop, can have been the one."""
        found = bindings_of(scope.node).get(use.id, [])
        rivals = [b for b in all_reaching(scope.source, found, use, until(scope)) if b is not binding]
        if not rivals or self._gave(binding, use, scope):
            return True
        return all(self._gave(b, use, scope) is False or self._binds_bad(b, scope) is False for b in rivals)

    def _rivals_too(self, binding: Binding, use: ast.Name, scope: Scope) -> None:
        """Note the values of other branches that are on the wrong device as well: another pass would fail of them."""
        found = bindings_of(scope.node).get(use.id, [])
        for rival in all_reaching(scope.source, found, use, until(scope)):
            if rival is not binding and excludes(scope.source, rival.stmt, binding.stmt) and not rival.path:
                if rival.value is not None and self._binds_bad(rival, scope):
                    self.branches.append((rival.value, scope))

    def _gave(self, binding: Binding, use: ast.Name, scope: Scope) -> bool | None:
        """Whether a binding's value is the object that the name holds; None when that cannot be told."""
        held = try_evaluate(use, scope)
        given = try_evaluate(binding.value, scope) if binding.value is not None else MISSING
        return None if held is MISSING or given is MISSING or binding.path else held is given

    def outer(self, name: str, scope: Scope) -> tuple[Scope, Binding | Argument] | None:
        """Where a free or global name was bound: in an enclosing function or as its parameter, else in the module."""
        function = scope.node
        while True:
            enclosing = scope.source.scope(function)
            if enclosing is None or enclosing is function:
                return None
            if not isinstance(enclosing, ast.ClassDef):
                found = bindings_of(enclosing).get(name)
                holder = self.scope_of(enclosing, scope)
                if found:
                    end = until(holder)
                    usable = [b for b in found if b.position < end] or found
                    plain = [b for b in usable if b.kind != "augmented"] or usable
                    ordered = sorted(plain, key=lambda b: b.position, reverse=True)
                    chosen = self._likeliest(ordered, holder)
                    return (holder, chosen) if chosen is not None else None
                if name in holder.bound:
                    return holder, holder.bound[name]
                if holder.is_parameter(name):
                    return None
            if isinstance(enclosing, ast.Module):
                return None
            function = enclosing

    def scope_of(self, node: Any, scope: Scope) -> Scope:
        for live in self.live:
            if live.node is node and live.source is scope.source:
                return live
        if not isinstance(node, ast.Module):
            ran = returned_scope(self, node, scope)
            if ran is not None:
                return ran
        return Scope(scope.source, node, scope.globals, values=dict(scope.values), depth=scope.depth)

    def _bound(
        self,
        binding: Binding,
        use: ast.Name,
        scope: Scope,
        steps: list[Step],
        path: tuple[int, ...],
        sure: bool = True,
    ) -> None:
        if binding.kind == "augmented":
            found = bindings_of(scope.node).get(use.id, [])
            earlier = [b for b in found if b.kind != "augmented"]
            anchor = binding.target if binding.target is not None else use
            before = reaching(scope.source, earlier, anchor, until(scope))
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
            self.iterate(binding.value, scope, steps, (*binding.path, *path))
            return
        steps.append(Step("assign", binding.value, scope, use.id, binding.stmt, path=binding.path))
        steps[-1].extra["use"] = use
        steps[-1].extra["into"] = (*binding.path, *path)
        if not sure:
            steps[-1].extra["unsure"] = True  # another branch may have bound it
        if isinstance(binding.value, ast.List | ast.Dict) and not binding.path:
            if follow_additions(self, use.id, scope, use, steps, None, path):
                return
        if binding.kind == "with":
            entered = (
                enter(binding.value, scope, self.sources) if isinstance(binding.value, ast.Call) else None
            )
            if entered is not None and returned(entered.node):
                follow_yield(self, entered, steps, path)  # a generator under `contextlib.contextmanager`
            else:
                steps.append(Step("unknown", binding.value, scope, use.id))
            return
        self.follow(binding.value, scope, steps, (*binding.path, *path))

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
            follow_items(self, argument.node, argument.scope, steps, argument.key, path)
        else:
            self.follow(argument.node, argument.scope, steps, path)

    def _subscript(self, node: ast.Subscript, scope: Scope, steps: list[Step], path: tuple[int, ...]) -> None:
        name = ast.unparse(node)
        for inner in reversed(own_nodes(scope.node)):
            if isinstance(inner, ast.Assign) and position(inner) < position(node):
                for target in inner.targets:
                    if isinstance(target, ast.Subscript) and ast.unparse(target) == name:
                        steps.append(Step("assign", inner.value, scope, name, inner))
                        self.follow(inner.value, scope, steps, path)
                        return
        base = try_evaluate(node.value, scope)
        key = try_evaluate(node.slice, scope)
        if values.is_tensor(base) or base is MISSING:
            kind = self.inference.device(node.value, scope)
            if base is MISSING and kind in (None, NOT_A_TENSOR):
                follow_items(self, node.value, scope, steps, key if exactly(key, int, str) else None, path)
            else:
                self.follow(node.value, scope, steps)
            return
        follow_items(self, node.value, scope, steps, key if exactly(key, int, str) else None, path)
