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
    """The edit of the user's call that switches the wrapping off, where the library's guard shows how."""
    for owner, _, _ in owners(evidence):
        if not any(value is wrapper for _, value in values.named(values.instance_dict(owner))[:200]):
            continue
        located = class_source(type(owner), evidence.sources)
        if located is None:
            continue
        for test in _guards(located[0], values.type_name(wrapper)):
            mend = _switched(evidence, test)
            if mend is not None:
                return mend
    return None


def _guards(source: Source, wrapper: str) -> list[ast.expr]:
    """The conditions under which a call of the wrapper's class stands."""
    found: list[ast.expr] = []
    for node in ast.walk(source.module):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == wrapper:
            found += [up.test for up in source.ancestors(node) if isinstance(up, ast.If | ast.IfExp)]
    return found


def _switched(evidence: Evidence, test: ast.expr) -> Mend | None:
    """`a and not b.flag` is undone by `flag=True`, `b.flag and a` by `flag=False`: whichever the user can pass."""
    for name, wanted in _switches(test, True):
        for one in user_calls(evidence):
            if not one.library or not _has(one, name, not wanted):
                continue
            source = one.scope.source
            given = one.given.get(name)
            made = (
                edits.replace_node(source, given, str(wanted))
                if given is not None
                else edits.add_keyword(source, one.node, name, str(wanted))
            )
            return Mend(f"say so with `{name}={wanted}`", made, one.node, one.scope)
    return None


def _switches(test: ast.expr, positive: bool) -> list[tuple[str, bool]]:
    """(name of a flag, the value that makes the condition false)."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == positive:
        return [found for value in test.values for found in _switches(value, positive)]
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _switches(test.operand, not positive)
    if isinstance(test, ast.Attribute):
        return [(test.attr, not positive)]
    if isinstance(test, ast.Name):
        return [(test.id, not positive)]
    return []


def _has(one: UserCall, name: str, value: bool) -> bool:
    """Whether a call has this flag, with the value under which the library wraps."""
    if one.absent.get(name) is value:
        return True
    given = one.given.get(name)
    return isinstance(given, ast.Constant) and given.value is value
