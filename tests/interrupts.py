"""What arrives while an error is caught, explained and printed: a Ctrl-C, a signal, no memory, at a chosen event.

Run as a script it imports torch once, and reads requests from standard input, one JSON object a line: {argv, script,
kind, points, folder}; `argv` is null for a script that imports whydevice itself. It forks for each point, writes one
JSON line for each, and an empty object after the last. A point is the number of an event since the error left the script; null runs undisturbed and answers with the events.

An event is where Python looks for signals: a Python function begins, or a function of C has returned. To raise in the
profile function at the same count does the same each time, as no timer would.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import shutil
import signal
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OURS = str(ROOT / "src" / "whydevice") + os.sep
_FIRST = tuple(OURS + name for name in ("run.py", "guard.py", os.path.join("catch", "excepthook.py")))
"""What of ours runs first when a script has failed."""
KINDS: dict[str, Callable[[], Any]] = {
    "KeyboardInterrupt": lambda: signal.raise_signal(signal.SIGINT),
    "SystemExit": lambda: sys.exit(9),
    "MemoryError": lambda: _raise(MemoryError()),
    "RecursionError": lambda: _raise(RecursionError()),
    "SIGTERM": lambda: os.kill(os.getpid(), signal.SIGTERM),
}


def _raise(exc: BaseException) -> None:
    raise exc


class Arms:
    """Counts the events since the script failed, and strikes at one of them, once."""

    def __init__(self, kind: str, point: int | None) -> None:
        self.strike, self.point = KINDS[kind], point
        self.events: list[str] = []
        self.count = 0
        self.failed = False

    def now(self) -> None:
        """Count from here on: the script calls this right before it fails."""
        sys.setprofile(self.seen)

    def seen(self, frame: types.FrameType, event: str, arg: Any) -> None:
        if event not in ("call", "c_return"):
            return
        code = frame.f_code
        if not code.co_filename.startswith(OURS):
            return
        if event == "call" and code.co_flags & inspect.CO_GENERATOR:
            return  # perhaps one that is closed, where no signal is looked for
        if not self.failed:
            self.failed = code.co_filename in _FIRST
            if not self.failed:
                return
        self.count += 1
        if self.point is None:
            what = code.co_name if event == "call" else f"{code.co_name} after {arg.__name__}"
            self.events.append(f"{code.co_filename.removeprefix(OURS)}:{frame.f_lineno}:{what}")
        elif self.count == self.point:
            sys.setprofile(None)
            self.strike()


def _child(request: dict[str, Any], point: int | None, folder: Path) -> Arms:
    arms = Arms(request["kind"], point)
    os.chdir(folder)
    for name, target in (("stdout", 1), ("stderr", 2)):
        handle = os.open(f"../{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(handle, target)
        os.close(handle)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hook = types.ModuleType("arms")
    hook.now = arms.now  # type: ignore[attr-defined]
    sys.modules["arms"] = hook
    if point is None:
        atexit.register(lambda: Path("../events").write_text("\n".join(arms.events)))
    return arms


def main() -> tuple[str, list[str] | None]:
    """In the parent: never returns. In a child: the script's text and the arguments of the command."""
    import torch

    torch.set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        if (child := _answer(request)) is not None:
            return child
        print("{}", flush=True)
    os._exit(0)


def _answer(request: dict[str, Any]) -> tuple[str, list[str] | None] | None:
    base = Path(request["folder"])
    for point in request["points"]:
        folder = base / "work"
        folder.mkdir()
        (folder / "script.py").write_text(request["script"])
        pid = os.fork()
        if pid == 0:
            _child(request, point, folder)
            return request["script"], request["argv"]
        _, status = os.waitpid(pid, 0)
        answer: dict[str, Any] = {"point": point, "status": os.waitstatus_to_exitcode(status)}
        answer |= {name: (base / name).read_text() for name in ("stdout", "stderr")}
        answer["files"] = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
        if point is None:
            answer["events"] = (base / "events").read_text().splitlines()
        shutil.rmtree(folder)
        print(json.dumps(answer), flush=True)
    return None


if __name__ == "__main__":
    script, argv = main()
    if argv is None:
        exec(compile(script, "script.py", "exec"), {"__name__": "__main__", "__file__": "script.py"})
    else:
        sys.argv[:] = ["whydevice", *argv]
        from whydevice.cli import main as command

        command()
