"""The option of a library's that decides whether it wraps a model: read from the `if` around the wrapping."""

from __future__ import annotations

import ast
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.attributes import class_source
from ..evidence.collect import Evidence
from ..evidence.sources import Source
from ._facts import owners
from ._finding import Mend
from ._user_calls import UserCall, user_calls


def flag_mend(evidence: Evidence, wrapper: Any) -> Mend | None:
    """The edit of the user's code that switches the wrapping off, where the library's guard shows how."""
    for owner, _, _ in owners(evidence):
        if not any(value is wrapper for _, value in values.named(values.instance_dict(owner))[:200]):
            continue
        located = class_source(type(owner), evidence.sources)
        if located is None:
            continue
        for test in _guards(located[0], values.type_name(wrapper)):
            mend = _switched(evidence, test) or _marked(evidence, test, wrapper, owner)
            if mend is not None:
                return mend
    for scope in evidence.scopes:
        if scope.live is None or not scope.live.library or scope.module_name.startswith("torch."):
            continue
        for test in _guards(scope.source, values.type_name(wrapper)):
            mend = _switched(evidence, test)
            if mend is not None:
                return mend
    return None


def _guards(source: Source, wrapper: str) -> list[ast.expr]:
    """The conditions under which a call of the wrapper's class stands."""
    found: list[ast.expr] = []
    for node in source.nodes_with(wrapper):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == wrapper:
            found += [up.test for up in source.ancestors(node) if isinstance(up, ast.If | ast.IfExp)]
    return found


def _switched(evidence: Evidence, test: ast.expr) -> Mend | None:
    """`a and not b.flag` is undone by `flag=True`, `b.flag and a` by `flag=False`: whichever the user can pass."""
    for name, wanted in _switches(test, True):
        for one in user_calls(evidence):
            if not one.library or not _has(one, name, wanted):
                continue
            source = one.scope.source
            given = one.given.get(name)
            made = (
                edits.replace_node(source, given, str(wanted))
                if given is not None
                else edits.add_keyword(source, one.node, name, str(wanted))
            )
            return Mend(
                f"keep the library from wrapping the model: `{name}={wanted}`", made, one.node, one.scope
            )
    return None


def _switches(test: ast.expr, positive: bool) -> list[tuple[str, bool | int]]:
    """(name of an option, the value that makes the condition false)."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == positive:
        return [found for value in test.values for found in _switches(value, positive)]
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _switches(test.operand, not positive)
    if isinstance(test, ast.Compare) and positive and len(test.ops) == 1 and isinstance(test.ops[0], ast.Gt):
        most = test.comparators[0]
        if isinstance(most, ast.Constant) and type(most.value) is int:
            return [(name, most.value) for name in _option(test.left)]
    return [(name, not positive) for name in _option(test)]


def _option(node: ast.expr) -> list[str]:
    """The name in `args.flag`, `flag`, `getattr(args, "flag", False)`."""
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and len(node.args) > 1:
        name = node.args[1]
        return [name.value] if isinstance(name, ast.Constant) and type(name.value) is str else []
    return []


def _has(one: UserCall, name: str, wanted: bool | int) -> bool:
    """Whether a call has this option, with a value of the same kind under which the library wraps."""
    given = one.given.get(name)
    if isinstance(given, ast.Constant):
        return type(given.value) is type(wanted) and given.value != wanted
    if name not in one.absent:
        return False
    default = one.absent[name]
    return default is None or (type(default) is type(wanted) and default != wanted)


def _marked(evidence: Evidence, test: ast.expr, wrapper: Any, owner: Any) -> Mend | None:
    """A mark that the library looks for on the model itself: set before the model is handed over."""
    names = [name for name, wanted in _switches(test, True) if wanted is True and _asks_attribute(test, name)]
    module = values.attribute(wrapper, "module")
    built = next((c for c in user_calls(evidence) if c.result() is owner), None)
    model = next((n for value, n, _ in owners(evidence) if value is module), None)
    statement = built.statement() if built is not None else None
    if not names or built is None or statement is None or model is None:
        return None
    made = edits.insert_before(built.scope.source, statement, f"{model}.{names[0]} = True")
    return Mend(
        f"keep the library from wrapping the model: mark it with `{names[0]}`", made, statement, built.scope
    )


def _asks_attribute(test: ast.expr, name: str) -> bool:
    """Whether a condition reads `model.name` or `getattr(model, "name", ...)`."""
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute) and node.attr == name:
            return True
        if isinstance(node, ast.Call) and name in _option(node):
            return True
    return False
