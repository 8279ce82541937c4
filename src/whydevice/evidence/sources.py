"""Source files as syntax trees, found through the line cache and never executed.

Reading a frame needs three things that the standard library does not give in one place: the node at the position
that failed, the parent of a node, and the function that a code object was compiled from.
"""

from __future__ import annotations

import ast
import linecache
import os
from collections.abc import Iterator
from typing import Any

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ScopeNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.Module
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class SourceFile:
    """One file's lines and tree. `tree` is None when the text cannot be had or parsed."""

    def __init__(self, path: str, lines: list[str]) -> None:
        self.path = path
        self.lines = lines
        self.scopes: list[Any] = []  # those that read this file; they are released together
        self.tree: ast.Module | None = None
        self._parents: dict[ast.AST, ast.AST] = {}
        try:
            self.tree = ast.parse("".join(lines))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                # Operators and contexts are shared singletons: a parent of theirs would be any of many.
                if not isinstance(
                    child, ast.expr_context | ast.operator | ast.unaryop | ast.cmpop | ast.boolop
                ):
                    self._parents[child] = node

    def line(self, number: int) -> str:
        """The text of a line, without its newline; empty when there is no such line."""
        if 1 <= number <= len(self.lines):
            return self.lines[number - 1].rstrip("\r\n")
        return ""

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def adopt(self, node: ast.AST, parent: ast.AST) -> None:
        """Give a made-up node the place of a child of `parent`, so that its surroundings are found."""
        self._parents[node] = parent

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        here = self._parents.get(node)
        while here is not None:
            yield here
            here = self._parents.get(here)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement that holds the node (the node itself, if it is one)."""
        here: ast.AST | None = node
        while here is not None and not isinstance(here, ast.stmt):
            here = self._parents.get(here)
        return here

    def scope(self, node: ast.AST) -> ScopeNode | None:
        """The function, class or module whose body the node stands in."""
        for up in self.ancestors(node):
            if isinstance(
                up, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.Module
            ):
                return up
        return self.tree

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        for up in self.ancestors(node):
            if isinstance(up, ast.ClassDef):
                return up
            if isinstance(up, ast.FunctionDef | ast.AsyncFunctionDef) and up is not node:
                continue
        return None

    def text(self, node: ast.AST) -> str:
        """The node's source on one line."""
        if self.tree is None or not hasattr(node, "lineno"):
            return ""
        first, last = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
        start, end = self.column(node), self.end_column(node)
        if first == last:
            return self.line(first)[start:end]
        try:
            return ast.unparse(node)
        except (ValueError, RecursionError):
            return self.line(first)[start:].strip()

    def column(self, node: ast.AST) -> int:
        return self.characters(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end_column(self, node: ast.AST) -> int:
        return self.characters(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def characters(self, line: int, byte_column: int) -> int:
        """A column in characters, from the UTF-8 bytes in which `ast` and code objects count."""
        text = self.line(line)
        if text.isascii():
            return byte_column
        return len(text.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "replace"))

    def function_at(self, first_line: int, name: str) -> ScopeNode | None:
        """The function whose code object has this first line (of its first decorator, if any) and name."""
        if self.tree is None:
            return None
        if name == "<module>":
            return self.tree
        found: ScopeNode | None = None
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                starts = [node.lineno, *(d.lineno for d in node.decorator_list)]
                if node.name == name and first_line in starts:
                    return node
            elif isinstance(node, ast.Lambda) and name == "<lambda>" and node.lineno == first_line:
                found = found or node
        return found

    def node_at(
        self, within: ast.AST, line: int, end_line: int, column: int, end_column: int
    ) -> ast.AST | None:
        """The deepest expression, else statement, at exactly this range (columns in bytes)."""
        best: ast.AST | None = None
        stack: list[ast.AST] = [within]
        while stack:
            node = stack.pop()
            first = getattr(node, "lineno", None)
            last = getattr(node, "end_lineno", None)
            if first is not None and last is not None and not isinstance(node, ScopeNode):
                if first > end_line or last < line:
                    continue
                here = (first, last, node.col_offset, node.end_col_offset)  # type: ignore[attr-defined]
                if (here == (line, end_line, column, end_column) and not isinstance(best, ast.expr)) or (
                    here == (line, end_line, column, end_column) and isinstance(node, ast.expr)
                ):
                    best = node
            stack.extend(reversed(list(ast.iter_child_nodes(node))))
        return best

    def statement_at(self, within: ast.AST, line: int) -> ast.stmt | None:
        """The innermost statement on this line."""
        best: ast.stmt | None = None
        for node in ast.walk(within):
            if (
                isinstance(node, ast.stmt)
                and node.lineno <= line <= (node.end_lineno or node.lineno)
                and (best is None or node.lineno >= best.lineno)
            ):
                best = node
        return best


class Sources:
    """The files read for one explanation. Nothing is kept between explanations."""

    def __init__(self) -> None:
        self._files: dict[str, SourceFile | None] = {}

    def release(self) -> None:
        """Let go of all that was live, so that frames and tensors die with the error and not at some later gc."""
        for source in self._files.values():
            if source is not None:
                for scope in source.scopes:
                    scope.release()
                source.scopes = []
        self._files = {}

    def get(self, path: str, module_globals: dict[str, object] | None = None) -> SourceFile | None:
        """The file, or None when its text cannot be had or is no Python."""
        if path not in self._files:
            lines = linecache.getlines(path, module_globals)
            source = SourceFile(path, lines) if lines else None
            self._files[path] = source if source is not None and source.tree is not None else None
        return self._files[path]


def is_regular_file(path: str) -> bool:
    """Whether the code came from a file that can be edited (not a cell, not `exec`, not a zip)."""
    return not path.startswith("<") and os.path.isfile(path)
