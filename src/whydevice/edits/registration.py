"""Edits that register state with its nn.Module: tensors as buffers, lists and dicts as containers."""

from __future__ import annotations

import ast
import re

from ..source import EditError, Source
from ..types import Edit
from .expressions import wrap_call
from .imports import torch_name
from .layout import indentation, layout, on_header_line, suite_of
from .scope import enclosing_class, enclosing_function, names_bound, names_read
from .tokens import parentheses

# The public names of nn.Module and nn.ModuleDict: none of them can name a buffer or a module (a KeyError from
# `register_buffer` and `add_module`). A test holds these lists to the torch that is installed.
MODULE_NAMES = frozenset(
    [
        "T_destination",
        "add_module",
        "apply",
        "bfloat16",
        "buffers",
        "call_super_init",
        "children",
        "compile",
        "cpu",
        "cuda",
        "double",
        "dump_patches",
        "eval",
        "extra_repr",
        "float",
        "forward",
        "get_buffer",
        "get_extra_state",
        "get_parameter",
        "get_submodule",
        "half",
        "ipu",
        "load_state_dict",
        "modules",
        "mtia",
        "named_buffers",
        "named_children",
        "named_modules",
        "named_parameters",
        "parameters",
        "register_backward_hook",
        "register_buffer",
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
        "register_load_state_dict_post_hook",
        "register_load_state_dict_pre_hook",
        "register_module",
        "register_parameter",
        "register_state_dict_post_hook",
        "register_state_dict_pre_hook",
        "requires_grad_",
        "set_extra_state",
        "set_submodule",
        "share_memory",
        "state_dict",
        "to",
        "to_empty",
        "train",
        "training",
        "type",
        "xpu",
        "zero_grad",
    ]
)
DICT_NAMES = MODULE_NAMES | frozenset(["clear", "items", "keys", "pop", "update", "values"])


def attribute_to_buffer(
    source: Source,
    assign: ast.stmt,
    *,
    persistent: bool = False,
    attributes: tuple[str, ...] | None = None,
) -> tuple[Edit, ...]:
    """`self.x = expr` as `self.register_buffer("x", expr, persistent=False)`.

    `attributes` names those of a tuple's targets that become buffers (all attributes when None). An
    annotation stays on a line of its own. Raises EditError for what has no such form, and where
    `register_buffer` would raise: the name is taken, or `super().__init__()` comes later.
    """
    target: ast.expr
    if isinstance(assign, ast.AnnAssign) and assign.value is not None:
        target, value = assign.target, assign.value
    elif isinstance(assign, ast.Assign) and len(assign.targets) == 1:
        target, value = assign.targets[0], assign.value
    else:
        raise EditError(f"line {assign.lineno} is no plain assignment to one attribute")
    if isinstance(target, ast.Tuple | ast.List):
        return _unpacked(source, assign, target.elts, value, persistent, attributes)
    if not isinstance(target, ast.Attribute):
        raise EditError(f"line {assign.lineno} assigns to no attribute")
    if isinstance(value, ast.Tuple | ast.List | ast.Dict | ast.Yield | ast.YieldFrom | ast.Lambda):
        raise EditError(f"the value in line {assign.lineno} is no tensor, and only a tensor can be a buffer")
    _check_name(source, assign, target)
    start = source.start(assign)
    groups = parentheses(source, value)
    value_start, value_end = (groups[-1][0], groups[-1][1]) if groups else source.span(value)
    head = f'{source.segment(target.value)}.register_buffer("{target.attr}", '
    place = layout(source, assign)
    if isinstance(assign, ast.AnnAssign) and place.opened_by == "line":
        annotated = source.text[start : source.end(assign.annotation)]
        if not re.search(r"[\r\n]", annotated):
            head = annotated + source.newline_at(start) + indentation(source, assign) + head
    tail = ")" if persistent else ", persistent=False)"
    return source.edit(start, value_start, head), source.edit(value_end, value_end, tail)


