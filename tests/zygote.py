"""A process that has imported torch once, and forks a child for each run of the command.

Importing torch takes seconds; 120 fixtures of three or four runs each could not pay that each time. This
process never runs an operation itself, so no thread pool and no CUDA context is there to be broken by a fork.
A child becomes what `python -m whydevice ARGS` is, but for the interpreter's teardown of its two thousand
modules, which takes longer than most fixtures. test_fixtures.py compares a sample with real processes.

Run as a script it reads requests, one JSON object a line, from standard input: {argv, cwd, path, stdout,
stderr, timeout, env, claims}; `claims` names a file for what claims.py finds. It answers {"status": exit status, or 124 after `timeout` seconds}.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import weakref
from typing import Any, NoReturn

import claims


def _preload() -> None:
    """Import what runs import besides whydevice itself, whose own laziness is part of what is tested."""
    import gc

    import rich.console  # noqa: F401

    with contextlib.suppress(ImportError):
        import numpy  # noqa: F401
    import torch._dynamo  # what the first optimizer imports
    import torch.utils.data

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # else a child's collections copy all the pages that it shares with us


def _wait(pid: int, timeout: float) -> int:
    """The exit status of `pid`; it is killed, with its children, after `timeout` seconds."""
    end = time.monotonic() + timeout
    pause = 0.001
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return 124
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def _become(request: dict[str, Any]) -> None:
    """Make this child look like a fresh `python -m whydevice` started in `cwd`."""
    os.setsid()
    for name, target in (("stdout", 1), ("stderr", 2)):
        handle = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(handle, target)
        os.close(handle)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.path[0] = request["cwd"]
    sys.path[1:1] = request["path"]
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [*request["path"], *filter(None, [os.environ.get("PYTHONPATH", "")])]
    )


def _fork_for_our_command() -> None:
    """Let `signals.run` fork this process when it starts whydevice, as `--fix` does for each round.

    This process runs no operation of torch then, and is as good to fork as its parent. In the fork it is what it was.
    """
    from whydevice import signals

    real = signals.run

    def run(command: list[str], **streams: Any) -> tuple[int, bool]:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        pid = os.fork()
        if pid == 0:
            signals.run = real
            _forget_exit_handlers()
            for target, name in ((1, "stdout"), (2, "stderr")):
                where = streams.get(name)
                if where == subprocess.DEVNULL:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), target)
                elif where is not None:
                    os.dup2(where.fileno(), target)
            _command(command[command.index("whydevice") + 1 :])
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status), False

    signals.run = run


def _forget_exit_handlers() -> None:
    """Drop what this fork would clean up on its parent's behalf, such as the parent's temporary folders."""
    atexit._clear()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]


def _command(argv: list[str]) -> NoReturn:
    """Run `python -m whydevice ARGV` and end as the interpreter would, without its teardown."""
    import threading
    import traceback

    sys.argv[:] = ["whydevice", *argv]
    status: Any = 0
    try:
        from whydevice.cli import main

        main()
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status or 0)


def serve() -> None:
    """Answer requests until the pipe closes."""
    for line in sys.stdin:
        request = json.loads(line)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _become(request)
            if "--fix" in request["argv"]:
                _fork_for_our_command()
            if request["claims"]:
                claims.watch(request["claims"])
            _command(request["argv"])
        print(json.dumps({"status": _wait(pid, request["timeout"])}), flush=True)


if __name__ == "__main__":
    _preload()
    print("ready", flush=True)
    serve()
