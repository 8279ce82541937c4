"""Edits of an expression: a method appended, a call around it, another text in its place."""

from __future__ import annotations

import ast

from ..source import EditError, Source
from ..types import Edit
from .tokens import borrows_parentheses, is_atom, opening, parentheses, skip_blank, tokens

# Where any expression but a tuple, a walrus or a yield may stand without parentheses of its own.
_ROOMY = (
    ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr, ast.keyword, ast.Call, ast.List, ast.Set,
    ast.Tuple, ast.Subscript, ast.For, ast.If, ast.While, ast.Dict,
)  # fmt: skip


def append_method(source: Source, node: ast.expr, method: str) -> tuple[Edit, ...]:
    """Append `method` (as `.to(device)`) to an expression, with parentheses where its kind needs them.

    Nothing to do when it follows already. Raises EditError for what has no value of its own: a starred
    argument, a slice, the target of an assignment.
    """
    _must_be_value(node)
    start, end = source.span(node)
    groups = parentheses(source, node)
    inner = source.start(node) + 1, source.end(node) - 1
    if borrows_parentheses(source, node):
        end = _last_token_end(source, *inner)
        return source.edit(inner[0], inner[0], "("), source.edit(end, end, ")" + method)
    if is_atom(source, node):
        return _append(source, end, method)
    if groups:
        return _append(source, groups[0][1], method)
    return source.edit(start, start, "("), source.edit(end, end, ")" + method)


def _append(source: Source, offset: int, method: str) -> tuple[Edit, ...]:
    if source.text.startswith(method, skip_blank(source, offset, lines=False)):
        return ()
    return (source.edit(offset, offset, method),)


def wrap_call(source: Source, node: ast.expr, function: str) -> tuple[Edit, ...]:
    """Put `function(...)` around an expression; nothing to do when it is there already."""
    _must_be_value(node)
    parent = source.parent(node)
    if isinstance(parent, ast.Call) and parent.args == [source.own(node)] and not parent.keywords:
        if source.segment(parent.func) == function:
            return ()
    start, end = source.span(node)
    opener, closer = function + "(", ")"
    if borrows_parentheses(source, node):
        start += 1
        end = _last_token_end(source, start, end - 1)
    elif isinstance(node, ast.Yield | ast.YieldFrom) or (
        isinstance(node, ast.Tuple) and not is_atom(source, node)
    ):
        opener, closer = function + "((", "))"
    return source.edit(start, start, opener), source.edit(end, end, closer)


def replace_node(source: Source, node: ast.expr | ast.keyword, text: str) -> tuple[Edit, ...]:
    """Put `text` in the place of an expression, in parentheses where its new neighbours would tear it apart.

    The parentheses around the old expression stay. Raises EditError when `text` is no expression.
    """
    start, end = source.span(node)
    if isinstance(node, ast.keyword):
        return _replace(source, start, end, text)
    try:
        # In parentheses, a yield and a walrus are expressions too.
        new = ast.parse(f"({text.strip()}\n)", mode="eval").body
    except SyntaxError:
        raise EditError(f"`{text}` is not an expression") from None
    if borrows_parentheses(source, node):
        start, end = start + 1, end - 1
    elif not parentheses(source, node) and not _fits(source, node, new, text):
        text = f"({text})"
    return _replace(source, start, end, text)


def _replace(source: Source, start: int, end: int, text: str) -> tuple[Edit, ...]:
    """The edit, with a space where a word would run into a word: `f()if x` and `return[a]` need none before
    it.
    """
    if source.text[start:end] == text:
        return ()
    before, after = source.text[max(0, start - 1) : start], source.text[end : end + 1]
    if _word(before) and _word(text[:1]):
        text = " " + text
    if _word(after) and _word(text[-1:] or before):
        text += " "
    return (source.edit(start, end, text),)


def _word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _fits(source: Source, node: ast.expr, new: ast.expr, text: str) -> bool:
    """Whether the new text needs no parentheses where the node stands."""
    if _binds_tightest(new, text):
        return True
    if isinstance(new, ast.Yield | ast.YieldFrom | ast.NamedExpr | ast.Tuple | ast.Starred):
        return False
    parent, own = source.parent(node), source.own(node)
    if isinstance(parent, ast.Call):
        return own is not parent.func
    if isinstance(parent, ast.Subscript):
        return own is not parent.value
    return isinstance(parent, _ROOMY)


def _binds_tightest(new: ast.expr, text: str) -> bool:
    """Whether an attribute behind the text would be that of the whole expression."""
    try:
        attribute = ast.parse(f"({text.strip()}.x)", mode="eval").body
    except SyntaxError:
        return False
    return isinstance(attribute, ast.Attribute) and ast.dump(attribute.value) == ast.dump(new)


def delete_method_call(source: Source, call: ast.Call) -> tuple[Edit, ...]:
    """Take the last method call off a chain: `x.cpu().numpy()` without its `.cpu()`.

    A dot that starts its own line takes its line with it. Raises EditError when `call` is not a method call.
    """
    if not isinstance(call.func, ast.Attribute):
        raise EditError(f"line {call.lineno} calls no method that could be taken out")
    found = tokens(source, *source.span(call))
    dot = opening(found) - 2
    if dot < 1 or found[dot].text != "." or found[dot + 1].text != call.func.attr:
        raise EditError(f"the method call in line {call.lineno} is in parentheses of its own")
    before, start = found[dot - 1].end, found[dot].start
    gap = source.text[before:start]
    if "#" not in gap:
        start = before
    elif source.text[source.end(call) :].startswith(("\n", "\r")):
        # A comment between is the receiver's own and stays; the call leaves no blank line behind it.
        start = before + len(gap.rstrip())
    return _replace(source, start, source.end(call), "")


def _must_be_value(node: ast.expr) -> None:
    if isinstance(node, ast.Starred | ast.Slice):
        raise EditError(
            f"line {node.lineno} has a starred argument or a slice there, which is no value of its own"
        )
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        raise EditError(
            f"line {node.lineno} assigns to `{ast.unparse(node)}` there; it is not a value that is used"
        )


def _last_token_end(source: Source, start: int, end: int) -> int:
    """The end of the last token between two offsets; what follows is white space and comments."""
    found = tokens(source, start, end)
    if not found:
        raise EditError("there is nothing between the brackets")
    return found[-1].end
