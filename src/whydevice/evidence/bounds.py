"""How much one explanation looks at: a clock, a count for each kind of scan, and what was left out.

Scans start at the failing call and go outward, so that what a bound cuts is what lies farthest from it. Counts come
first, so that the same failure is explained the same way on a slow machine; the clock, of this thread's own CPU time,
is for what no count foresaw.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

SECONDS = 2.0
"""After this much CPU time, scans of containers and module trees end where they are. Usual explanations take a hundredth."""
MOST_VISITS = 20_000
"""Items of containers and objects that are looked at in one explanation."""
MOST_CUTS = 3
_LOOKS = 256  # visits between two looks at the clock

T = TypeVar("T")


class Bounds:
    """The bounds of one explanation, and what was read of module trees within it: they are asked for again and again."""

    def __init__(self) -> None:
        self.end = time.thread_time() + SECONDS
        self.visits = 0
        self.late = False
        self.cuts: dict[str, None] = {}
        self._kept: dict[tuple[str, int], Any] = {}

    def visit(self) -> bool:
        """Count one more item; False once there were too many, or it took too long."""
        self.visits += 1
        if self.visits > MOST_VISITS:
            self.cut(f"only {MOST_VISITS:,} items of containers and objects were looked at")
            return False
        if self.visits % _LOOKS == 0 and time.thread_time() > self.end:
            self.late = True
            self.cut(f"the search was stopped after {SECONDS:g} s of computing")
        return not self.late

    def cut(self, what: str) -> None:
        """Note what was left out, in words for the report."""
        self.cuts.setdefault(what)

    def kept(self, kind: str, value: object, read: Callable[[Any], T]) -> T:
        """What `read(value)` gave when it was first asked in this explanation."""
        mark = (kind, id(value))
        if mark not in self._kept:
            # The value stays alive with the answer, so that its id means it.
            self._kept[mark] = (value, read(value))
        answer: T = self._kept[mark][1]
        return answer

    def release(self) -> None:
        self._kept.clear()

    def notes(self) -> tuple[str, ...]:
        """What was left out, as sentences; at most three."""
        told = [f"{what[0].upper()}{what[1:]}." for what in self.cuts]
        return tuple(told[:MOST_CUTS])


_current: ContextVar[Bounds | None] = ContextVar("whydevice_bounds", default=None)


@contextmanager
def bounded() -> Iterator[Bounds]:
    """The bounds of one explanation, in force until it ends."""
    bounds = Bounds()
    token = _current.set(bounds)
    # A collection would run the `__del__` of the user's garbage in the middle of it, and look at a whole model's objects.
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield bounds
    finally:
        if collecting:
            gc.enable()
        _current.reset(token)
        bounds.release()


def current() -> Bounds | None:
    """The bounds in force, if an explanation is being made."""
    return _current.get()


def visit() -> bool:
    """Count one more item of a container; False when no more are to be looked at. True outside an explanation."""
    bounds = _current.get()
    return bounds is None or bounds.visit()


def at_most(count: int) -> int:
    """A count that holds within an explanation; elsewhere (`audit`), where all was asked for, there is none."""
    return count if _current.get() is not None else sys.maxsize


def cut(what: str) -> None:
    """Note what was left out of the explanation that is being made."""
    bounds = _current.get()
    if bounds is not None:
        bounds.cut(what)


def kept(kind: str, value: object, read: Callable[[Any], T]) -> T:
    """`read(value)`, once for each value in an explanation."""
    bounds = _current.get()
    return read(value) if bounds is None else bounds.kept(kind, value, read)
