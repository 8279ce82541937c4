"""The switch for every script of an environment: a `.pth` file that imports whydevice where WHYDEVICE=1."""

from __future__ import annotations

import os
import sysconfig

from ..run import NotRunnable

_NAME = "whydevice.pth"
# One line: the interpreter runs a line that begins with `import`. It must never disturb a start.
_LINE = (
    "import os; os.environ.get('WHYDEVICE', '').lower() in ('1', 'on', 'true', 'yes', 'everywhere') "
    "and exec('try:\\n import whydevice\\nexcept ImportError:\\n pass')\n"
)


def path() -> str:
    """Where the file lies: the site-packages folder of this interpreter."""
    return os.path.join(sysconfig.get_path("purelib"), _NAME)


def enable() -> str:
    """Write the file. Returns the line to print; raises NotRunnable when it cannot be written."""
    try:
        with open(path(), "w", encoding="utf-8") as file:
            file.write(_LINE)
    except OSError as error:
        raise NotRunnable(f"cannot write {path()}: {error.strerror or error}") from None
    return f"wrote {path()}: every script of this environment that runs with WHYDEVICE=1 is explained"


def disable() -> str:
    """Remove the file. Returns the line to print; raises NotRunnable when it cannot be removed."""
    try:
        os.remove(path())
    except FileNotFoundError:
        return f"nothing to do: there is no {path()}"
    except OSError as error:
        raise NotRunnable(f"cannot remove {path()}: {error.strerror or error}") from None
    return f"removed {path()}"
