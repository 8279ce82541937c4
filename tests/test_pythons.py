"""Newer Pythons than the suite's own: what they changed of frames. Skipped where an interpreter is not installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from processes import HANGS
from runner import SRC

READ_LOCALS = """
import sys
sys.path.insert(0, {src!r})
from whydevice.evidence.passive import named

def function(batch, *, scale=2):
    inner = [batch]
    def closure():
        return inner, dict(named(sys._getframe().f_locals))
    return dict(named(sys._getframe().f_locals)), closure()[1]

own, free = function("x")
assert set(own) == {{"batch", "scale", "inner", "closure"}}, own
assert own["batch"] == "x" and own["inner"] == ["x"]
assert free == {{"inner": ["x"]}}, free
assert "function" in dict(named(sys._getframe().f_locals))
"""


def interpreter(version: str) -> str | None:
    """A Python of this version that starts: on PATH, or one of pyenv's, whose command on PATH may be none."""
    installed = Path.home() / ".pyenv" / "versions"
    found = [shutil.which(f"python{version}"), *map(str, installed.glob(f"{version}.*/bin/python"))]
    return next(
        (p for p in found if p and not subprocess.run([p, "-c", ""], capture_output=True).returncode), None
    )


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_locals_of_a_frame_are_read(version: str) -> None:
    """Since 3.13 `f_locals` of a function is no dict (PEP 667)."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    done = subprocess.run(
        [python, "-c", READ_LOCALS.format(src=str(SRC))], capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr
