"""Edits of a call: a keyword added in the call's own layout, and the `_like` form of a factory."""

from __future__ import annotations

import ast

from ..source import EditError, Source
from ..types import Edit
from .tokens import Token, borrows_parentheses, line_end, opening, pieces, tokens

# torch's factories that have a `_like` form, and the place of the size among their arguments.
_LIKE = {"zeros": 0, "ones": 0, "rand": 0, "randn": 0, "empty": 0, "full": 0}


def add_keyword(
    source: Source, call: ast.Call, name: str, value: str, *, replace: bool = False
) -> tuple[Edit, ...]:
    """Add `name=value` to a call, before a final `**kwargs`, and on its own line where the arguments have
    theirs.

    With `replace`, a keyword of that name gets the new value. Nothing to do when the call has just this
    keyword. Raises EditError when it has the keyword with another value.
    """
    text = f"{name}={value}"
    for keyword in call.keywords:
        if keyword.arg == name:
            if source.segment(keyword) == text or source.segment(keyword.value) == value:
                return ()
            if not replace:
                raise EditError(f"the call in line {call.lineno} has a `{name}=` already")
            return (source.edit(*source.span(keyword), text),)
    found = tokens(source, *source.span(call))
    first = opening(found)
    inside = found[first + 1 : -1]
    if not inside:
        return _only_argument(source, found[first].end, found[-1].start, text)
    if len(call.args) == 1 and borrows_parentheses(source, call.args[0]):
        return (
            source.edit(inside[0].start, inside[0].start, "("),
            source.edit(inside[-1].end, inside[-1].end, f"), {text}"),
        )
    return _beside(source, found[first], inside, found[-1], text)


def _only_argument(source: Source, start: int, end: int, text: str) -> tuple[Edit, ...]:
    blank = source.text[start:end]
    return (
        source.edit(
            start, end if blank.isspace() and "\n" not in blank and "\r" not in blank else start, text
        ),
    )


def _beside(source: Source, opener: Token, inside: list[Token], closer: Token, text: str) -> tuple[Edit, ...]:
    arguments = pieces(inside)
    unpacked = len(arguments)
    while unpacked and arguments[unpacked - 1][0].text == "**":
        unpacked -= 1
    own_line = _one_a_line(source, opener, arguments)
    newline = source.newline_at(opener.start)
    if unpacked < len(arguments):
        start = arguments[unpacked][0].start
        indent = _indent(source, start)
        separator = f",{newline}{indent}" if own_line and indent is not None else ", "
        return (source.edit(start, start, text + separator),)
    end = inside[-1].end
    comma = inside[-1].text == ","
    if not own_line:
        return (source.edit(end, end, f" {text}," if comma else f", {text}"),)
    line = newline + (_indent(source, arguments[-1][0].start) or "") + text
    after = end if source.line_at(closer.start) == source.line_at(end) else line_end(source, end)
    if comma:
        return (source.edit(after, after, line + ","),)
    if not source.text[end:after].strip():
        return (source.edit(end, end, "," + line),)
    return source.edit(end, end, ","), source.edit(after, after, line)


def _one_a_line(source: Source, opener: Token, arguments: list[list[Token]]) -> bool:
    """Whether each argument starts a line; the first may follow the bracket when there are others."""
    starts = [_indent(source, argument[0].start) is not None for argument in arguments]
    first = source.line_at(arguments[0][0].start) != source.line_at(opener.start)
    return all(starts[1:]) and (first or len(arguments) > 1)


def _indent(source: Source, offset: int) -> str | None:
    """What stands before an offset in its line, when that is only white space."""
    head = source.text[source.line_start(source.line_at(offset)) : offset]
    return head if not head.strip() else None


def rename_to_like(source: Source, call: ast.Call) -> tuple[Edit, ...]:
    """`torch.randn(x.size())` as `torch.randn_like(x)`: it takes over the device, and the dtype where none is
    given.

    Raises EditError unless the size is exactly another tensor's, or when the call has a `device=` of its own.
    """
    function = call.func
    if not (
        isinstance(function, ast.Attribute)
        and function.attr in _LIKE
        and isinstance(function.value, ast.Name)
    ):
        raise EditError(f"the call in line {call.lineno} has no `_like` form")
    if any(keyword.arg in ("device", "out", "names", None) for keyword in call.keywords):
        raise EditError(f"the call in line {call.lineno} says where its result lies")
    wanted = 2 if function.attr == "full" else 1
    size: ast.expr
    node: ast.expr | ast.keyword
    named = [keyword for keyword in call.keywords if keyword.arg == "size"]
    if named:
        node, size = named[0], named[0].value
    elif call.args and len(call.args) == wanted:
        node = size = call.args[0]
    else:
        raise EditError(f"the size in line {call.lineno} is not exactly another tensor's")
    if named and (len(call.args) > 0 or function.attr == "full"):
        raise EditError(f"the size in line {call.lineno} is not exactly another tensor's")
    tensor = _sized(size)
    if tensor is None:
        raise EditError(f"the size in line {call.lineno} is not exactly another tensor's")
    end = source.end(function)
    return source.edit(end, end, "_like"), source.edit(*source.span(node), source.segment(tensor))


def _sized(size: ast.expr) -> ast.expr | None:
    """The tensor whose whole size an expression is: `x.size()`, `x.shape`, `*x.shape`."""
    if isinstance(size, ast.Starred):
        size = size.value
    if isinstance(size, ast.Call) and not size.args and not size.keywords:
        size = size.func
        wanted = "size"
    else:
        wanted = "shape"
    return size.value if isinstance(size, ast.Attribute) and size.attr == wanted else None
