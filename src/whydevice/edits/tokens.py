"""Tokens of a piece of source, and what they tell that `ast` does not: brackets, commas and comments.

`ast` drops the parentheses around an expression, so its positions alone do not say where `(a + b)` ends.
"""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from typing import NamedTuple

from ..source import EditError, Positioned, Source

_OPEN = {"(": ")", "[": "]", "{": "}"}
_LAYOUT = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.COMMENT,
}

# Expressions to which `.name` can be appended as they stand, without parentheses.
_ATOMS = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp,
    ast.DictComp, ast.JoinedStr,
)  # fmt: skip


class Token(NamedTuple):
    """A token, with offsets into the whole source."""

    type: int
    text: str
    start: int
    end: int


def tokens(source: Source, start: int, end: int) -> list[Token]:
    """The tokens between two offsets, without white space and comments. Raises EditError when they make no
    sense.

    The piece is read as if in parentheses, so that it may be a part of a statement that spans lines. Its
    brackets need not be closed.
    """
    first = source.line_at(start)
    # The tokenizer of Python 3.11 knows no lone carriage return.
    pieces = source.text[start:end].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    reader = io.StringIO("(" + "\n".join(pieces) + "\n").readline
    found: list[Token] = []
    try:
        for token in tokenize.generate_tokens(reader):
            if token.type in _LAYOUT:
                continue
            places = []
            for row, column in (token.start, token.end):
                places.append(start + column - 1 if row == 1 else source.line_start(first + row - 1) + column)
            found.append(Token(token.type, token.string, *places))
    except tokenize.TokenError:
        pass  # The parenthesis that we opened stays open: reported at the end, after all the tokens.
    except SyntaxError:
        raise EditError(f"line {first} of {source.path} cannot be split into tokens") from None
    return [token for token in found[1:] if token.text]


def opening(found: list[Token]) -> int:
    """The index of the bracket that the last token closes. Raises EditError when there is none."""
    depth = 0
    for index in range(len(found) - 1, -1, -1):
        token = found[index]
        if token.type == tokenize.OP and token.text in _OPEN.values():
            depth += 1
        elif token.type == tokenize.OP and token.text in _OPEN:
            depth -= 1
            if depth == 0:
                return index
    raise EditError("the call's brackets do not match")


def pieces(found: list[Token]) -> list[list[Token]]:
    """Tokens split at the commas that stand outside all brackets; a lambda's own commas do not count."""
    parts: list[list[Token]] = [[]]
    depth = 0
    lambdas = 0
    for token in found:
        if token.type == tokenize.OP and token.text in _OPEN:
            depth += 1
        elif token.type == tokenize.OP and token.text in _OPEN.values():
            depth -= 1
        elif depth == 0 and token.text == "lambda":
            lambdas += 1
        elif depth == 0 and token.text == ":" and lambdas:
            lambdas -= 1
        if depth == 0 and token.text == "," and not lambdas:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def skip_blank(source: Source, offset: int, *, lines: bool) -> int:
    """The offset of the next character that is not white space, a continuation or, with `lines`, a newline or
    comment.
    """
    text = source.text
    while offset < len(text):
        character = text[offset]
        if character in " \t\f":
            offset += 1
        elif character == "\\" and text[offset + 1 : offset + 2] in ("\n", "\r"):
            offset += 3 if text.startswith("\r\n", offset + 1) else 2
        elif lines and character in "\r\n":
            offset += 1
        elif lines and character == "#":
            offset = line_end(source, offset)
        else:
            break
    return offset


def line_end(source: Source, offset: int) -> int:
    """The offset at which the line of an offset ends, before its newline."""
    start, end = source.line_span(source.line_at(offset))
    return start + len(source.text[start:end].rstrip("\r\n"))


def parentheses(source: Source, node: Positioned) -> list[tuple[int, int]]:
    """The grouping parentheses around an expression, the innermost first, as the offsets just outside each
    pair.

    A call's parentheses do not group, and those of a tuple or a generator belong to the node itself.
    """
    start, end = source.span(node)
    statement = source.statement(node)
    if statement is None:
        raise EditError("the node does not belong to a statement")
    before = tokens(source, source.start(statement), start)
    found: list[tuple[int, int]] = []
    while before and before[-1].text == "(":
        close = skip_blank(source, end, lines=True)
        if not source.text.startswith(")", close) or (len(before) > 1 and _is_called(before[-2])):
            break
        end = close + 1
        found.append((before.pop().start, end))
    return found


def _is_called(token: Token) -> bool:
    if token.type == tokenize.NAME:
        return not keyword.iskeyword(token.text)
    return token.type != tokenize.OP or token.text in _OPEN.values()


def borrows_parentheses(source: Source, node: ast.expr) -> bool:
    """Whether a generator is a call's only argument: `ast` counts the call's parentheses as its own."""
    parent = source.parent(node)
    return (
        isinstance(node, ast.GeneratorExp)
        and isinstance(parent, ast.Call)
        and source.end(parent) == source.end(node)
    )


def is_atom(source: Source, node: ast.expr) -> bool:
    """Whether `.name` can follow the expression without parentheses around it."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bytes | bool | None)
    if isinstance(node, ast.Tuple):
        return (
            source.text.startswith("(", source.start(node))
            and source.text[source.end(node) - 1] == ")"
            and (opening(tokens(source, *source.span(node))) == 0)
        )
    if isinstance(node, ast.GeneratorExp):
        return not borrows_parentheses(source, node)
    return isinstance(node, _ATOMS)
