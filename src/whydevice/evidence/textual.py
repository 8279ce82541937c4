"""An error whose innermost frame is text only: what torch.compile and DataParallel's replicas tell of the user's code.

The file and line are read from the message. The function is found by its source among the modules and functions that
the live frame was calling, so `self` is known; its local variables are gone.
"""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..messages import frames_in_text
from . import values
from .calls import enter_method
from .evaluate import function_of
from .libraries import is_library
from .passive import bases, class_entries, code_file, code_name, lookup, named
from .scopes import Scope
from .sources import Source, Sources

if TYPE_CHECKING:
    from ..types import Place
    from .collect import Evidence

MOST_TRIED = 2_000


def innermost_in_text(evidence: Evidence) -> tuple[Scope, ast.AST] | None:
    """The scope and node that the message names as the user's innermost, when a live callable has them."""
    user, node = evidence.user, evidence.node
    if user is None or not isinstance(node, ast.Call):
        return None
    place = next(
        (p for p in reversed(frames_in_text(evidence.error.message)) if not is_library(p.file)), None
    )
    if place is None:
        return None
    for function, receiver in _callables(evidence):
        scope = _covering(function, receiver, place, node, user, evidence.sources)
        if scope is not None:
            found = _node(scope, place, evidence.error.message)
            return (scope, found) if found is not None else None
    return None


def _callables(evidence: Evidence) -> Iterator[tuple[types.FunctionType, Any]]:
    """The methods of the modules, and the functions, among the operands of the live call."""
    count = 0
    for one in evidence.leaves:
        if one.is_module:
            for _, sub in values.submodules(one.value):
                for base in bases(type(sub)):
                    for _, member in named(class_entries(base)):
                        count += 1
                        if count > MOST_TRIED:
                            return
                        if type(member) is types.FunctionType:
                            yield member, sub
        else:
            found = function_of(one.value)
            if found is not None:
                yield found
    for scope in evidence.scopes:
        for value in list(scope.globals.values())[:300]:
            compiled = lookup(values.instance_dict(value), "_torchdynamo_orig_callable")
            found = function_of(compiled if compiled is not None else value)
            if found is not None:
                yield found


def _covering(
    function: types.FunctionType, receiver: Any, place: Place, call: ast.Call, user: Scope, sources: Sources
) -> Scope | None:
    if code_file(function.__code__) != place.file or code_name(function.__code__) != place.function:
        return None
    source = sources.get(place.file, function.__globals__)
    node = (
        source.function_at(function.__code__.co_firstlineno, code_name(function.__code__)) if source else None
    )
    if node is None or not node.lineno <= place.line <= (node.end_lineno or 0):  # type: ignore[union-attr]
        return None
    if not values.is_module(receiver):
        return Scope(source, node, function.__globals__)  # type: ignore[arg-type]
    scope = enter_method(function, receiver, user, sources, call)
    if scope is not None and scope.parameters():
        scope.values[scope.parameters()[0].arg] = receiver
        scope.bound.pop(scope.parameters()[0].arg, None)
    return scope


def _node(scope: Scope, place: Place, text: str) -> ast.AST | None:
    """The node that the carets under the line mark, else what the statement evaluates."""
    statement = scope.source.statement_at(scope.node, place.line)
    if statement is None:
        return None
    marked = re.search(
        rf"line {place.line}, in [^\n]*\n([ \t]*)[^\n]*\n([ \t]*)(\^+)",
        text[text.rfind(f'"{place.file}", line {place.line}') :],
    )
    if marked is not None:
        found = _marked(scope.source, statement, place.line, len(marked[2]) - len(marked[1]), len(marked[3]))
        if found is not None:
            return found
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr):
        return statement.value or statement
    return statement


def _marked(source: Source, within: ast.AST, line: int, offset: int, width: int) -> ast.AST | None:
    text = source.line(line)
    start = len(text) - len(text.lstrip()) + offset
    for node in ast.walk(within):
        if isinstance(node, ast.expr) and node.lineno == line == node.end_lineno:
            if (source.column(node), source.end_column(node)) == (start, start + width):
                return node
    return None
