"""Run scripts in real processes, with the package of this tree and an environment that adds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_OURS = str(Path(__file__).resolve().parents[1] / "src")
SRC = os.pathsep.join(filter(None, [_OURS, os.environ.get("PYTHONPATH")]))

HANGS = 600
"""Seconds after which a process hangs: that ends a test, and no machine is so busy that it fails one."""

MISMATCH = """\
import torch


def shifted(a):
    mean = torch.empty(3, device="meta")
    return a - torch.from_numpy(mean.numpy())


shifted(torch.ones(3))
"""
"""A real device error that needs no GPU, and is raised at once: an operation on `meta` imports 800 modules before it fails."""


LIGHT = """\
import sys, types
def _fake(name, **names):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(names)
def _write(explanation, stream, color):
    print("\\nwhydevice: " + explanation, file=stream)
_fake("torch")
_fake("whydevice.explain", explain=lambda exc: "an explanation")
_fake("whydevice.render.terminal", write=_write)
def shifted(a):
    raise RuntimeError("Tensor on device meta is not on the expected device cpu!")
"""
"""Stands in for torch and for the pipeline where a test is about the hooks alone: torch is slow to import."""

LIGHT_MISMATCH = LIGHT + "shifted(3)\n"

NO_TORCH = LIGHT.replace('explain=lambda exc: "an explanation"', "explain=lambda exc: made")
NO_TORCH = NO_TORCH.replace('_fake("whydevice.render.terminal", write=_write)\n', "") + (
    "if 'whydevice' in sys.modules:\n"
    "    from whydevice.types import DeviceError, Environment, Explanation\n"
    "    made = Explanation(error=DeviceError('RuntimeError', 'm', 'X1'), certainty='possible',\n"
    "                       headline='an explanation', environment=Environment('3', '2', False, None))\n"
)
"""A real explanation, for what needs more of it than its text."""


def environment(**extra: str) -> dict[str, str]:
    """os.environ without what would change output; extra entries win."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("WHYDEVICE", "PYTEST"))}
    for name in ("FORCE_COLOR", "COLUMNS", "RANK", "LOCAL_RANK", "WORLD_SIZE"):
        env.pop(name, None)
    env |= {"PYTHONPATH": SRC, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "PYTHONHASHSEED": "0"}
    return env | extra


def run(*args: Any, cwd: Path | str, env: dict[str, str] | None = None, **kw: Any) -> Any:
    """The finished process of this Python with `args`."""
    timeout = kw.pop("timeout", HANGS)
    return subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=cwd,
        env=environment() if env is None else env,
        capture_output=True,
        text=kw.pop("text", True),
        timeout=timeout,
        stdin=subprocess.DEVNULL if "input" not in kw else None,
        **kw,
    )


def why(*args: Any, **kw: Any) -> Any:
    """The finished process of `python -m whydevice` with `args`."""
    return run("-m", "whydevice", *args, **kw)


def outcome(process: Any) -> tuple[Any, Any, int]:
    return process.stdout, process.stderr, process.returncode