def _unpacked(
    source: Source,
    assign: ast.stmt,
    targets: list[ast.expr],
    value: ast.expr,
    persistent: bool,
    attributes: tuple[str, ...] | None,
) -> tuple[Edit, ...]:
    """`self.a, self.b = f()` with names in the place of the attributes, which are registered on the lines
    below.
    """
    if any(isinstance(target, ast.Starred | ast.Tuple | ast.List) for target in targets):
        raise EditError(f"the targets in line {assign.lineno} are nested")
    chosen = [
        t for t in targets if isinstance(t, ast.Attribute) and (attributes is None or t.attr in attributes)
    ]
    if not chosen:
        raise EditError(f"line {assign.lineno} assigns to no such attribute")
    suite, _ = suite_of(source, assign)
    place = layout(source, assign)
    if place.follower is not None or place.opened_by != "line" or on_header_line(source, suite):
        raise EditError(f"line {assign.lineno} holds more than one statement")
    function = enclosing_function(source, assign)
    taken = names_bound(assign) | names_read(assign)
    for statement in function.body if function is not None else []:
        taken |= names_bound(statement) | names_read(statement)
    edits: list[Edit] = []
    tail = "" if persistent else ", persistent=False"
    lines = []
    for target in chosen:
        _check_name(source, assign, target)
        name = target.attr if target.attr not in taken else f"{target.attr}_"
        if name in taken:
            raise EditError(f"the name `{name}` is taken in the function of line {assign.lineno}")
        taken.add(name)
        edits.append(source.edit(*source.span(target), name))
        lines.append(f'{source.segment(target.value)}.register_buffer("{target.attr}", {name}{tail})')
    newline, indent = source.newline_at(place.start), indentation(source, assign)
    end = place.after
    block = "".join(indent + line + newline for line in lines)
    if not source.text[:end].endswith(("\n", "\r")):
        block = newline + block.removesuffix(newline)
    return (*edits, source.edit(end, end, block))


def _check_name(source: Source, assign: ast.stmt, target: ast.Attribute) -> None:
    """Refuse where `register_buffer` would raise: a name that the class has, that is assigned before, or too
    early.
    """
    name = target.attr
    if name in MODULE_NAMES:
        raise EditError(f"`{name}` is a name of nn.Module itself, so no buffer can have it")
    owner = enclosing_class(source, assign)
    body = owner.body if owner is not None else []
    if any(name in names_bound(s) for s in body if not isinstance(s, ast.AnnAssign) or s.value is not None):
        raise EditError(f"the class defines `{name}` itself, so no buffer can have this name")
    function = enclosing_function(source, assign)
    holder = ast.unparse(target.value)
    for node in ast.walk(function) if function is not None else ():
        line = getattr(node, "lineno", 0)
        if line < assign.lineno and isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if node.attr == name and ast.unparse(node.value) == holder:
                raise EditError(
                    f"`{holder}.{name}` is assigned in line {line} already, so no buffer can take this name"
                )
        if isinstance(node, ast.Call) and line > assign.lineno and _initialises(node):
            raise EditError(f"`{holder}.{name}` is set before the Module's __init__ runs in line {line}")


def _initialises(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"


def list_to_modulelist(source: Source, value: ast.expr) -> tuple[Edit, ...]:
    """A list of modules as `nn.ModuleList`: `[]` as `nn.ModuleList()`, any other expression wrapped."""
    return _registered(source, value, "ModuleList", isinstance(value, ast.List) and not value.elts)


def dict_to_moduledict(source: Source, value: ast.expr) -> tuple[Edit, ...]:
    """A dict of modules as `nn.ModuleDict`.

    Raises EditError for a key that a ModuleDict refuses: no string, empty, with a dot, or the name of a
    method.
    """
    keys: list[ast.expr | None] = []
    if isinstance(value, ast.Dict):
        keys = list(value.keys)
    elif isinstance(value, ast.Call):
        keys = [ast.Constant(keyword.arg) for keyword in value.keywords if keyword.arg]
    for key in keys:
        if isinstance(key, ast.Constant):
            check_key(key.value)
    return _registered(source, value, "ModuleDict", isinstance(value, ast.Dict) and not value.keys)


def check_key(key: object) -> None:
    """Raise EditError for a key that nn.ModuleDict does not take."""
    if not isinstance(key, str) or not key:
        raise EditError(f"nn.ModuleDict takes no key {key!r}: it must be a string that is not empty")
    if "." in key:
        raise EditError(f"nn.ModuleDict takes no key {key!r}: it has a dot")
    if key in DICT_NAMES:
        raise EditError(f"nn.ModuleDict takes no key {key!r}: it is the name of a method")


def _registered(source: Source, value: ast.expr, container: str, empty: bool) -> tuple[Edit, ...]:
    name, imports = torch_name(source, "torch.nn", container, value)
    plain = {"ModuleList": "list", "ModuleDict": "dict"}[container]
    if isinstance(value, ast.Call):
        function = source.segment(value.func)
        if function == name:
            return ()
        if function == plain and not value.keywords:
            return (*imports, source.edit(*source.span(value.func), name))
    if empty and "#" not in source.segment(value):
        return (*imports, source.edit(*source.span(value), f"{name}()"))
    edits = wrap_call(source, value, name)
    return (*imports, *edits) if edits else ()
