"""Modules whose place a hook decides (accelerate's `_hf_hook`): who they are, and what is called past the hook."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.infer import canonical
from ..evidence.passive import class_name
from ..evidence.scopes import MISSING, Scope
from ..evidence.steps import Step
from ._facts import owners
from ._finding import Finding, Mend
from ._moves import best_anchor


def loading_hook(module: Any) -> Any:
    """The hook that loads a module for its forward, where that runs on another device than the CPU; else None."""
    hook = values.lookup(values.instance_dict(module), "_hf_hook") if values.is_module(module) else None
    runs_on = (
        canonical(values.lookup(values.instance_dict(hook), "execution_device")) if hook is not None else None
    )
    return hook if runs_on not in (None, "cpu") else None


def is_managed(evidence: Evidence, module: Any) -> bool:
    """Whether hooks or a device map decide where a module is, or one that it is a part of: never a `.to()` there."""
    for owner in (module, *(value for value, _, _ in owners(evidence))):
        if not values.is_module(owner):
            continue
        within = [(path, sub) for path, sub in values.submodules(owner)]
        path = next((path for path, sub in within if sub is module), None)
        around = (
            sub for name, sub in within if path == name or not name or (path or "").startswith(f"{name}.")
        )
        if path is not None and any(_mark(sub) for sub in around):
            return True
    return False


def _mark(module: Any) -> bool:
    own = values.instance_dict(module)
    return loading_hook(module) is not None or values.lookup(own, "hf_device_map") is not None


def past_forward(evidence: Evidence) -> Finding | None:
    """A method, or a part, of an offloaded module is called, and no hook loads the module for that."""
    if evidence.wrong_device != "cpu" or evidence.user is None or evidence.wanted is None:
        return None
    for node, scope in _calls(evidence):
        for base, name in _prefixes(node):
            module = try_evaluate(base, scope)
            if loading_hook(module) is None or values.module_device(module) != evidence.wrong_device:
                continue
            if module is scope.receiver:
                continue  # a method of it runs already: the call of that went past the hook
            if name == "forward" or not _runs_code(module, name):
                continue
            if not _fails_inside(evidence, module, scope):
                continue
            text = scope.source.one_line(base)
            return Finding(
                culprit=text,
                culprit_at=(base, scope),
                headline=f"`{text}` is offloaded to {evidence.wrong_device}: its hook loads it for its forward, and this calls `{name}`",
                root_node=node,
                root_scope=scope,
                root_note="no hook runs for this method" if "." not in name else "no hook runs for this part",
                mends=_mends(evidence, node, scope, base, name),
            )
    return None


def _calls(evidence: Evidence) -> Iterator[tuple[ast.Call, Scope]]:
    """The calls of the user's that are running, the innermost first, and those inside the one that failed."""
    for node in ast.walk(evidence.node) if evidence.node is not None else ():
        if isinstance(node, ast.Call) and evidence.user is not None:
            yield node, evidence.user
    for scope in reversed(evidence.scopes):
        live = scope.live
        if (
            live is not None
            and not live.library
            and scope is not evidence.user
            and isinstance(live.node, ast.Call)
        ):
            yield live.node, scope


def _prefixes(call: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    """`pipe.vae`, `decode` of `pipe.vae.decode(z)`; then `pipe`, `vae.decode`."""
    here, name = call.func, ""
    while isinstance(here, ast.Attribute):
        name = f"{here.attr}.{name}".removesuffix(".")
        here = here.value
        yield here, name


def _runs_code(module: Any, name: str) -> bool:
    """Whether a name of a module's is a method of its class, or leads to a part of it that is called itself."""
    first, _, rest = name.partition(".")
    if not rest and type(values.class_attribute(type(module), first)) is types.FunctionType:
        return True
    part = next((sub for path, sub in values.submodules(module) if path == name), None)
    return part is not None and loading_hook(part) is None


def _fails_inside(evidence: Evidence, module: Any, scope: Scope) -> bool:
    """Whether what failed is state of the module."""
    wrong = evidence.wrong
    if wrong is None or (wrong.leaf.value is MISSING and wrong.held is None):
        return scope is evidence.user
    if any(sub is wrong.leaf.value for _, sub in values.submodules(module)):
        return True
    key = values.storage_key(wrong.tensor) if values.is_tensor(wrong.tensor) else None
    state = (values.storage_key(tensor) for _, tensor, _ in values.module_tensors(module))
    return key is not None and any(key == each for each in state)


def _mends(evidence: Evidence, node: ast.Call, scope: Scope, base: ast.expr, name: str) -> list[Mend]:
    statement = scope.source.statement(node)
    if statement is None or not Step("use", node, scope).editable:
        return []
    module, text = try_evaluate(base, scope), scope.source.one_line(base)
    if _forward_is(evidence, module, name, node):
        made = edits.replace_node(scope.source, node.func, text)
        return [Mend("call the module, whose forward is this method", made, node, scope)]
    reason = "it then stays on the GPU until its hooks put it back"
    if class_name(type(loading_hook(module))) == "CpuOffload":
        made = edits.insert_before(scope.source, statement, f"{text}._hf_hook.pre_forward({text})")
        return [Mend("let its hook load it for this call", made, node, scope, "unsafe", reason)]
    anchor = best_anchor(evidence, scope, node)
    if anchor is None:
        return []
    made = edits.insert_before(scope.source, statement, f"{text}.to({anchor.text})")
    return [Mend("load it for this call", made, node, scope, "unsafe", reason)]


def _forward_is(evidence: Evidence, module: Any, name: str, call: ast.Call) -> bool:
    """Whether a module's forward does nothing but call this method with what it was given."""
    forward = values.class_attribute(type(module), "forward")
    if (
        type(forward) is not types.FunctionType
        or call.keywords
        or any(isinstance(a, ast.Starred) for a in call.args)
    ):
        return False
    source = evidence.sources.get(forward.__code__.co_filename, forward.__globals__)
    node = source.function_at(forward.__code__.co_firstlineno, "forward") if source is not None else None
    if not isinstance(node, ast.FunctionDef) or node.decorator_list:
        return False
    names = [p.arg for p in node.args.args]
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    given = f"return {names[0]}.{name}({', '.join(names[1:])})" if names else ""
    return len(body) == 1 and ast.unparse(body[0]) == given and len(call.args) == len(names) - 1
