"""Whether a function's code was compiled from the source that its file has now.

A file that was edited while the program ran shows other names on the lines that failed; what is read from it would be
said of a program that never ran. Every name in the code has to be a word of the function's own lines.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable

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
    names = (*code.co_names, *code.co_varnames, *code.co_freevars)
    return all(_implied(name, text) for name in _not_in(text, names))


def _not_in(text: str, words: Iterable[str]) -> list[str]:
    """The words that do not stand in a text, or only as a part of longer ones. To split it all takes twice as long."""
    missing = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            end = at + len(word)
            before, after = text[at - 1 : at], text[end : end + 1]
            if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
                break
            at = text.find(word, at + 1)
        else:
            missing.append(word)
    return missing


def _implied(name: str, text: str) -> bool:
    """Whether a name that is not written comes from what is, or from the compiler."""
    if name.startswith((".", "__")) or not name.isascii():
        return True  # `.0` of a comprehension, `__class__` of super()
    if "." in name:
        return not _not_in(text, name.split("."))
    return name.startswith("_") and "__" in name and not _not_in(text, ["__" + name.partition("__")[2]])
