"""The trees of a source file.

A file of usual length is parsed once, whole. Of a long one only what is asked for is parsed: the function that
holds a line (`parts.units`), and of the module's own code what belongs to what was read (`outline`).
"""

from __future__ import annotations

import ast
import os
import re
import warnings
import weakref
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..patterns import pattern
from . import parts
from .nodes import (
    PLACELESS,
    children,
    first_line,
    has_walrus,
    holds,
    key,
    note_no_walrus,
    note_walrus,
)
from .outline import Outline
from .text import EditError, Text, TooLong

LONG = 1500
"""Lines above which a file is parsed in parts: a whole one of 30 000 lines takes a second or more."""

MOST_CODE = 250_000
"""Characters of code, strings not counted, that are parsed at once: some 8 000 lines. More takes seconds."""

_STRING = pattern(
    r"(?P<triple>\"\"\"|''')(?:[^\\]|\\.)*?(?P=triple)|\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+\"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'",
    re.DOTALL,
)
_FAR = 50
"""Empty lines for which one line of code can be moved."""
_PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)


class LongModule(ast.Module):
    """The module of a long file. Its body is what belongs to what was read of the file so far; it only grows."""

    def __init__(self, source: Parsed) -> None:
        self.source = weakref.ref(
            source
        )  # which holds us: all of it has to die without the garbage collector
        self.type_ignores = []

    @property
    def body(self) -> list[ast.stmt]:  # type: ignore[override]
        source = self.source()
        return source.relevant() if source is not None else []


