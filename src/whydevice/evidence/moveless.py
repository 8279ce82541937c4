"""What has no `.to()`: a dict, a list, a tuple, None, as the live value, the literal or the function that gives it shows."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..source import EditError, Source
from . import values
from .calls import enter, returned
from .evaluate import try_evaluate
from .scopes import MISSING, Scope, bindings_of, reaching
from .vocabulary import MOVES

if TYPE_CHECKING:
    from .after import After
    from .sources import Sources

# Expressions whose value has no `.to()`.
LITERALS = (
    ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
    ast.Constant, ast.JoinedStr, ast.Lambda,
)  # fmt: skip
_MAPPINGS = frozenset("state_dict named_parameters named_buffers named_modules parameters buffers".split())
"""Methods of a module and an optimizer that give a dict, or an iterator."""
_BUILTINS = (dict, list, tuple, set, frozenset, zip, map, enumerate, sorted, range, str)
MOST_DEPTH = 4


def has_move(held: Any) -> bool:
    """Whether a value has a `.to()` of its own: a tensor, a module, an object whose class has one, or one not known."""
    if held is MISSING or values.is_tensor(held) or values.is_module(held):
        return True
    return values.class_attribute(type(held), "to") is not None


def moveless(node: ast.AST, scope: Scope, sources: Sources, depth: int = 0) -> bool:
    """Whether the value of an expression is known to have no `.to()`."""
    if isinstance(node, LITERALS):
        return True
    held = try_evaluate(node, scope)
    if held is not MISSING or depth > MOST_DEPTH:
        return not has_move(held)
    if isinstance(node, ast.IfExp):
        return moveless(node.body, scope, sources, depth) or moveless(node.orelse, scope, sources, depth)
    if isinstance(node, ast.Name):
        binding = reaching(scope.source, bindings_of(scope.node).get(node.id, []), node)
        if binding is None or binding.kind != "assign" or binding.path or binding.value is None:
            return False
        return moveless(binding.value, scope, sources, depth + 1)
    return isinstance(node, ast.Call) and _gives_none(node, scope, sources, depth)


def refuse(node: ast.expr, scope: Scope, sources: Sources) -> None:
    """Raise EditError for a move of what has none."""
    func = node.func if isinstance(node, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr in MOVES and moveless(func.value, scope, sources):
        raise EditError(f"`{ast.unparse(func.value)}` has no `.{func.attr}()`")


def refuse_edits(after: After, scopes: Sequence[Scope]) -> None:
    """Raise EditError where an edit puts a move behind an expression of the old text that is known to have none."""
    for edit in after.edits:
        if not any(f".{word}(" in edit.text for word in MOVES):
            continue
        begin, new, source = after.begin(edit), after.new[edit.file], after.old[edit.file]
        end = source.offset(edit.line, edit.column)
        for call in ast.walk(new.tree_at(new.line_at(begin))):
            func = call.func if isinstance(call, ast.Call) else None
            if not isinstance(func, ast.Attribute) or func.attr not in MOVES or new.end(func.value) != begin:
                continue
            text = ast.dump(func.value)
            for node in ast.walk(source.tree_at(edit.line)):
                if isinstance(node, ast.expr) and source.end(node) == end and ast.dump(node) == text:
                    _refuse_at(node, source, scopes, after.inference.sources)


def _refuse_at(node: ast.expr, source: Source, scopes: Sequence[Scope], sources: Sources) -> None:
    function = source.scope(node)
    own = [scope for scope in scopes if scope.source is source]
    live = next((scope for scope in own if scope.node is function), None)
    if live is None and own and function is not None:
        live = Scope(source, function, own[0].globals)
    if live is None:
        return
    if isinstance(node, ast.Name):
        if len(bindings_of(live.node).get(node.id, [])) + live.is_parameter(node.id) > 1:
            return  # it may have held something else there
    if moveless(node, live, sources):
        raise EditError(f"`{source.one_line(node)}` has no `.to()`")


def _gives_none(node: ast.Call, scope: Scope, sources: Sources, depth: int) -> bool:
    """Whether a call gives what has no `.to()`: by the class that it makes, or every `return` of the function."""
    made = try_evaluate(node.func, scope)
    if values.is_class(made):
        return any(made is each for each in _BUILTINS)
    if isinstance(node.func, ast.Attribute):
        if node.func.attr in MOVES:
            return False
        if node.func.attr in _MAPPINGS and made is MISSING:
            return True
    entered = enter(node, scope, sources)
    if entered is None or not isinstance(entered.node, ast.FunctionDef) or entered.node.decorator_list:
        return False
    given = returned(entered.node)
    return bool(given) and all(moveless(value, entered, sources, depth + 1) for value in given)
