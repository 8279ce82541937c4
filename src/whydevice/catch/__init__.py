"""Where an error can surface, one module each. `install` and `uninstall` put all of it in place and back."""

from __future__ import annotations

import os
import sys


def install(*, everywhere: bool = False) -> None:
    """Explain device errors wherever this process prints them. Calling it twice does no harm.

    With `everywhere`, the explanation is made while the exception passes through a module's call and travels
    on it as a note, so that frameworks that only format tracebacks show it too.
    """
    from . import excepthook, threads

    excepthook.install()
    threads.install()
    if "IPython" in sys.modules:
        from . import notebook

        notebook.install()
    if everywhere:
        from . import everywhere as notes

        notes.install()


def uninstall() -> None:
    """Put back every hook that is still ours."""
    from . import excepthook, threads

    excepthook.uninstall()
    threads.uninstall()
    for name in ("notebook", "everywhere"):
        module = sys.modules.get(f"{__name__}.{name}")
        if module is not None:
            module.uninstall()


def wants_everywhere() -> bool:
    """True when the environment asks for `install(everywhere=True)`."""
    return os.environ.get("WHYDEVICE", "").strip().lower() == "everywhere"