@dataclass(repr=False, eq=False)
class Parsed(Text):
    """A Python file's text with its trees. Raises EditError where the text does not parse."""

    scopes: list[Any] = field(
        default_factory=list, repr=False
    )  # those that read this file; released together
    most_whole: int = LONG  # lines of a file that is parsed whole
    _parents: dict[ast.AST, ast.AST] = field(default_factory=dict, repr=False)
    _indexed: set[ast.stmt] = field(default_factory=set, repr=False)
    _units: dict[tuple[int, int], ast.Module] = field(default_factory=dict, repr=False)
    _classes: dict[int, ast.ClassDef] = field(default_factory=dict, repr=False)
    _whole: set[ast.ClassDef] = field(default_factory=set, repr=False)
    _refused: dict[tuple[int, int], tuple[int, str]] = field(default_factory=dict, repr=False)

    # Parsing

    @cached_property
    def long(self) -> bool:
        """Whether the file is parsed in parts (never one whose lines end in a lone carriage return)."""
        over = self.line_count > self.most_whole or len(self.text) > MOST_CODE
        return over and not self.line_index.lone_returns

    @cached_property
    def tree(self) -> ast.Module:
        """The whole file, parsed."""
        self._bound(1, self.line_count, self.text)
        return self._parse(self.text)

    @cached_property
    def module(self) -> ast.Module:
        """The module as a scope: of a long file, only a part of its statements."""
        if not self.long:
            return self.tree
        return LongModule(self)

    def tree_at(self, line: int) -> ast.Module:
        """A tree that holds a line: the whole file's, or, of a long file, that of the function or statement there."""
        if not self.long:
            return self.tree
        if (known := self._read_at(line)) is not None:
            return known
        if not 1 <= line <= self.line_count:
            raise EditError(f"{self.path} has no line {line}")
        for first, last, header in parts.units(self, line):
            try:
                unit = self._unit(first, last, header)
            except EditError:
                continue
            return unit
        return self._unit(1, self.line_count + 1, None)

    def readable(self, line: int) -> bool:
        """Whether the part of the file that holds a line parses, and is not too long for it."""
        try:
            self.tree_at(line)
        except EditError:
            return False
        return True

    def _read_at(self, line: int) -> ast.Module | None:
        return next((unit for (first, last), unit in self._units.items() if first <= line < last), None)

    def read_lines(self, first: int, last: int) -> ast.Module:
        """The tree of whole top-level statements, from a line up to another."""
        return self._read_at(first) or self._unit(first, last, None)

    def _unit(self, first: int, last: int, header: int | None) -> ast.Module:
        """Parse the lines from `first` up to `last`; with `header`, methods of the class whose header is there."""
        if (first, last) in self._units:
            return self._units[first, last]
        text = self._lines(first, last)
        self._bound(first, last - 1, text)
        if header is None:
            unit = self._parse_at(first, text)
            self._adopt_known(unit)
            self._parents.update(dict.fromkeys(unit.body, self.module))
        else:
            name = parts.class_name(self.line(header))
            unit = self._parse_at(first - 1, f"class {name}:\n{text}")
            cls = unit.body[0]
            if len(unit.body) != 1 or not isinstance(cls, ast.ClassDef):
                raise EditError("no methods")
            unit.body = [self._class_of(cls, header, last - 1)]
        self._units[first, last] = unit
        return unit

    def _class_of(self, part: ast.ClassDef, header: int, last: int) -> ast.ClassDef:
        """The one node of a class of which several parts may be read, with the members of this part."""
        cls = self._classes.get(header)
        if cls is None:
            cls = self._classes[header] = part
            cls.lineno, cls.col_offset, cls.end_col_offset = header, 0, 0
            self._parents[cls] = self.module
            members, cls.body = cls.body, []
        else:
            members = part.body
            note_walrus(cls, has_walrus(cls) or has_walrus(part))
        cls.end_lineno = max(last, cls.end_lineno or last)
        self._parents.update(dict.fromkeys(members, cls))
        self._indexed.discard(cls)
        cls.body = sorted([*cls.body, *members], key=first_line)
        return cls

    def whole(self, cls: ast.ClassDef) -> ast.ClassDef:
        """The class with all its members: of a long file, only a method of it may have been read so far."""
        if self._classes.get(cls.lineno) is not cls or cls in self._whole:
            return cls
        self._whole.add(cls)
        for first, last, header in parts.units(self, cls.lineno):
            if header is not None:
                continue
            try:
                text = self._lines(first, last)
                self._bound(first, last - 1, text)
                unit = self._parse_at(first, text)
            except EditError:
                continue
            full = next(
                (n for n in unit.body if isinstance(n, ast.ClassDef) and n.lineno == cls.lineno), None
            )
            if full is not None:
                self._complete(cls, full)
                break
        return cls

    def _complete(self, cls: ast.ClassDef, full: ast.ClassDef) -> None:
        known = {key(member): member for member in cls.body}
        members = [known.get(key(member), member) for member in full.body]
        for name in full._fields:
            setattr(cls, name, getattr(full, name))
        cls.body = members
        note_walrus(cls, has_walrus(full))
        cls.end_lineno, cls.end_col_offset = full.end_lineno, full.end_col_offset
        self._indexed.discard(cls)

    @property
    def unread(self) -> str | None:
        """What was asked for and is too long to be read, in words for the report: the smallest of it."""
        return min(self._refused.values())[1] if self._refused else None

    def _bound(self, first: int, last: int, text: str) -> None:
        """Raise TooLong for lines that are too long to be parsed."""
        if len(text) <= MOST_CODE:
            return
        lines = (first, last)
        if lines not in self._refused:
            size = len(text) - sum(len(match.group()) for match in _STRING.finditer(text))
            if size <= MOST_CODE:
                return
            last = first + text.rstrip().count("\n")
            one = first == last
            what = f"line {first:,}" if one else f"lines {first:,} to {last:,}"
            length = f"{size:,} characters of code"
            told = f"{what} of {os.path.basename(self.path)}, {length}, {'was' if one else 'were'} not read"
            self._refused[lines] = (size, told)
        raise TooLong(self._refused[lines][1])

    def _lines(self, first: int, last: int) -> str:
        end = self.line_start(last) if last <= self.line_count else len(self.text)
        return self.text[self.line_start(first) : end]

    def _adopt_known(self, unit: ast.Module) -> None:
        """Put the classes of which methods were read before in the place of their new twins."""
        for index, statement in enumerate(unit.body):
            cls = self._classes.get(statement.lineno)
            if isinstance(statement, ast.ClassDef) and cls is not None:
                if cls not in self._whole:
                    self._whole.add(cls)
                    self._complete(cls, statement)
                unit.body[index] = cls

    def _parse_at(self, first: int, text: str) -> ast.Module:
        """The tree of a part whose first line is this one of the file."""
        lines = text.count("\n")
        if first < _FAR or first < _FAR * lines:
            return self._parse("\n" * (first - 1) + text)
        # Reading empty lines takes longer here than to correct the places.
        tree = self._parse(text)
        ast.increment_lineno(tree, first - 1)
        return tree

    def _parse(self, text: str) -> ast.Module:
        try:
            with warnings.catch_warnings():
                # The script's own warnings (an invalid escape) were given when Python first compiled it.
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except _PARSE_ERRORS:
            raise EditError(f"{self.path} does not parse as Python") from None
        if ":=" not in text:
            note_no_walrus(tree)
        return tree

    def relevant(self) -> list[ast.stmt]:
        """The module's statements that belong to what was read of a long file."""
        return self._outline.grow(list(self._units))

    def units(self) -> list[ast.Module]:
        """The parts of a long file that were read."""
        return list(self._units.values())

    @cached_property
    def _outline(self) -> Outline:
        return Outline(self)

    # Parents: noted on the way down to a node that is asked for, for most nodes never are

    def _reaches(self, statement: ast.stmt, node: ast.AST) -> bool:
        """Whether the way from a statement down to a node's place leads to this very node."""
        if node in self._parents:
            return True
        start = (node.lineno, node.col_offset)  # type: ignore[attr-defined]
        end = (getattr(node, "end_lineno", None) or 0, getattr(node, "end_col_offset", None) or 0)
        here: ast.AST | None = statement
        while here is not None:
            inside = self._expand(here)
            if node in self._parents:
                return True
            here = next((each for each in inside if holds(each, start, end)), None)
        return False

    def _expand(self, node: ast.AST) -> list[ast.AST]:
        """Note the parent of each node in a node. What has no place (a `with` item) is expanded too, and left out."""
        inside = children(node)
        self._parents.update(dict.fromkeys(inside, node))
        if not any(type(each) in PLACELESS for each in inside):
            return inside
        placed = []
        for each in inside:
            if type(each) in PLACELESS:
                placed += self._expand(each)
            else:
                placed.append(each)
        return placed

    def _index(self, statement: ast.stmt) -> None:
        """Note the parent of each node in a statement."""
        if statement in self._indexed:
            return
        parents = self._parents
        self._indexed.add(statement)
        stack: list[ast.AST] = [statement]
        while stack:
            node = stack.pop()
            if inside := children(node):
                parents.update(dict.fromkeys(inside, node))
                stack += inside
