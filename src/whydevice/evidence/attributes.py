"""Where a class gives an attribute its value: read from the sources of the class and its bases."""

from __future__ import annotations

import ast
import sys
import types
from typing import Any, NamedTuple

from . import values
from .libraries import is_library
from .passive import bases, class_entries, class_module, class_name, code_file, code_name, exactly
from .sources import FunctionNode, Source, Sources
from .templates import may_be
from .trees import STATE


class Assignment(NamedTuple):
    """`self.name = value` in a method, `name = value` in a class body, or a registration.

    `kind`: plain, buffer, parameter, property, class. `method` is None in a class body.
    """

    kind: str
    source: Source
    node: ast.expr
    stmt: ast.stmt
    method: ast.FunctionDef | ast.AsyncFunctionDef | None
    cls: type
    path: tuple[int, ...] = ()
    function: types.FunctionType | None = None
    guessed: bool = False  # the name is computed: `setattr(self, name, value)`


def classes(value: Any) -> list[type]:
    """The class of a value and its bases, torch's and Python's own left out."""
    kind = value if values.is_class(value) else type(value)
    found = []
    for base in bases(kind):
        module = class_module(base)
        if module.partition(".")[0] in ("builtins", "torch", "typing", "abc"):
            if not (module.startswith("torch.distributions") or module.startswith("torch.optim")):
                continue
        found.append(base)
    return found


def class_source(cls: type, sources: Sources) -> tuple[Source, ast.ClassDef] | None:
    """The file and node of a class, by the first line of one of its methods, else by its module and name."""
    for _, entry in values.named(class_entries(cls)):
        function = (
            entry.fget
            if type(entry) is property
            else entry.__func__
            if exactly(entry, staticmethod, classmethod)
            else entry
        )
        if type(function) is not types.FunctionType:
            continue
        code = function.__code__
        source = sources.get(code_file(code), function.__globals__)
        node = source.function_at(code.co_firstlineno, code_name(code)) if source is not None else None
        if source is not None and node is not None:
            found = source.enclosing_class(node)
            if found is not None and found.name == class_name(cls):
                return source, source.whole(found)
    module = sys.modules.get(class_module(cls))
    path = values.lookup(values.instance_dict(module), "__file__")
    source = sources.get(path) if type(path) is str else None
    node = source.class_named(class_name(cls)) if source is not None else None
    return (source, node) if source is not None and node is not None else None


def assignments(owner: Any, name: str, sources: Sources) -> list[Assignment]:
    """Every place in the classes of `owner` that gives the attribute a value, the user's classes first."""
    found: list[Assignment] = []
    for cls in classes(owner):
        located = class_source(cls, sources)
        if located is None:
            continue
        source, node = located
        for member in node.body:
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                if member.name == name and _is_property(member):
                    found += _property(member, source, cls)
                found += _in_method(member, name, source, cls)
            elif isinstance(member, ast.Assign):
                found += [
                    Assignment("class", source, member.value, member, None, cls)
                    for target in member.targets
                    if isinstance(target, ast.Name) and target.id == name
                ]
            elif isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                if member.target.id == name and member.value is not None:
                    found.append(Assignment("class", source, member.value, member, None, cls))
    return sorted(_exact(found), key=lambda a: is_library(a.source.path))


def builds(function: str | None) -> bool:
    """Whether a method makes its object what it is, before others may use it."""
    return function in ("__init__", "__post_init__", "__new__", "setup")


def _exact(found: list[Assignment]) -> list[Assignment]:
    """Those under the name itself; where there are none, those under a name that only the run knew."""
    return [a for a in found if not a.guessed] or found


