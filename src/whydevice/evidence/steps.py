"""The way of a value, from where it failed back to where it got its device."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from .libraries import is_library
from .scopes import MISSING, Scope
from .sources import is_cell, is_regular_file


@dataclass(repr=False, eq=False)
class Step:
    """One place on the way back.

    `kind` says what was seen there:
      use         the expression itself, where it failed
      assign      a name or attribute was bound (`name`); `node` is the value
      parameter   it came in as an argument (`name`); `node` is the caller's expression
      loop        it is the target of a loop; `node` is what is iterated over
      loader      the loop runs over a DataLoader or other source of batches
      item        it was put into a container (append, literal, item assignment); `node` is the item
      attribute   it is an attribute; `node` is the value assigned in the class
      return      a function of the user's returned it; `node` is the returned expression
      property    a property of the user's computed it
      factory     made by a factory call, `name` is torch's name of it
      constructor made by a call that makes CPU tensors and takes no device
      move        a `.to()`, `.cuda()` or `.cpu()` put it there
      construct   an object or module was constructed
      library     a library's function returned it
      derived     computed from other operands
      parameter-derived  computed from parameters
      buffer      registered as a buffer
      unknown     the trail ends
    """

    kind: str
    node: ast.AST
    scope: Scope
    name: str = ""
    stmt: ast.AST | None = None
    value: Any = MISSING
    owner: Any = MISSING
    path: tuple[int, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return self.scope.source.path

    @property
    def line(self) -> int:
        return int(getattr(self.node, "lineno", 0) or getattr(self.stmt, "lineno", 0) or 0)

    @property
    def library(self) -> bool:
        return is_library(self.file)

    @property
    def editable(self) -> bool:
        return not self.library and (is_regular_file(self.file) or is_cell(self.file))

    def text(self) -> str:
        return self.scope.source.one_line(self.node)


def return_step(value: ast.expr, scope: Scope) -> Step:
    """The step at which a function gave back (or yielded) this expression of its own."""
    return Step("return", value, scope, scope.function or "", scope.source.statement(value))
