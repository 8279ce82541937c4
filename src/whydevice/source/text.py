"""A Python file's text as it is, and where its lines lie in it.

Nothing is normalised: the encoding declaration, the byte order mark, form feeds, tabs and every line's own
ending stay. Offsets count characters from the start of the text; lines count from 1 and columns from 0, in
characters. `ast` and code objects count columns in UTF-8 bytes, so theirs pass through `Text.characters`.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
import tokenize
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from ..patterns import pattern
from ..types import Edit
from . import overlay
from .lines import NEWLINE, Lines

# A line one level in, as `indent_unit` looks for it.
_INDENTED = pattern(r"(?:\A|(?<=[\r\n\f]))(\t| {2,8})[^\s]")


MOST_BYTES = 10_000_000
"""Size of a file that is read."""


class EditError(Exception):
    """An edit that cannot be made, or a place that cannot be found; the text is one plain sentence for the user."""


class TooLong(EditError):
    """More text than is read; the text says which, for the report's notes."""


def _contents(path: str) -> bytes:
    """The bytes of a regular file. A pipe or a device that has taken its place by now is not waited for."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise EditError(f"{path} is no regular file")
        raw = b"" if status.st_size > MOST_BYTES else file.read(MOST_BYTES + 1)
    size = max(len(raw), status.st_size)
    if size > MOST_BYTES:
        raise TooLong(f"the file {os.path.basename(path)}, over {MOST_BYTES:,} bytes long, was not read")
    return raw


_AT_ONCE = getattr(os, "O_NONBLOCK", 0)


@dataclass(repr=False, eq=False)
class Text:
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
    def read(cls, path: str) -> Self:
        """Read a file in the encoding that it declares. Raises EditError when it cannot be read as Python
        source.
        """
        raw = overlay.bytes_of(path)
        try:
            if raw is None:
                raw = _contents(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise EditError(f"{path} cannot be read: {reason}") from None
        return cls.from_bytes(path, raw)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> Self:
        """Decode `raw` as Python would decode the file. Raises EditError when Python would refuse it."""
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
            bom = raw.startswith(codecs.BOM_UTF8)
            text = raw[len(codecs.BOM_UTF8) if bom else 0 :].decode("utf-8" if bom else encoding)
        except (SyntaxError, UnicodeDecodeError, LookupError):
            raise EditError(f"{path} is not text in the encoding that it declares") from None
        return cls(path, text, "utf-8" if bom else encoding, bom, raw)

    @classmethod
    def from_text(cls, path: str, text: str) -> Self:
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
    def line_index(self) -> Lines:
        return Lines(self.text)

    @property
    def line_count(self) -> int:
        """How many lines there are; behind a last newline one more, which is empty."""
        return self.line_index.count

    def line_start(self, line: int) -> int:
        """The offset of a line that is there."""
        return self.line_index.start(line)

    def line_span(self, line: int) -> tuple[int, int]:
        """The offsets of a line's start and of the end of its newline. Raises EditError for a line that is
        not there.
        """
        if not 1 <= line <= self.line_count:
            raise EditError(f"{self.path} has no line {line}")
        end = self.line_start(line + 1) if line < self.line_count else len(self.text)
        return self.line_start(line), end

    def line(self, line: int) -> str:
        """The text of a line without its newline; empty when there is no such line."""
        if not 1 <= line <= self.line_count:
            return ""
        start, end = self.line_span(line)
        return self.text[start:end].rstrip("\r\n")

    def line_at(self, offset: int) -> int:
        """The line in which an offset lies."""
        return self.line_index.at(offset)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column (in characters) of an offset."""
        line = self.line_at(offset)
        return line, offset - self.line_start(line)

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and a column in characters. Raises EditError when it lies outside the line."""
        start, end = self.line_span(line)
        if not 0 <= column <= end - start:
            raise EditError(f"{self.path} has no column {column} in line {line}")
        return start + column

    def offset_of(self, line: int, byte_column: int) -> int:
        """The offset of a position as `ast` gives it: the column counts UTF-8 bytes."""
        return self.offset(line, self.characters(line, byte_column))

    def characters(self, line: int, byte_column: int) -> int:
        """A column in characters, from the UTF-8 bytes in which `ast` and code objects count."""
        text = self.line(line)
        if text.isascii():
            return byte_column
        return len(text.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "replace"))

    @cached_property
    def newline(self) -> str:
        """The newline that most lines end in."""
        both = self.text.count("\r\n")
        counts = {
            "\n": self.text.count("\n") - both,
            "\r\n": both,
            "\r": self.text.count("\r") - both,
        }
        return max(counts, key=lambda kind: counts[kind])

    def newline_at(self, offset: int) -> str:
        """The newline in use around an offset: that of its line, of the line before, or the file's."""
        line = self.line_at(offset)
        for number in (line, line - 1):
            if number >= 1 and (found := NEWLINE.search(self.text, *self.line_span(number))):
                return found.group()
        return self.newline

    def indentation(self, line: int) -> str:
        """The white space that a line starts with; what stands before a form feed does not count."""
        text = self.line(line)
        return text[: len(text) - len(text.lstrip(" \t\f"))].rpartition("\f")[2]

    @cached_property
    def indent_unit(self) -> str:
        """One level of indentation as this file writes it."""
        found = _INDENTED.search(self.text)
        return found.group(1) if found else "    "

    def edit(self, start: int, end: int, text: str) -> Edit:
        """The edit that replaces what lies between two offsets."""
        return Edit(self.path, *self.position(start), *self.position(end), text)
