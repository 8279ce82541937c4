"""Whether the text on disk is the code that runs: a file may have changed since Python read it."""

from __future__ import annotations
import __future__

import ast
import warnings
from collections.abc import Iterator
from types import CodeType
from weakref import WeakKeyDictionary

from ..source import EditError, Source

_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag

# The alias under which pytest's assertion rewriting reaches its helpers (`_pytest/assertion/rewrite.py`).
_PYTEST = "@pytest_ar"


def runs_as(source: Source, code: CodeType) -> bool:
    """Whether a code object is what the source compiles to, at the same lines and columns.

    False also where that cannot be found out. Code with pytest's rewritten assertions counts when its names
    and lines are those of the source.
    """
    try:
        tree = source.tree if code.co_name == "<module>" else source.tree_at(code.co_firstlineno)
        module = _compiled(tree, code.co_filename, code.co_flags & _FUTURE)
    except (EditError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    alike = [
        other
        for other in _all(module)
        if (other.co_name, other.co_firstlineno) == (code.co_name, code.co_firstlineno)
    ]
    rewritten = _PYTEST in code.co_names
    return any(_same(code, other) or (rewritten and _rewritten(code, other)) for other in alike)


# Several functions of a file are compared, one after the other.
_modules: WeakKeyDictionary[ast.Module, tuple[str, int, CodeType]] = WeakKeyDictionary()


def _compiled(tree: ast.Module, name: str, flags: int) -> CodeType:
    known = _modules.get(tree)
    if known is None or known[:2] != (name, flags):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(tree, name, "exec", flags=flags, dont_inherit=True)
        known = _modules[tree] = (name, flags, code)
    return known[2]


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
