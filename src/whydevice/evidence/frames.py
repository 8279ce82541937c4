"""From an exception to the frames it passed through, the user's told from the libraries'."""

from __future__ import annotations

import ast
import inspect
import os
import sys
import types
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from ..catch.prune import linked, traceback_of
from .bounds import cut
from .compiled import is_source_of
from .libraries import is_kernel, is_library, is_ours
from .passive import code_file, code_name, plain_text
from .sources import ScopeNode, Source, Sources

MOST_FRAMES = 400
OUTER_TURNS, INNER_TURNS = 4, 8
"""Of a recursion, as many of the outermost and of the innermost turns are looked at."""


@dataclass(repr=False, eq=False)
class LiveFrame:
    """A frame of the traceback, with the node that was being evaluated in it."""

    frame: types.FrameType
    line: int
    path: str
    function: str
    library: bool
    source: Source | None = None
    scope_node: ScopeNode | None = None
    node: ast.AST | None = None
    statement: ast.stmt | None = None
    positions: tuple[int | None, int | None, int | None, int | None] = (None, None, None, None)
    comprehension: bool = False
    extra: dict[str, object] = field(default_factory=dict)


def exceptions(exc: BaseException) -> Iterator[BaseException]:
    """The exception, those in its group, and those that it was raised from, each once, innermost causes last."""
    return linked(exc, everything=False)


def live_frames(exc: BaseException, sources: Sources) -> list[LiveFrame]:
    """The frames of an exception's traceback, outermost first; ours are left out."""
    found: list[LiveFrame] = []
    tb = traceback_of(exc)
    entries: list[types.TracebackType] = []
    while tb is not None:
        entries.append(tb)
        tb = tb.tb_next
    for entry in _few(entries):
        code = entry.tb_frame.f_code
        path = code_file(code)
        if not path.startswith("<") and not os.path.isabs(path):
            path = os.path.abspath(path)
        if is_ours(path) or path.startswith("<frozen"):
            continue
        found.append(
            LiveFrame(entry.tb_frame, entry.tb_lineno, path, plain_text(code.co_qualname), is_library(path))
        )
        found[-1].positions = _positions(code, entry.tb_lasti)
    _leave_out_kernels(found)
    for live in found:
        if not live.library:
            locate(live, sources)
    return found


def _leave_out_kernels(found: list[LiveFrame]) -> None:
    """Drop the frames of an operation that PyTorch computes in Python, as on `meta`: they are below the call that failed,
    where there are no frames when C++ computes it."""
    user = next((i for i in range(len(found) - 1, -1, -1) if not found[i].library), len(found))
    kernel = next((i for i in range(user + 1, len(found)) if is_kernel(found[i].path)), len(found))
    del found[kernel:]


def _few(entries: list[types.TracebackType]) -> list[types.TracebackType]:
    """The entries that are looked at: of a recursion its ends, and of the rest the innermost."""
    left: Counter[tuple[int, int]] = Counter((id(e.tb_frame.f_code), e.tb_lasti) for e in entries)
    total = Counter(left)
    found = []
    for entry in entries:
        mark = (id(entry.tb_frame.f_code), entry.tb_lasti)
        left[mark] -= 1
        if total[mark] - left[mark] <= OUTER_TURNS or left[mark] < INNER_TURNS:
            found.append(entry)
    if len(found) > MOST_FRAMES:
        found = found[-MOST_FRAMES:]
    if len(found) < len(entries):
        cut(f"{len(entries) - len(found):,} of {len(entries):,} frames were left out, those in between")
    return found


def _positions(code: types.CodeType, lasti: int) -> tuple[int | None, int | None, int | None, int | None]:
    return next(islice(code.co_positions(), lasti // 2, None), (None, None, None, None))


def locate(live: LiveFrame, sources: Sources) -> None:
    """Find the frame's function and the node that was being evaluated, where the source can be had."""
    if live.source is not None:
        return
    code = live.frame.f_code
    source = sources.get(code_file(code), live.frame.f_globals)
    if source is None:
        return
    live.source = source
    name = code_name(code)
    live.comprehension = name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
    within: ast.AST | None = (
        source.module if live.comprehension else source.function_at(code.co_firstlineno, name)
    )
    if within is None:
        return
    if not live.comprehension and not is_source_of(source, within, code):
        live.source = None  # the file has changed since: what it says now is not what runs
        return
    if source.long and not source.readable(live.line):
        live.source = None
        return
    line, end_line, column, end_column = live.positions
    if line is not None and end_line is not None and column is not None and end_column is not None:
        live.node = source.node_at(within, line, end_line, column, end_column)
    live.statement = (
        source.statement(live.node)
        if live.node is not None
        else source.statement_at(within, live.line)
        if live.line
        else None
    )
    if live.comprehension and live.node is not None:
        scope = source.scope(live.node)
        live.scope_node = scope
    else:
        live.scope_node = within if isinstance(within, ScopeNode) else None
    if live.node is None and live.statement is not None:
        live.node = _main_expression(live.statement)


def _main_expression(statement: ast.stmt) -> ast.AST:
    """Where no column is known: the expression that a simple statement evaluates."""
    if (
        isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr)
        and statement.value is not None
    ):
        return statement.value
    return statement


_OURS_ALONE = 3
"""References to a frame's copy of its locals: the frame's, a name's, and that of the call which counts them."""


def forget_locals(frame: types.FrameType) -> None:
    """Empty the copy of a function's locals that reading `f_locals` leaves on its frame before Python 3.13.

    The copy holds the exception that the function is handling, which holds the frame: a cycle. The frame's own
    variables stay as they are, and the next reader (a debugger) gets a new copy. A module's `f_locals` is no copy,
    and what the function has from `locals()` itself is the user's.
    """
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        copy = frame.f_locals
        if sys.getrefcount(copy) <= _OURS_ALONE:
            copy.clear()


def joined(outer: list[LiveFrame], inner: list[LiveFrame]) -> list[LiveFrame]:
    """The frames that led to the wrapping, then those of the error inside, from the frame that they share."""
    shared = {id(f.frame) for f in inner}
    before: list[LiveFrame] = []
    for live in outer:
        if id(live.frame) in shared:
            return [*before, *inner]
        before.append(live)
    return inner