def _is_property(member: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    for decorator in member.decorator_list:
        text = ast.unparse(decorator)
        if text.rpartition(".")[2] in ("property", "cached_property"):
            return True
    return False


def _property(member: Any, source: Source, cls: type) -> list[Assignment]:
    from .calls import returned

    return [
        Assignment("property", source, value, source.statement(value) or member, member, cls)
        for value in returned(member)
    ]


def _in_method(member: Any, name: str, source: Source, cls: type) -> list[Assignment]:
    params = [*member.args.posonlyargs, *member.args.args]
    if not params:
        return []
    receiver = params[0].arg
    found: list[Assignment] = []
    for node in ast.walk(member):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for leaf, value, path in _leaves(target, node.value):
                    if _is_attribute(leaf, receiver, name):
                        found.append(Assignment("plain", source, value, node, member, cls, path))
        elif isinstance(node, ast.Call):
            found += _registration(node, receiver, name, source, member, cls)
    return found


def _leaves(
    target: ast.expr, value: ast.expr, path: tuple[int, ...] = ()
) -> list[tuple[ast.expr, ast.expr, tuple[int, ...]]]:
    if not isinstance(target, ast.Tuple | ast.List):
        return [(target, value, path)]
    found = []
    for index, element in enumerate(target.elts):
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) and not path:
            found += _leaves(element, value.elts[index])
        else:
            found += _leaves(element, value, (*path, index))
    return found


def _is_attribute(node: ast.AST, receiver: str, name: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Name)
        and node.value.id == receiver
    )


def _registration(
    node: ast.Call, receiver: str, name: str, source: Source, member: Any, cls: type
) -> list[Assignment]:
    func = node.func
    if isinstance(func, ast.Attribute) and func.attr in (
        "register_buffer",
        "register_parameter",
        "add_module",
    ):
        first = node.args[0] if node.args else None
        given = (
            node.args[1]
            if len(node.args) > 1
            else next((k.value for k in node.keywords if k.arg in ("tensor", "param")), None)
        )
        if first is not None and _may_name(first, name) and given is not None:
            kind = {"register_buffer": "buffer", "register_parameter": "parameter"}.get(func.attr, "plain")
            return [_registered(kind, first, given, node, source, member, cls)]
    if isinstance(func, ast.Name) and func.id == "setattr" and len(node.args) == 3:
        target, key, given = node.args
        if isinstance(target, ast.Name) and target.id == receiver and _may_name(key, name):
            return [_registered("plain", key, given, node, source, member, cls)]
    return []


def _may_name(key: ast.expr, name: str) -> bool:
    """Whether an expression is this name, or is computed and may be it."""
    return key.value == name if isinstance(key, ast.Constant) else may_be(key, name)


def _registered(
    kind: str, key: ast.expr, given: ast.expr, node: ast.Call, source: Source, member: Any, cls: type
) -> Assignment:
    statement = source.statement(node) or ast.Pass()
    guessed = not isinstance(key, ast.Constant)
    return Assignment(kind, source, given, statement, member, cls, guessed=guessed)


def outside_assignments(name: str, source: Source) -> list[tuple[ast.expr, ast.Attribute, ast.stmt]]:
    """`something.name = value` anywhere in a file where `something` is not a method's own `self`."""
    found: list[tuple[ast.expr, ast.Attribute, ast.stmt]] = []
    for node in source.nodes_with(f".{name}"):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Attribute) and target.attr == name:
                function = source.scope(node)
                if isinstance(function, FunctionNode) and source.enclosing_class(function) is not None:
                    params = function.args.args
                    if params and isinstance(target.value, ast.Name) and target.value.id == params[0].arg:
                        continue
                found.append((node.value, target, node))
    return found


def kind_in(owner: Any, name: str) -> str | None:
    """How an attribute is held: parameter, buffer, module, attribute; None when it is not there."""
    own = values.instance_dict(owner)
    if values.is_module(owner):
        for table, kind in (*STATE.items(), ("_modules", "module")):
            if values.lookup(values.lookup(own, table), name, values) is not values:
                return kind
    return "attribute" if values.lookup(own, name, values) is not values else None
