"""Which lines make the host and a GPU wait for each other: `--traffic`.

Counted per line of the user's: copies between devices, and the calls for which CUDA has to finish what it was given
(`.item()`, `.tolist()`, `print`, `bool()`, `nonzero`, indexing by a mask, `.to` without `non_blocking`).
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from .state import STATE
from .tags import read

Run = Callable[[tuple[Any, ...], dict[str, Any]], Any]

# Ops whose result has a size or a value that only the finished computation tells.
_WAITS = {
    "_local_scalar_dense": "a value read on the host (.item(), float(), bool())",
    "nonzero": "nonzero (its size depends on values)",
    "masked_select": "masked_select (its size depends on values)",
    "_unique2": "unique (its size depends on values)",
    "unique_dim": "unique (its size depends on values)",
    "unique_consecutive": "unique (its size depends on values)",
    "repeat_interleave": "repeat_interleave (its size depends on values)",
    "bincount": "bincount (its size depends on values)",
    "equal": "equal (compared on the host)",
    "is_nonzero": "a value read on the host (bool())",
}
_MASKS = (torch.bool, torch.uint8)


class Traffic:
    """The counts of one simulation."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, int, str]] = Counter()

    def watch(self, func: Any, run: Run) -> Run:
        """`run`, counting what it makes wait."""
        name = func._schema.name.removeprefix("aten::")
        if name in _WAITS:
            return self._waiting(_WAITS[name], run)
        if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
            return self._masked(run)
        if name in ("_to_copy", "copy_"):
            return self._copying(run)
        return run

    def note(self, what: str) -> None:
        """Count something for the innermost line that is the user's."""
        file, line = _user_line()
        self.counts[(file, line, what)] += 1

    def _waiting(self, what: str, run: Run) -> Run:
        def counted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if any(isinstance(a, torch.Tensor) and read(a) > 0 for a in args):
                self.note(what)
            return run(args, kwargs)

        return counted

    def _masked(self, run: Run) -> Run:
        def counted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if read(args[0]) > 0:
                for index in args[1]:
                    if index is not None and index.dtype in _MASKS:
                        self.note("indexing by a mask (its size depends on values)")
                    elif index is not None and read(index) <= 0 and index.dim():
                        self.note("an index copied from cpu to the GPU")
            return run(args, kwargs)

        return counted

    def _copying(self, run: Run) -> Run:
        def counted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            subject = args[0]
            before = read(args[1] if len(args) > 1 and isinstance(args[1], torch.Tensor) else subject)
            out = run(args, kwargs)
            after = read(out)
            if before != after and max(before, after) > 0 and min(before, after) >= 0:
                free = kwargs.get("non_blocking") or (len(args) > 2 and args[2] is True)
                place = _place(before), _place(after)
                waits = "" if free else ", the host waits"
                self.note(f"a copy from {place[0]} to {place[1]}{waits}")
            return out

        return counted

    def text(self) -> str | None:
        """The report, busiest lines first; None when nothing crossed."""
        if not self.counts:
            return None
        lines = ["whydevice: traffic between host and GPU, by line"]
        order = sorted(self.counts.items(), key=lambda entry: (-entry[1], entry[0]))
        for (file, line, what), times in order:
            lines.append(f"  {file}:{line}: {times} x {what}")
        return "\n".join(lines)


def _place(tag: int) -> str:
    return "cpu" if tag <= 0 else f"cuda:{tag - 1}"


_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


def _user_line() -> tuple[str, int]:
    """The innermost frame outside torch, this package, the standard library and site-packages."""
    frame: Any = sys._getframe(1)
    fallback = ("<unknown>", 0)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_OWN, _TORCH, "<frozen")):
            if fallback[1] == 0:
                fallback = (_relative(file), frame.f_lineno)
            if "site-packages" not in file and "dist-packages" not in file and not file.startswith(_STANDARD):
                return _relative(file), frame.f_lineno
        frame = frame.f_back
    return fallback


_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


def _relative(file: str) -> str:
    """Relative to the working directory where the file lies below it."""
    base = os.getcwd() + os.sep
    return file[len(base) :] if file.startswith(base) else file


def note_print(tensor: Any) -> None:
    """A tensor on a GPU is printed: its values come to the host."""
    traffic = STATE.session.traffic if STATE.session is not None else None
    if traffic is not None and read(tensor) > 0:
        traffic.note("a tensor printed or read into Python (print, str(), .tolist())")
