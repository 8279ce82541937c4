"""By which name a file reaches something of torch's (`nn.ModuleList`), and the import where it cannot."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator

from ..patterns import pattern
from ..source import EditError, Source
from ..types import Edit
from .scope import enclosing_function
from .statements import insert_at_suite_start, insert_before

_IMPORT = pattern(r"^[ \t\f]*(?:from|import)[ \t]+torch\b", re.MULTILINE)
_FIRST = pattern(r"^(?:from|import)[ \t]", re.MULTILINE)


def torch_name(source: Source, module: str, name: str, at: ast.AST) -> tuple[str, tuple[Edit, ...]]:
    """How code at the node `at` writes `module.name` (as `torch.nn`, `ModuleList`), and the edits needed for
    it.

    The file's own imports decide: the name itself, else an alias of its module, else an alias of a package
    above. With none of them, `from torch import nn` joins the edits.
    """
    found = _imports(source, at)
    if direct := found.get(f"{module}.{name}"):
        return direct, ()
    package, trail = module, name
    while package:
        if alias := found.get(package):
            return f"{alias}.{trail}", ()
        package, _, last = package.rpartition(".")
        trail = f"{last}.{trail}"
    package, _, last = module.rpartition(".")
    return f"{last}.{name}", _add_import(source, f"from {package} import {last}")


def _imports(source: Source, at: ast.AST) -> dict[str, str]:
    """What the imports that are visible at a node bind: dotted name to alias."""
    function = enclosing_function(source, at)
    found: dict[str, str] = {}
    for match in _IMPORT.finditer(source.text):
        line = source.line_at(match.end())
        for statement in ast.walk(source.tree_at(line)):
            if isinstance(statement, ast.Import | ast.ImportFrom) and statement.lineno == line:
                where = enclosing_function(source, statement)
                if where is None or where is function:
                    found.update(_bound(statement))
    return found


def _bound(statement: ast.Import | ast.ImportFrom) -> dict[str, str]:
    if isinstance(statement, ast.ImportFrom):
        return {f"{statement.module}.{alias.name}": alias.asname or alias.name for alias in statement.names}
    # `import torch.nn` binds `torch`; `import torch.nn as nn` binds the module itself.
    return {
        alias.name if alias.asname else alias.name.partition(".")[0]: alias.asname
        or alias.name.partition(".")[0]
        for alias in statement.names
    }


def _add_import(source: Source, text: str) -> tuple[Edit, ...]:
    """An import put before the first one of the file, else behind the docstring."""
    for statement in _top_level(source):
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if isinstance(statement, ast.Import | ast.ImportFrom) and not future:
            return insert_before(source, statement, text)
    if source.long:
        raise EditError("no import was found")  # and the docstring may be anything
    return insert_at_suite_start(source, source.tree, text)


def _top_level(source: Source) -> Iterator[ast.stmt]:
    """The statements of the module; of a long file, those of its imports that are not indented."""
    if not source.long:
        yield from source.tree.body
        return
    for match in _FIRST.finditer(source.text):
        line = source.line_at(match.start())
        with contextlib.suppress(EditError):
            yield from (s for s in source.tree_at(line).body if s.lineno == line)
