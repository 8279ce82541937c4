"""How a run ended, as one process tells it another: each round of `--fix` is a process of its own."""

from __future__ import annotations

import os
import pickle
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .types import Explanation


class Failure(NamedTuple):
    """An uncaught exception: its type, text, and the places of its traceback from the outermost in."""

    type: str
    message: str
    places: tuple[tuple[str, int], ...] = ()


@dataclass(repr=False, eq=False, slots=True)
class Outcome:
    """What a run explained, and what it died of; `status` is the exit status of its process."""

    explanations: list[Explanation] = field(default_factory=list)
    failure: Failure | None = None
    status: int = 0


def failure_of(exc: BaseException) -> Failure:
    """The plain data of an exception. Its text is read from `args`: no code of the user runs."""
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(exc.__traceback__)]
    if isinstance(exc, SyntaxError) and exc.filename and exc.lineno:
        places.append((str(exc.filename), int(exc.lineno)))
    texts = [text for text in BaseException.__dict__["args"].__get__(exc) if type(text) is str]
    return Failure(type(exc).__name__, " ".join(texts)[:2000], tuple(places))


def write(path: str, outcome: Outcome) -> None:
    """Leave `outcome` for the process that started this one; the ranks of a run all leave theirs in one file."""
    own = f"{path}.{os.getpid()}"
    with open(own, "wb") as file:
        pickle.dump(outcome, file)
    os.replace(own, path)


def read(path: str) -> Outcome:
    """What the run left; nothing explained when it left nothing, as after `os._exit` before any error."""
    try:
        with open(path, "rb") as file:
            outcome = pickle.load(file)
    except (OSError, EOFError, pickle.UnpicklingError):
        return Outcome()
    assert isinstance(outcome, Outcome)
    return outcome
