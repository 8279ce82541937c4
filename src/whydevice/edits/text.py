"""A Python file's text as it is, and where an `ast` node lies in it.

Nothing is normalised: the encoding declaration, the byte order mark, form feeds, tabs and every line's own
ending stay. Offsets count characters from the start of the text; lines count from 1 and columns from 0, in
characters. `ast` counts columns in UTF-8 bytes, so its positions pass through `Source.offset_of` before use.
"""

from __future__ import annotations

import ast
import codecs
import io
import re
import sys
import tokenize
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from ..types import Edit

# What Python's tokenizer ends a line at. `str.splitlines` splits at form feeds and much of Unicode besides.
_NEWLINE = re.compile(r"\r\n|\r|\n")

# A line that can start a top-level statement; used to parse only a part of a very long file.
_TOP_LEVEL = re.compile(r"(?!(?:else|elif|except|finally)\b)[A-Za-z_@]")

# Above this, parsing a whole file takes longer than an explanation may (100 000 lines take about a second).
_LONG_FILE = 2500

Positioned = ast.stmt | ast.expr | ast.keyword | ast.arg | ast.excepthandler | ast.alias


class EditError(Exception):
    """An edit that cannot be made; the text is one plain sentence for the user."""


@dataclass(frozen=True, eq=False)
class Source:
    """A file's decoded text (without its byte order mark), with the positions in it.

    `raw` holds the bytes that were read, so that a later write can tell whether the file changed since; it is
    None for a text that has no file (a notebook cell).
    """

    path: str
    text: str
    encoding: str = "utf-8"
    bom: bool = False
    raw: bytes | None = field(default=None, repr=False)

    @classmethod
    def read(cls, path: str) -> Source:
        """Read a file in the encoding that it declares. Raises EditError when it cannot be read as Python
        source.
        """
        try:
            with open(path, "rb") as file:
                raw = file.read()
        except OSError as error:
            raise EditError(f"{path} cannot be read: {error.strerror}") from None
        return cls.from_bytes(path, raw)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> Source:
        """Decode `raw` as Python would decode the file. Raises EditError when Python would refuse it."""
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
            bom = raw.startswith(codecs.BOM_UTF8)
            text = raw[len(codecs.BOM_UTF8) if bom else 0 :].decode("utf-8" if bom else encoding)
        except (SyntaxError, UnicodeDecodeError, LookupError):
            raise EditError(f"{path} is not text in the encoding that it declares") from None
        return cls(path, text, "utf-8" if bom else encoding, bom, raw)

    @classmethod
    def from_text(cls, path: str, text: str) -> Source:
        """A text without a file behind it (or whose file is not to be looked at)."""
        bom = text.startswith("\ufeff")
        return cls(path, text[1:] if bom else text, bom=bom)

    def encode(self, text: str) -> bytes:
        """`text` as bytes in this file's encoding, with its byte order mark. Raises EditError when it does
        not fit.
        """
        try:
            data = text.encode(self.encoding)
        except UnicodeEncodeError:
            raise EditError(f"the edit does not fit the encoding of {self.path} ({self.encoding})") from None
        return codecs.BOM_UTF8 + data if self.bom else data

    # Lines

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """The offset of each line; the last is the end of the text when it ends in a newline."""
        return (0, *(match.end() for match in _NEWLINE.finditer(self.text)))

    @property
    def line_count(self) -> int:
        return len(self.line_starts)

    def line_span(self, line: int) -> tuple[int, int]:
        """The offsets of a line's start and of the end of its newline. Raises EditError for a line that is
        not there.
        """
        if not 1 <= line <= self.line_count:
            raise EditError(f"{self.path} has no line {line}")
        end = self.line_starts[line] if line < self.line_count else len(self.text)
        return self.line_starts[line - 1], end

    def line(self, line: int) -> str:
        """The text of a line without its newline."""
        start, end = self.line_span(line)
        return self.text[start:end].rstrip("\r\n")

    def line_at(self, offset: int) -> int:
        """The line in which an offset lies."""
        return bisect_right(self.line_starts, offset)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column (in characters) of an offset."""
        line = self.line_at(offset)
        return line, offset - self.line_starts[line - 1]

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and a column in characters. Raises EditError when it lies outside the line."""
        start, end = self.line_span(line)
        if not 0 <= column <= end - start:
            raise EditError(f"{self.path} has no column {column} in line {line}")
        return start + column

    def offset_of(self, line: int, byte_column: int) -> int:
        """The offset of a position as `ast` gives it: the column counts UTF-8 bytes."""
        text = self.line(line)
        if not text.isascii():
            head = text.encode("utf-8", "surrogatepass")[:byte_column]
            byte_column = len(head.decode("utf-8", "replace"))
        return self.offset(line, byte_column)

    @cached_property
    def newline(self) -> str:
        """The newline that most lines end in."""
        kinds = [match.group() for match in _NEWLINE.finditer(self.text)]
        return max(("\n", "\r\n", "\r"), key=kinds.count) if kinds else "\n"

    def newline_at(self, offset: int) -> str:
        """The newline in use around an offset: that of its line, of the line before, or the file's."""
        line = self.line_at(offset)
        for number in (line, line - 1):
            if number >= 1 and (found := _NEWLINE.search(self.text, *self.line_span(number))):
                return found.group()
        return self.newline

    def indentation(self, line: int) -> str:
        """The white space that a line starts with; what stands before a form feed does not count."""
        text = self.line(line)
        return text[: len(text) - len(text.lstrip(" \t\f"))].rpartition("\f")[2]

    @cached_property
    def indent_unit(self) -> str:
        """One level of indentation as this file writes it."""
        for line in self.text.splitlines():
            if found := re.match(r"(\t| {2,8})\S", line):
                return found.group(1)
        return "    "

    # Nodes

    def start(self, node: Positioned) -> int:
        """The offset at which a node starts; for a decorated definition, that of its first `@`."""
        decorators = getattr(node, "decorator_list", None)
        if not decorators:
            return self.offset_of(node.lineno, node.col_offset)
        first = self.start(decorators[0])
        at = self.text.rfind("@", 0, first)
        if at < 0:
            raise EditError(f"the decorator in line {decorators[0].lineno} cannot be found")
        return at

    def end(self, node: Positioned) -> int:
        """The offset just after a node."""
        if node.end_lineno is None or node.end_col_offset is None:
            raise EditError("the node has no end position")
        return self.offset_of(node.end_lineno, node.end_col_offset)

    def span(self, node: Positioned) -> tuple[int, int]:
        """The offsets of a node's start and end. Raises EditError inside an f-string before Python 3.12.

        The positions that older parsers give for what stands in an f-string are often wrong (bpo-35212).
        """
        if sys.version_info < (3, 12) and any(isinstance(n, ast.JoinedStr) for n in self.ancestors(node)):
            raise EditError(f"line {node.lineno} is inside an f-string, which Python 3.11 cannot place")
        return self.start(node), self.end(node)

    def segment(self, node: Positioned) -> str:
        """A node's text as written."""
        start, end = self.span(node)
        return self.text[start:end]

    def edit(self, start: int, end: int, text: str) -> Edit:
        """The edit that replaces what lies between two offsets."""
        return Edit(self.path, *self.position(start), *self.position(end), text)

    # Trees

    @cached_property
    def tree(self) -> ast.Module:
        """The whole file, parsed. Raises EditError when it does not parse."""
        return self._parse(self.text, 1)

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        return {}

    def _parse(self, text: str, first_line: int) -> ast.Module:
        try:
            with warnings.catch_warnings():
                # The script's own warnings (an invalid escape) were given when Python first compiled it.
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise EditError(f"{self.path} does not parse as Python") from None
        if first_line > 1:
            ast.increment_lineno(tree, first_line - 1)
        for parent in ast.walk(tree):
            for child in ast.iter_child_nodes(parent):
                self._parents[child] = parent
        return tree

    @cached_property
    def _chunks(self) -> dict[tuple[int, int], ast.Module]:
        return {}

    def tree_at(self, line: int) -> ast.Module:
        """The tree that holds a line: the whole file's, or, in a long file, that of its top-level statement
        alone.
        """
        if self.line_count <= _LONG_FILE or "tree" in self.__dict__:
            return self.tree
        for (first, last), tree in self._chunks.items():
            if first <= line < last:
                return tree
        for first, last in self._windows(line):
            text = self.text[self.line_starts[first - 1] : self.line_span(last - 1)[1]]
            try:
                tree = self._parse(text, first)
            except EditError:
                continue
            self._chunks[first, last] = tree
            return tree
        return self.tree

    def _windows(self, line: int) -> Iterator[tuple[int, int]]:
        """Ranges of lines around a line that can be whole top-level statements (the last line excluded).

        Several, because a line in a string can look like the start of a statement.
        """
        before = (n for n in range(line, 0, -1) if self._starts_statement(n))
        after = (n for n in range(line + 1, self.line_count + 1) if self._starts_statement(n))
        lasts = [*islice(after, 3), self.line_count + 1][:3]
        for first in [*islice(before, 3), 1][:3]:
            for last in lasts:
                yield first, last

    def _starts_statement(self, line: int) -> bool:
        if not _TOP_LEVEL.match(self.text, self.line_starts[line - 1]):
            return False
        return line == 1 or not self.text.startswith("@", self.line_starts[line - 2])

    def own(self, node: ast.AST) -> ast.AST:
        """The node of this source's own tree that stands where `node` stands.

        Nodes may come from another parse of the same text. Raises EditError when there is no such node.
        """
        if isinstance(node, ast.Module) or node in self._parents:
            return node
        line = getattr(node, "lineno", None)
        if line is not None:
            key = _key(node)
            for tree in (self.tree_at(line), self.tree):
                for other in ast.walk(tree):
                    if _key(other) == key:
                        return other
        raise EditError(f"the code at line {line} is not in {self.path}")

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that holds a node; None for the module."""
        return self._parents.get(self.own(node))

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that hold a node, from the inside out."""
        parent = self.parent(node)
        while parent is not None:
            yield parent
            parent = self._parents.get(parent)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds a node, or the node itself when it is one."""
        own = self.own(node)
        for candidate in (own, *self.ancestors(own)):
            if isinstance(candidate, ast.stmt):
                return candidate
        raise EditError("the node does not belong to a statement")


def _key(node: ast.AST) -> tuple[object, ...]:
    # The context tells `x` in `x = 1` from nothing else at the same place, but the type does: an expression
    # statement lies exactly where its value does.
    return (
        type(node),
        getattr(node, "lineno", None),
        getattr(node, "col_offset", None),
        getattr(node, "end_lineno", None),
        getattr(node, "end_col_offset", None),
    )
