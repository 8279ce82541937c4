"""Edits of statements: put one in, take one out, move one, give one a target."""

from __future__ import annotations

import ast
import re

from ..patterns import pattern
from ..source import EditError, Source
from ..types import Edit
from .layout import header_end, indentation, layout, on_header_line, suite_of
from .scope import attributes_bound, attributes_read, binds, names_bound, names_read

_TYPE_COMMENT = pattern(r"[ \t\f]*#\s*type:")


def insert_after(source: Source, statement: ast.stmt, text: str) -> tuple[Edit, ...]:
    """Put `text` after a statement, on its own line, or behind a semicolon where the block stands on its
    header's line.

    `text` may hold several lines, indented from zero. Nothing to do when it stands there already.
    """
    suite, index = suite_of(source, statement)
    if _same(source, suite[index + 1 : index + 1 + _count(text)], text):
        return ()
    return (_after(source, statement, text),)


def _after(source: Source, statement: ast.stmt, text: str) -> Edit:
    place = layout(source, statement)
    suite, _ = suite_of(source, statement)
    if place.follower is not None or on_header_line(source, suite):
        return source.edit(place.end, place.end, "; " + _joined(text))
    return _line(source, place.after, text, indentation(source, statement))


def insert_before(source: Source, statement: ast.stmt, text: str) -> tuple[Edit, ...]:
    """Put `text` before a statement (and its decorators); nothing to do when it stands there already."""
    suite, index = suite_of(source, statement)
    if _same(source, suite[max(0, index - _count(text)) : index], text):
        return ()
    return (_before(source, statement, text),)


def _before(source: Source, statement: ast.stmt, text: str) -> Edit:
    place = layout(source, statement)
    suite, _ = suite_of(source, statement)
    if place.opened_by != "line" or on_header_line(source, suite):
        return source.edit(place.start, place.start, _joined(text) + "; ")
    return _line(source, place.line_start, text, indentation(source, statement))


def insert_at_suite_start(source: Source, node: ast.AST, text: str, suite: str = "body") -> tuple[Edit, ...]:
    """Put `text` first in a block (`body`, `orelse`, `finalbody`), after a docstring and `from __future__`
    imports.
    """
    block = getattr(source.own(node), suite, None)
    if not isinstance(block, list) or not block or not isinstance(block[0], ast.stmt):
        raise EditError(f"there is no `{suite}` to put a line into")
    skipped = _prologue(node, block)
    if _same(source, block[skipped : skipped + _count(text)], text):
        return ()
    if skipped:
        return insert_after(source, block[skipped - 1], text)
    if isinstance(node, ast.Module) or on_header_line(source, block):
        return insert_before(source, block[0], text)
    offset = header_end(source, node, block)
    if _TYPE_COMMENT.match(source.text, offset):
        offset = source.line_span(source.line_at(offset))[1]
    return (_line(source, offset, text, indentation(source, block[0])),)


def delete_statement(source: Source, statement: ast.stmt) -> tuple[Edit, ...]:
    """Take a statement out with its line (and the comment behind it); the only one of its block becomes
    `pass`.
    """
    place = layout(source, statement)
    suite, index = suite_of(source, statement)
    if len(suite) == 1 and not isinstance(source.parent(statement), ast.Module):
        return (source.edit(place.start, place.end, "pass"),)
    if place.follower is not None:
        return (source.edit(place.start, place.follower, ""),)
    if place.opened_by == "line":
        return (source.edit(place.line_start, place.after, ""),)
    return (source.edit(source.end(suite[index - 1]), place.end, ""),)


def assign_result(source: Source, statement: ast.stmt) -> tuple[Edit, ...]:
    """`x.to(device)` as `x = x.to(device)`.

    Raises EditError when the statement calls no method of a plain name, attribute or item, and when the name
    belongs to an enclosing function: assigning it would make it a new local, unbound where it is read
    (UnboundLocalError).
    """
    receiver: ast.expr | None = statement.value if isinstance(statement, ast.Expr) else None
    while isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute):
        receiver = receiver.func.value
    if receiver is None or not _is_place(receiver) or receiver is getattr(statement, "value", None):
        raise EditError(f"line {statement.lineno} calls no method of a name, attribute or item")
    if isinstance(receiver, ast.Name) and not binds(source, statement, receiver.id):
        raise EditError(f"`{receiver.id}` is not this function's own name in line {statement.lineno}")
    start = source.start(statement)
    return (source.edit(start, start, f"{source.segment(receiver)} = "),)


def _is_place(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_place(node.value) and isinstance(node.slice, ast.Constant | ast.Name)
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_place(node.value))


