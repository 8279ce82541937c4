"""Signals that end the process: none leaves a half-written file, a temporary one, or a run that nobody waits for."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_ENDING = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]


class Ended(BaseException):
    """A signal told this process to end."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def held() -> Iterator[None]:
    """Hold back what would end the process until the block is done: for the writing of a file.

    Only the main thread can; a signal in another one ends the process as ever.
    """
    came: list[int] = []
    before: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                handler = signal.getsignal(number)
                if handler is not None and handler != signal.SIG_IGN:
                    before[number] = handler
                    signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


@contextmanager
def raised() -> Iterator[None]:
    """Raise Ended in the block for a signal that would end the process; it ends by that signal behind the block."""
    numbers = [n for n in _ENDING if signal.getsignal(n) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    try:
        for number in numbers:
            signal.signal(number, _raise)
        yield
    except Ended as ended:
        signal.signal(ended.number, signal.SIG_DFL)
        signal.raise_signal(ended.number)
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _raise(number: int, _: object) -> None:
    raise Ended(number)


def run(command: list[str], **streams: Any) -> tuple[int, bool]:
    """The exit status of a command, and whether a Ctrl-C came meanwhile: the command got it too, and ends as it wants.

    A signal that tells this process to end is passed on to the command, and Ended is raised once that has ended.
    """
    interrupted = False
    with subprocess.Popen(command, **streams) as process:
        while True:
            try:
                return process.wait(), interrupted
            except KeyboardInterrupt:
                interrupted = True
            except Ended as ended:
                process.send_signal(ended.number)
                process.wait()
                raise
