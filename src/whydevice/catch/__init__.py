"""Where an error can surface, one module each. `install` and `uninstall` put all of it in place and back."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def install(*, everywhere: bool = False) -> None:
    """Explain device errors wherever this process prints them. Calling it twice does no harm.

    With `everywhere`, the explanation is made while the exception passes through a module's call and travels
    on it as a note, so that frameworks that only format tracebacks show it too.
    """
    global _installed
    from . import excepthook, reporters, threads
    from .loading import when_loaded

    _installed = True
    excepthook.install()
    threads.install()
    reporters.install()
    when_loaded("torch._utils", _carry)
    when_loaded("whydevice.simulate.session", _tidy_formatted)
    _watch_children()
    if "IPython" in sys.modules:
        from . import notebook

        notebook.install()
    if everywhere:
        from . import everywhere as notes

        notes.install()


def _carry(_: ModuleType) -> None:
    from . import carried

    carried.install()


def _tidy_formatted(_: ModuleType) -> None:
    """Simulated CUDA puts entries of ours in what the user's own code catches and prints."""
    from . import formatting

    formatting.tidy()


_installed = False
_forks_watched = False


def _watch_children() -> None:
    """Now, for a spawned child that imports us; and after each fork, which cannot be unregistered."""
    global _forks_watched
    _child()
    if not _forks_watched and hasattr(os, "register_at_fork"):
        _forks_watched = True
        os.register_at_fork(after_in_child=_child)


def _child() -> None:
    if _installed and "multiprocessing.process" in sys.modules:
        from . import children

        children.watch()


def uninstall() -> None:
    """Put back every hook that is still ours."""
    global _installed
    from . import excepthook, reporters, threads
    from .loading import forget

    _installed = False
    excepthook.uninstall()
    threads.uninstall()
    reporters.uninstall()
    forget(_carry)
    forget(_tidy_formatted)
    for name in ("notebook", "everywhere", "formatting", "carried"):
        module = sys.modules.get(f"{__name__}.{name}")
        if module is not None:
            module.uninstall()


def wants_everywhere() -> bool:
    """True when the environment asks for `install(everywhere=True)`."""
    return os.environ.get("WHYDEVICE", "").strip().lower() == "everywhere"
