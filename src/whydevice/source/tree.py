"""A source file with its tree: the node at a position, the parent of a node, the function of a code object."""

from __future__ import annotations

import ast
import contextlib
import re
import sys
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from . import parts
from .nodes import Positioned, ScopeNode, children, first_line, key, walk
from .parsed import LongModule, Parsed
from .text import EditError


class Source(Parsed):
    """A Python file's text with its tree; nodes belong to this source or are found in it by their place.

    Raises EditError where the text does not parse.
    """

    # Parents

    def _find(self, node: ast.AST) -> ast.AST | None:
        """The node of this source's own tree that stands where a node stands, if there is one."""
        if isinstance(node, ast.Module) or node in self._parents:
            return node
        line = getattr(node, "lineno", None)
        if line is None:
            return self._find_bare(node)
        try:
            tree = self.tree_at(line)
        except EditError:
            return None
        around = self._around(tree.body, node)
        if not self.long:
            self._parents.update(dict.fromkeys(around, tree))
        if any(self._reaches(statement, node) for statement in around):
            return node
        for statement in around:
            self._index(statement)  # in an f-string, Python before 3.12 gives wrong places
        if node in self._parents:
            return node
        wanted = key(node)
        return next((other for s in around for other in walk(s) if key(other) == wanted), None)

    def _around(self, body: list[ast.stmt], node: ast.AST) -> list[ast.stmt]:
        """The statements of a body, in order, that hold a node's first line."""
        line = first_line(node)
        index = bisect_left(body, line, key=lambda s: s.end_lineno or s.lineno)
        found = []
        while index < len(body) and first_line(body[index]) <= line:
            found.append(body[index])
            index += 1
        return found

    def _find_bare(self, node: ast.AST) -> ast.AST | None:
        """A node that has no place (a `with` item, a clause of a comprehension): in the tree, or nowhere."""
        for tree in self.units() if self.long else [self.tree]:
            if not self.long:
                self._parents.update(dict.fromkeys(tree.body, tree))
            for statement in tree.body:
                self._index(statement)
        return node if node in self._parents else None

    def own(self, node: ast.AST) -> ast.AST:
        """The node of this source's own tree that stands where `node` stands.

        Nodes may come from another parse of the same text. Raises EditError when there is no such node.
        """
        found = self._find(node)
        if found is None:
            raise EditError(f"the code at line {getattr(node, 'lineno', '?')} is not in {self.path}")
        return found

    def adopt(self, node: ast.AST, parent: ast.AST) -> None:
        """Give a made-up node the place of a child of `parent`, so that its surroundings are found."""
        self._find(parent)
        self._parents[node] = parent

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that holds a node; None for the module, and for a node that is not in this file."""
        found = self._find(node)
        return None if found is None else self._parents.get(found)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that hold a node, from the inside out."""
        here = self.parent(node)
        while here is not None:
            yield here
            here = self._parents.get(here)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement that holds the node (the node itself, if it is one)."""
        if isinstance(node, ast.stmt):
            return node
        return next((up for up in self.ancestors(node) if isinstance(up, ast.stmt)), None)

    def scope(self, node: ast.AST) -> ScopeNode:
        """The function, class or module whose body the node stands in."""
        return next((up for up in self.ancestors(node) if isinstance(up, ScopeNode)), self.module)

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class in whose body, or in whose methods, the node stands."""
        return next((up for up in self.ancestors(node) if isinstance(up, ast.ClassDef)), None)

    # Nodes at places

    def function_at(self, line: int, name: str) -> ScopeNode | None:
        """The function whose code object has this first line (of its first decorator, if any) and name."""
        if name == "<module>":
            return self.module
        found: ScopeNode | None = None
        try:
            tree = self.tree_at(line)
        except EditError:
            return None
        for node in (n for s in tree.body if reaches(s, line) for n in walk(s)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                starts = [node.lineno, *(d.lineno for d in node.decorator_list)]
                if node.name == name and line in starts:
                    return node
            elif isinstance(node, ast.Lambda) and name == "<lambda>" and node.lineno == line:
                found = found or node
        return found

    def class_named(self, name: str) -> ast.ClassDef | None:
        """The first class of this name in the file."""
        for line in parts.class_lines(self, name):
            try:
                tree = self.tree_at(line)
            except EditError:
                continue
            for node in walk(tree):
                if isinstance(node, ast.ClassDef) and node.name == name:
                    return self.whole(node)
        return None

    def nodes_with(self, text: str) -> Iterator[ast.AST]:
        """Every node of the file; of a long one, those of the parts in which a text stands (the first hundred)."""
        if not self.long:
            yield from walk(self.tree)
            return
        found = islice(re.finditer(re.escape(text), self.text), 100)
        trees: dict[int, ast.Module] = {}
        for match in found:
            with contextlib.suppress(EditError):
                tree = self.tree_at(self.line_at(match.start()))
                trees[id(tree)] = tree
        for tree in trees.values():
            yield from walk(tree)

    def node_at(
        self, within: ast.AST, line: int, end_line: int, column: int, end_column: int
    ) -> ast.AST | None:
        """The deepest expression, else statement, at exactly this range (columns in bytes)."""
        best: ast.AST | None = None
        start = self._within(within, line)
        # Found this way, the node and its parents need not be looked for once more.
        inside = self._expand if self._find(start) is start else children
        # A part of a long file is no parent: its statements have the module's own.
        stack = list(reversed(children(start))) if start in self.units() else [start]
        while stack:
            node = stack.pop()
            first = getattr(node, "lineno", None)
            last = getattr(node, "end_lineno", None)
            if first is not None and last is not None:
                if last < line or (first > end_line and first_line(node) > end_line):
                    continue
                here = (first, last, node.col_offset, node.end_col_offset)  # type: ignore[attr-defined]
                if here == (line, end_line, column, end_column) and (
                    isinstance(node, ast.expr) or not isinstance(best, ast.expr)
                ):
                    best = node
            stack += reversed(inside(node))
        return best

    def statement_at(self, within: ast.AST, line: int) -> ast.stmt | None:
        """The innermost statement on this line."""
        best: ast.stmt | None = None
        for node in walk(self._within(within, line)):
            if (
                isinstance(node, ast.stmt)
                and node.lineno <= line <= (node.end_lineno or node.lineno)
                and (best is None or node.lineno >= best.lineno)
            ):
                best = node
        return best

    def _within(self, node: ast.AST, line: int) -> ast.AST:
        if not isinstance(node, LongModule):
            return node
        try:
            return self.tree_at(line)
        except EditError:
            return ast.Module([], [])

    # Places of nodes

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
        self.own(node)
        if self._in_f_string(node):
            raise EditError(f"line {node.lineno} is inside an f-string, which Python 3.11 cannot place")
        return self.start(node), self.end(node)

    def _in_f_string(self, node: ast.AST) -> bool:
        return sys.version_info < (3, 12) and any(isinstance(n, ast.JoinedStr) for n in self.ancestors(node))

    def segment(self, node: Positioned) -> str:
        """A node's text as written."""
        start, end = self.span(node)
        return self.text[start:end]

    def one_line(self, node: ast.AST) -> str:
        """The node's source on one line; empty for a node without a place."""
        if not isinstance(node, Positioned):
            return ""
        if node.lineno == node.end_lineno and not self._in_f_string(node):
            return self.line(node.lineno)[self.column(node) : self.end_column(node)]
        try:
            return ast.unparse(node)
        except (ValueError, RecursionError):
            return self.line(node.lineno)[self.column(node) :].strip()

    def column(self, node: ast.AST) -> int:
        """The column of a node's start, in characters."""
        return self.characters(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end_column(self, node: ast.AST) -> int:
        """The column just after a node, in characters."""
        return self.characters(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def reaches(statement: ast.stmt, line: int) -> bool:
    """Whether a statement has this line, its decorators included."""
    return first_line(statement) <= line <= (statement.end_lineno or statement.lineno)