def move_statement(
    source: Source, statement: ast.stmt, *, after: ast.stmt | None = None, before: ast.stmt | None = None
) -> tuple[Edit, ...]:
    """Move a statement, with the comments directly above it, before or after another one of the same block.

    Nothing to do when it stands on the wanted side already. Raises EditError when a name or attribute that it
    needs is bound in between, or when one that it binds is read in between.
    """
    target = after or before
    if target is None or (after is not None and before is not None):
        raise ValueError("give either `after` or `before`")
    suite, index = suite_of(source, statement)
    other, goal = suite_of(source, target)
    if other is not suite:
        raise EditError(f"lines {statement.lineno} and {target.lineno} are not in the same block")
    if (after is not None and index >= goal) or (before is not None and index <= goal):
        return ()
    _check_order(
        statement,
        suite[goal:index] if before is not None else suite[index + 1 : goal + 1],
        before is not None,
    )
    place, aim = layout(source, statement), layout(source, target)
    alone = all(p.opened_by == "line" and p.follower is None for p in (place, aim))
    if not alone or on_header_line(source, suite):
        text = source.segment(statement)
        if re.search(r"[\r\n]", text):
            raise EditError(f"line {statement.lineno} shares a line with others and goes over several")
        insert = _after if after is not None else _before
        return (*delete_statement(source, statement), insert(source, target, text))
    start = _with_comments(source, place.line_start)
    block = source.text[start : place.after]
    newline = source.newline_at(place.start)
    offset = aim.after if after is not None else _with_comments(source, aim.line_start)
    if not block.endswith(("\n", "\r")):
        block += newline
    if offset == len(source.text) and not source.text.endswith(("\n", "\r")):
        block = newline + block.rstrip("\r\n")
    return source.edit(start, place.after, ""), source.edit(offset, offset, block)


def _check_order(statement: ast.stmt, passed: list[ast.stmt], upwards: bool) -> None:
    for other in passed:
        binding, reading = (other, statement) if upwards else (statement, other)
        clash = names_read(reading) & names_bound(binding)
        clash |= attributes_read(reading) & attributes_bound(binding)
        if clash:
            name = min(clash)
            raise EditError(
                f"`{name}` stands between lines {other.lineno} and {statement.lineno} and keeps their order"
            )


def _with_comments(source: Source, offset: int) -> int:
    """The start of the comment lines that stand directly above a line, at the same indentation; else the
    line's start.
    """
    line = source.line_at(offset)
    indent = source.indentation(line)
    while line > 1 and source.line(line - 1).startswith(indent + "#"):
        line -= 1
    return source.line_start(line)


def _line(source: Source, offset: int, text: str, indent: str) -> Edit:
    """The edit that puts lines in at a line's start, or behind the last line when that has no newline."""
    newline = source.newline_at(max(0, offset - 1))
    text = text.strip("\n")
    fixed = {
        row
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant | ast.JoinedStr)
        for row in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
    }
    lines = [
        indent + _reindent(line, source.indent_unit) if line.strip() and row not in fixed else line
        for row, line in enumerate(text.split("\n"), 1)
    ]
    if text.startswith(("def ", "async def ", "class ", "@")):
        lines.insert(0, "")  # as a definition is set off
    block = newline.join(lines)
    if offset == len(source.text) and source.text and not source.text.endswith(("\n", "\r")):
        return source.edit(offset, offset, newline + block)
    return source.edit(offset, offset, block + newline)


def _reindent(line: str, unit: str) -> str:
    body = line.lstrip(" ")
    levels, rest = divmod(len(line) - len(body), 4)
    return unit * levels + " " * rest + body


def _joined(text: str) -> str:
    """Simple statements on one line. Raises EditError for a compound one, which cannot follow a semicolon."""
    try:
        parsed = ast.parse(text).body
    except SyntaxError:
        raise EditError(f"`{text}` is not a statement") from None
    if any(hasattr(statement, "body") for statement in parsed):
        raise EditError("a block cannot follow on the line of another one's header")
    return "; ".join(ast.get_source_segment(text, statement) or "" for statement in parsed)


def _count(text: str) -> int:
    try:
        return len(ast.parse(text).body)
    except SyntaxError:
        raise EditError(f"`{text}` is not a statement") from None


def _same(source: Source, found: list[ast.stmt], text: str) -> bool:
    wanted = ast.parse(text).body
    return len(found) == len(wanted) and all(
        ast.dump(one) == ast.dump(other) for one, other in zip(found, wanted, strict=True)
    )


def _prologue(node: ast.AST, block: list[ast.stmt]) -> int:
    """How many statements must stay first in a block: the docstring, `from __future__` imports."""
    count = 0
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
        first = block[0]
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            count = 1
    while count < len(block):
        statement = block[count]
        if not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        count += 1
    return count
