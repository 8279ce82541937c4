"""`python -m whydevice --simulate-cuda=4 -m torch.distributed.run ... script.py`: the options are meant for the ranks.

A launcher starts each rank as `python script.py`, a process that knows nothing of us. So where what we run is
a launcher, the Python processes that it starts get our command line. Any other program's are left alone.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
    "accelerate.commands.accelerate_cli",
    "deepspeed.launcher.runner",
    "deepspeed.launcher.launch",
)
_SCRIPTS = ("torchrun", "accelerate", "accelerate-launch", "deepspeed")
_WITH_VALUE = ("-X", "-W")
"""The interpreter's options whose value may be the next word."""


def is_launcher(module: str | None, script: str | None) -> bool:
    """True when the module or script to run is one that starts the ranks of a distributed run."""
    if module is not None:
        return module in _MODULES
    return script is not None and os.path.basename(script).removesuffix(".exe") in _SCRIPTS


def hand_on(words: list[str]) -> None:
    """From now on the scripts and modules that this process starts with Python run as `-m whydevice WORDS`."""
    import subprocess  # only here: a script's own folder may hold a `signal.py`, which this would import

    popen: Any = subprocess.Popen
    popen.__init__ = _handing_on(popen.__init__, words)


def _handing_on(init: Any, words: list[str]) -> Any:
    @functools.wraps(init)
    def starting(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        init(self, command(args, words) or args, *rest, **options)

    return starting


def command(args: object, words: list[str]) -> list[Any] | None:
    """The command with us before its script or module; None for what is no such command of this Python."""
    if not isinstance(args, list | tuple) or not args or not all(isinstance(word, str) for word in args):
        return None
    target = _target(args)
    if target is None or args[target : target + 2] in (["-m", "whydevice"], ("-m", "whydevice")):
        return None
    end = [] if args[target] == "-m" else ["--"]
    return [*args[:target], "-m", "whydevice", *words, *end, *args[target:]]


def _target(args: Sequence[str]) -> int | None:
    """Where the script, or the `-m` of the module, stands in a command of this Python."""
    if args[0] != sys.executable:
        return None
    at = 1
    while at < len(args):
        word = args[at]
        if word == "-m" and at + 1 < len(args):
            return at
        if not word.startswith("-"):
            return at
        if word[:2] in _WITH_VALUE:
            at += 2 if len(word) == 2 else 1
            continue
        if word.startswith("--") or word == "-" or any(letter in word for letter in "cEI"):
            return None  # no script; or one that is to see nothing of the environment that we come from
        at += 1
    return None
