"""Run the command on a folder: through the forking process of zygote.py, or in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from processes import HANGS

SRC = Path(__file__).resolve().parents[1] / "src"
ENVIRONMENT = {
    "COLUMNS": "80",
    "NO_COLOR": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONIOENCODING": "utf-8",
}
"""What a run sees besides the environment of the tests: 80 columns, no colour, the same hashes each time."""
UNSET = ("FORCE_COLOR", "WHYDEVICE", "WHYDEVICE_DEBUG", "RANK", "LOCAL_RANK", "WORLD_SIZE")


@dataclass(frozen=True)
class Result:
    """How a run ended. `status` is 124 when it was stopped after its time."""

    status: int
    stdout: str
    stderr: str

    def __str__(self) -> str:
        return f"exit {self.status}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def environment() -> dict[str, str]:
    """The variables of a run, with the tree's own package first."""
    env = {k: v for k, v in os.environ.items() if k not in UNSET and not k.startswith("PYTEST")}
    path = os.pathsep.join(filter(None, [str(SRC), env.get("PYTHONPATH")]))
    return env | ENVIRONMENT | {"PYTHONPATH": path}


def site_packages(folder: Path) -> list[str]:
    """The libraries that a fixture brings along, for PYTHONPATH."""
    return [str(folder / "site-packages")] if (folder / "site-packages").is_dir() else []


class Runner:
    """Starts zygote.py at the first run and keeps it until `close`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._scratch = tempfile.TemporaryDirectory(prefix="whydevice-runner-")

    def run(
        self,
        argv: Sequence[str],
        cwd: Path,
        timeout: float = HANGS,
        env: Mapping[str, str] | None = None,
        claims: Path | None = None,
    ) -> Result:
        """`python -m whydevice ARGV` in `cwd`, in a fork of the waiting process. `env` adds to its variables. Each
        explanation is checked against the live frames of its error; a line of JSON about it goes to `claims`."""
        scratch = Path(self._scratch.name)
        out, err = scratch / "stdout", scratch / "stderr"
        request = {
            "argv": list(argv),
            "cwd": str(cwd.resolve()),
            "path": site_packages(cwd.resolve()),
            "stdout": str(out),
            "stderr": str(err),
            "timeout": timeout,
            "env": ENVIRONMENT | dict(env or {}),
            "claims": str(claims.resolve()) if claims is not None else "",
        }
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            self._process = None
            raise RuntimeError(f"zygote.py ended with status {process.wait()}")
        read = [path.read_text(encoding="utf-8", errors="replace") for path in (out, err)]
        return Result(json.loads(answer)["status"], *read)

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("zygote.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment(),
            )
            assert self._process.stdout is not None
            if self._process.stdout.readline() != "ready\n":
                raise RuntimeError(f"zygote.py did not start: status {self._process.wait()}")
        return self._process

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.wait(timeout=HANGS)
            self._process = None
        self._scratch.cleanup()


def run_process(argv: Sequence[str], cwd: Path, timeout: float = HANGS) -> Result:
    """`python -m whydevice ARGV` in `cwd`, in a process of its own: slow, and the real thing."""
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([*site_packages(cwd.resolve()), env["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, "-m", "whydevice", *argv],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout,
    )
    return Result(done.returncode, done.stdout, done.stderr)
