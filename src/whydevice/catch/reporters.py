"""What others report themselves: asyncio the errors of tasks, unittest those of tests, pdb and IPython theirs.

They are wrapped where they report, from when they are loaded; IPython's shells are watched when they are made.
"""

from __future__ import annotations

import sys

from .. import guard
from .loading import forget, when_loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def _asyncio(call_handler: Any) -> Any:
    """`BaseEventLoop.call_exception_handler`: the loop's handler reports, our block follows."""

    def explaining(self: Any, context: Any) -> Any:
        try:
            return call_handler(self, context)
        finally:
            if type(context) is dict:
                guard.show(context.get("exception"))
            del context

    return explaining


def _unittest(to_string: Any) -> Any:
    """`TestResult._exc_info_to_string`: our block is the end of what is printed for the test."""

    def explaining(self: Any, err: Any, test: Any) -> Any:
        parts: list[str] = []
        try:
            guard.tidy(err[1])
            parts.append(to_string(self, err, test))
            guard.show(err[1], lambda explanation: parts.append(f"\n{explanation}\n"))
        finally:
            del err
        return "".join(parts)

    return explaining


def _pdb(interaction: Any) -> Any:
    """`Pdb.interaction`: what a post-mortem session is about is explained before its first prompt."""

    def explaining(self: Any, frame: Any, *args: Any, **options: Any) -> Any:
        if frame is None:
            guard.show(sys.exc_info()[1])
        return interaction(self, frame, *args, **options)

    return explaining


def _ipython(init: Any) -> Any:
    """`InteractiveShell.__init__`: a shell that starts later, or is embedded, is watched like a running one."""

    def watched(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        guard.attempt(_watch, self)

    return watched


def _watch(shell: Any) -> None:
    from . import notebook

    notebook.load_ipython_extension(shell)


_REPORTERS: tuple[tuple[str, str, str, Callable[[Any], Any]], ...] = (
    ("asyncio.base_events", "BaseEventLoop", "call_exception_handler", _asyncio),
    ("unittest.result", "TestResult", "_exc_info_to_string", _unittest),
    ("pdb", "Pdb", "interaction", _pdb),
    ("IPython.core.interactiveshell", "InteractiveShell", "__init__", _ipython),
)


def _wrap(owner: str, name: str, wrapper: Callable[[Any], Any], module: ModuleType) -> None:
    where = getattr(module, owner, None)
    reporter = getattr(where, name, None)
    if reporter is not None and not hasattr(reporter, "__whydevice__"):
        wrapped = wrapper(reporter)
        wrapped.__name__, wrapped.__qualname__ = reporter.__name__, reporter.__qualname__
        wrapped.__doc__, wrapped.__whydevice__ = reporter.__doc__, reporter
        setattr(where, name, wrapped)


def _callback(owner: str, name: str, wrapper: Callable[[Any], Any]) -> Callable[[ModuleType], None]:
    return lambda module: _wrap(owner, name, wrapper, module)


_callbacks = [(module, _callback(owner, name, wrapper)) for module, owner, name, wrapper in _REPORTERS]


def install() -> None:
    for module, callback in _callbacks:
        when_loaded(module, callback)


def uninstall() -> None:
    for (module, owner, name, _), (_, callback) in zip(_REPORTERS, _callbacks, strict=True):
        forget(callback)
        where = getattr(sys.modules.get(module), owner, None)
        previous = getattr(getattr(where, name, None), "__whydevice__", None)
        if previous is not None:
            setattr(where, name, previous)
