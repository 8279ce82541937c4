#!/usr/bin/env python3
"""Run every fixture on CUDA: plain, under whydevice, and mended with `--fix`; one JSON a fixture.

    python scripts/real_cuda.py [--only TEXT] [--out FOLDER] [--jobs N] [--minutes M] [--again] [--simulate]

With a GPU the record is `cuda.json` beside the fixture, or FOLDER/<cause>/<name>.json. Without one it says so
in one line and runs the same driver under simulation, into build/cuda: that is no record of a device.
Fixtures that have a record of this script, this torch and this GPU already are passed over, so a run that was
cut goes on where it ended; `--minutes` ends it by itself. Needs Python 3.11, torch and rich; no network.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from cuda_records import digest, machine, problems, take  # noqa: E402
from fixture_cases import Case, NearMiss, cases, near_misses  # noqa: E402
from runner import Result, Runner, environment, site_packages  # noqa: E402


class Machine:
    """Runs commands for the threads of this process, each with a forking process of its own."""

    def __init__(self, simulated: bool) -> None:
        self.simulated = simulated
        self._local = local()
        self._all: list[Runner] = []

    def run(self, argv: list[str], folder: Path, plain: bool = False) -> Result:
        """`python -m whydevice ARGV`. Plain: the script alone, on a device by the interpreter itself."""
        if plain and not self.simulated:
            return _interpreter(argv, folder)
        return self._runner().run(argv, folder, timeout=300, env={"WHYDEVICE": "0"} if plain else {})

    def _runner(self) -> Runner:
        if not hasattr(self._local, "runner"):
            self._local.runner = Runner()
            self._all.append(self._local.runner)
        runner: Runner = self._local.runner
        return runner

    def close(self) -> None:
        for runner in self._all:
            runner.close()


def _interpreter(argv: list[str], folder: Path) -> Result:
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([*site_packages(folder.resolve()), env["PYTHONPATH"]])
    options: dict[str, Any] = {"cwd": folder, "env": env, "stdin": subprocess.DEVNULL, "capture_output": True}
    try:
        done = subprocess.run([sys.executable, *argv], timeout=300, **options)
    except subprocess.TimeoutExpired:
        return Result(124, "", "")
    return Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def target(case: Case | NearMiss, folder: Path | None) -> Path:
    return case.folder / "cuda.json" if folder is None else folder / f"{case.id}.json"


def is_done(path: Path, case: Case | NearMiss, told: dict[str, Any]) -> bool:
    """Whether there is a record of this very script on this very machine."""
    if not path.exists():
        return False
    record = json.loads(path.read_text(encoding="utf-8"))
    return not problems(record) and record["script"] == digest(case) and record["machine"] == told


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="fixtures whose name contains this")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--again", action="store_true", help="also what has a record")
    parser.add_argument("--simulate", action="store_true", help="do not use the GPU")
    options = parser.parse_args()
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # no CUDA context here: children are forked
    import torch

    simulated = options.simulate or not torch.cuda.is_available()
    count = 0 if simulated else torch.cuda.device_count()
    told = machine() if simulated else json.loads(_in_child())
    if simulated and not options.simulate:
        print(
            f"no GPU: torch {torch.__version__} sees no CUDA device, the same driver runs under simulated CUDA"
        )
    out = options.out or (ROOT / "build" / "cuda" if simulated else None)
    wanted = [case for case in [*cases(), *near_misses()] if options.only in case.id]
    able = [case for case in wanted if simulated or case.gpus <= count]
    # Under simulation the code under test is what changes: only a run in parts takes up an earlier one.
    again = options.again or (simulated and options.minutes == float("inf"))
    left = [c for c in able if again or not is_done(target(c, out), c, told)]
    end = time.monotonic() + options.minutes * 60
    runs = Machine(simulated)
    failed: list[str] = []

    def record(case: Case | NearMiss) -> bool:
        if time.monotonic() > end:
            return False
        with tempfile.TemporaryDirectory() as scratch:
            found = take(case, runs.run, told, simulated, Path(scratch) / "run")
        wrong = problems(found)
        if isinstance(case, Case) and not wrong:
            wrong = expected(case, found)
        failed.extend(f"{case.id}: {text}" for text in wrong)
        path = target(case, out)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return True

    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        done = sum(pool.map(record, left))
    runs.close()
    print(
        f"{done} of {len(wanted)} fixtures {'run under simulation' if simulated else 'recorded'}, "
        f"{len(able) - len(left)} had a record, {len(left) - done} left for another run, "
        f"{len(wanted) - len(able)} need more GPUs"
    )
    for text in failed:
        print(f"  {text}")
    if not simulated and not options.only and time.monotonic() < end:
        measure_promises()
    return 0


def measure_promises() -> None:
    """What only a GPU can show, measured into tests/data/cuda_promises.json."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "cuda_promises.py")],
        env=environment(), capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    if done.returncode == 0:
        (ROOT / "tests" / "data" / "cuda_promises.json").write_text(done.stdout, encoding="utf-8")
    print(done.stdout or done.stderr)


def expected(case: Case, record: dict[str, Any]) -> list[str]:
    """Where a run is not what the fixture says, unless it is known."""
    found = []
    if "raises" not in case.known_gap:
        plain = record["plain"]
        if plain["line"] != case.line or case.message not in (plain["message"] or ""):
            found.append(f"raises at {plain['line']}: {plain['message']}")
    if not {"raises", "mended"} & set(case.known_gap) and not record["mended"]["ran"]:
        found.append("the mended script does not run")
    return found


def _in_child() -> str:
    """What the GPU is called, asked in a process of its own: it makes a CUDA context."""
    code = "import json, cuda_records; print(json.dumps(cuda_records.machine()))"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path[:2])}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


if __name__ == "__main__":
    raise SystemExit(main())
