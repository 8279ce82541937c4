"""Whether a function's code was compiled from the source that its file has now.

A file that was edited while the program ran shows other names on the lines that failed; what is read from it would be
said of a program that never ran. Every name in the code has to be a word of the function's own lines.
"""

from __future__ import annotations

import ast
import types

from ..source import Source

MOST_LINES = 2_000
"""Of a function that is looked at; a longer one is taken as it is."""


def is_source_of(source: Source, node: ast.AST, code: types.CodeType) -> bool:
    """False where the code has a name or a line that the node's lines do not have."""
    last = getattr(node, "end_lineno", None)
    if isinstance(node, ast.Module) or last is None:
        return True  # a module's names are those of the whole file, which is not read for this
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])  # type: ignore[attr-defined]
    lines = [line for _, _, line in code.co_lines() if line is not None]
    if lines and not (first <= min(lines) and max(lines) <= last):
        return False
    if last - first > MOST_LINES or any(name.startswith("@") for name in code.co_varnames):
        return True  # the latter was rewritten by pytest, which adds names of its own
    text = source.text[source.line_span(first)[0] : source.line_span(last)[1]]
    return all(_written(name, text) for name in (*code.co_names, *code.co_varnames, *code.co_freevars))


def _written(name: str, text: str) -> bool:
    if _has_word(text, name) or name.startswith((".", "__")) or not name.isascii():
        return True  # also what the compiler adds: `.0` of a comprehension, `__class__` of super()
    if "." in name:
        return all(_has_word(text, part) for part in name.split("."))
    return name.startswith("_") and "__" in name and _has_word(text, "__" + name.partition("__")[2])


def _has_word(text: str, word: str) -> bool:
    """Whether a word stands in a text, and not only as a part of longer ones. Splitting it all takes five times as long."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not (_in_word(text[at - 1 : at]) or _in_word(text[end : end + 1])):
            return True
        at = text.find(word, at + 1)
    return False


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_"
