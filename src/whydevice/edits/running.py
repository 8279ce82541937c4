"""Whether the text on disk is the code that runs: a file may have changed since Python read it."""

from __future__ import annotations
import __future__

import ast
import inspect
import re
import warnings
from collections.abc import Iterator
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

from ..patterns import pattern
from ..source import EditError, Source, TooLong
from ..source.nodes import first_line

_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag

# A line that imports, up to its end or to the closing parenthesis, and how far it is indented.
_IMPORT = pattern(r"([ \t]*)((?:import|from)[ \t](?:[^\n(\\#]|\\\n)*(?:\([^)]*\))?)")
_WORD = pattern(r"import[ \t(\\*]")  # found ten times as fast as the lines that start with it
_SCOPE = re.compile(r"(?:async[ \t]+def|def|class)\b")

# The alias under which pytest's assertion rewriting reaches its helpers (`_pytest/assertion/rewrite.py`).
_PYTEST = "@pytest_ar"


def runs_as(source: Source, code: CodeType) -> bool:
    """Whether a code object is what the source compiles to, at the same lines and columns.

    Code with pytest's rewritten assertions counts when its names and lines are those of the source.
    Raises EditError where that cannot be found out.
    """
    try:
        tree = source.tree if code.co_name == "<module>" else source.tree_at(code.co_firstlineno)
    except TooLong:
        raise
    except EditError:
        return False  # Python has read something else
    if source.long and not code.co_flags & inspect.CO_OPTIMIZED:
        _complete(source, tree, code.co_firstlineno)
    return any(module is not None and _found_in(module, code) for module in _compilations(source, tree, code))


def _complete(source: Source, tree: ast.Module, line: int) -> None:
    """Have the class whose header is on a line with all its members, of which only one may have been read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and first_line(node) <= line <= node.lineno:
            source.whole(node)
            _modules.pop(tree, None)


def _found_in(module: CodeType, code: CodeType) -> bool:
    alike = [
        other
        for other in _all(module)
        if (other.co_name, other.co_firstlineno) == (code.co_name, code.co_firstlineno)
    ]
    rewritten = _PYTEST in code.co_names
    return any(_same(code, other) or (rewritten and _rewritten(code, other)) for other in alike)


def _compilations(source: Source, tree: ast.Module, code: CodeType) -> Iterator[CodeType | None]:
    """What a tree compiles to. Of a part of a long file, also what it does in a module that imports what the file does.

    Python compiles `torch.ones(3)` otherwise where the module itself imports `torch` than where it does not.
    """
    name, flags = code.co_filename, code.co_flags & _FUTURE
    yield _compiled(tree, name, flags, frozenset())
    if source.long and tree is not source.module:
        yield _compiled(tree, name, flags, frozenset(_imported(source)))


def _imported(source: Source) -> Iterator[str]:
    """The names that the module itself imports, of a file that is not parsed whole."""
    for match in _imports(source.text):
        try:
            statement = ast.parse(match.group(2)).body[0]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # words in a string
        if isinstance(statement, ast.Import | ast.ImportFrom) and _of_module(source, match):
            names = {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
            yield from names - {"*"}


def _imports(text: str) -> Iterator[re.Match[str]]:
    """The lines that import, or look like it."""
    last = -1
    for word in _WORD.finditer(text):
        start = text.rfind("\n", 0, word.start()) + 1
        if start != last and (match := _IMPORT.match(text, start)):
            yield match
        last = start


def _of_module(source: Source, match: re.Match[str]) -> bool:
    """Whether an indented line is in no function and no class: what it is in, out to the margin, is only blocks."""
    indent = len(match.group(1))
    line = source.line_at(match.start())
    while indent and line > 1:
        line -= 1
        text = source.line(line)
        bare = text.lstrip(" \t")
        if bare and bare[0] not in "#)]}" and len(text) - len(bare) < indent:
            indent = len(text) - len(bare)
            if _SCOPE.match(bare):
                return False
    return True


# Several functions of a file are compared, one after the other.
_Compiled = dict[tuple[str, int, frozenset[str]], CodeType | None]
_modules: WeakKeyDictionary[ast.Module, _Compiled] = WeakKeyDictionary()


def _compiled(tree: ast.Module, name: str, flags: int, imports: frozenset[str]) -> CodeType | None:
    """The code of a tree; None for what is no program (`return` outside of a function)."""
    known = _modules.setdefault(tree, {})
    if (name, flags, imports) not in known:
        known[name, flags, imports] = _compile(_importing(tree, imports), name, flags)
    return known[name, flags, imports]


def _compile(tree: ast.Module, name: str, flags: int) -> CodeType | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            code: CodeType = compile(tree, name, "exec", flags=flags, dont_inherit=True)
            return code
        except (SyntaxError, ValueError):
            return None
        except (RecursionError, MemoryError):  # what CPython raises for code that is nested too deeply
            raise EditError(f"{name} is too deeply nested to be compiled") from None


def _importing(tree: ast.Module, names: frozenset[str]) -> ast.Module:
    """The same statements in a module that imports some names first."""
    if not names:
        return tree
    place: dict[str, Any] = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}
    first = ast.Import([ast.alias(name, **place) for name in sorted(names)], **place)
    return ast.Module([first, *tree.body], [])


def _all(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all(constant)


def _same(one: CodeType, other: CodeType) -> bool:
    if one == other and one.co_linetable == other.co_linetable:
        return True
    # co_code is the code as compiled, before the interpreter specialised it.
    facts = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount")
    if any(getattr(one, fact) != getattr(other, fact) for fact in facts):
        return False
    if list(one.co_positions()) != list(other.co_positions()) or len(one.co_consts) != len(other.co_consts):
        return False
    return all(_same_constant(a, b) for a, b in zip(one.co_consts, other.co_consts, strict=True))


def _same_constant(one: object, other: object) -> bool:
    if isinstance(one, CodeType) and isinstance(other, CodeType):
        return _same(one, other)
    # The repr tells 1 from 1.0 and True, and nan from nothing.
    return type(one) is type(other) and repr(one) == repr(other)


def _rewritten(one: CodeType, other: CodeType) -> bool:
    lines = {line for _, _, line in one.co_lines()}
    return set(other.co_names) - {"AssertionError"} <= set(one.co_names) and all(
        line in lines for _, _, line in other.co_lines()
    )
