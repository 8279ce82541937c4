#!/usr/bin/env python3
"""Fill the table of PyTorch's operators from CUDA: every op of OpInfo, each tensor argument in turn on the other side.

    python scripts/real_cuda_ops.py [--out FILE] [--minutes M] [--samples N] [--only NAME...] [--simulate]

With a GPU the file is tests/data/cuda_ops.jsonl (its form: tests/cuda_ops.py), to which test_cuda_ops.py holds
the simulation. Without one it says so and runs the same driver under simulation, into build/cuda/ops.jsonl.
Each op is a line, written when it is done: a run that was cut, or that `--minutes` ended, goes on where it was.
The ops run in a process of their own, which is started anew when its CUDA context is poisoned, when it
crashes, and when it is silent for `--patience` seconds (120); the pair that did it is in the table. Needs
Python 3.11, torch, rich and numpy; no network.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests"), str(ROOT / "src")]

from cuda_ops import packed, read  # noqa: E402

WORKER = [sys.executable, __file__, "--worker"]
POISONED = 75
"""The exit status of a worker whose context can do no more."""


def worker(real: bool, samples: int) -> None:
    """Run the ops that standard input names, as [name, pairs to pass over], and write a line of JSON a pair."""
    import torch
    from opinfo_devices import op_database, pairs, row

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what ops print goes elsewhere
    known = {op.full_name: op for op in op_database()}
    for name, passed in json.load(sys.stdin):
        for number, pair in enumerate(pairs(known[name], samples, reverse=True)):
            if number < passed:
                continue
            print(json.dumps({"begin": name, "pair": _named(pair)}), file=out, flush=True)
            done = row(pair, real)
            poisoned = real and not _healthy()
            print(json.dumps({"row": done, "poisoned": poisoned}), file=out, flush=True)
            if poisoned:
                os._exit(POISONED)
        print(json.dumps({"end": name}), file=out, flush=True)


def _named(pair: Any) -> dict[str, Any]:
    return {"sample": pair.sample, "argument": pair.displaced, "side": pair.side}


def _healthy() -> bool:
    """Whether the CUDA context still works: an error of a kernel is found out here, and stays."""
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


class Worker:
    """The process that runs ops, and what it says."""

    def __init__(self, options: argparse.Namespace, names: list[tuple[str, int]], simulated: bool) -> None:
        command = [*WORKER, "--samples", str(options.samples), *(["--simulate"] if simulated else [])]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
        )  # fmt: skip
        assert self.process.stdin is not None
        json.dump(names, self.process.stdin)
        self.process.stdin.close()
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def next(self, patience: float) -> dict[str, Any] | None:
        """What it says next; None when it ended, or was ended because it said nothing for too long."""
        try:
            line = self._lines.get(timeout=patience)
        except queue.Empty:
            self.process.kill()
            line = None
        answer: dict[str, Any] | None = None if line is None else json.loads(line)
        return answer

    def ended(self) -> str:
        status = self.process.wait()
        return f"killed by signal {-status}" if status < 0 else f"ended with status {status}"


def fill(names: list[str], out: Path, options: argparse.Namespace, simulated: bool) -> int:
    """Append a line an op to `out` until all are done or the time is over. Returns how many were written."""
    end = time.monotonic() + options.minutes * 60
    left, written = list(names), 0
    rows: list[dict[str, Any]] = []
    died: str | None = None
    while left and time.monotonic() < end:
        current = Worker(options, [(name, len(rows) if name == left[0] else 0) for name in left], simulated)
        running: dict[str, Any] | None = None
        try:
            while time.monotonic() < end:
                said = current.next(min(options.patience, max(0.1, end - time.monotonic())))
                if said is None:
                    break
                if "begin" in said:
                    running = said["pair"]
                elif "row" in said:
                    rows.append(said["row"])
                    running = None
                else:
                    with out.open("a", encoding="utf-8") as file:
                        file.write(packed(left.pop(0), rows, died) + "\n")
                    rows, died, written = [], None, written + 1
        finally:
            current.process.kill()
        how = current.ended()
        if running is not None and time.monotonic() < end:
            died = how
            rows.append(running | {"raises": "died", "message": how, "devices": []})
        elif left and not rows and not written and time.monotonic() < end:
            raise SystemExit(f"the process that runs the ops {how} at once")
    return written


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--samples", type=int, default=3, help="of each op")
    parser.add_argument("--patience", type=float, default=120)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(not options.simulate, options.samples)
        return 0
    import torch
    from opinfo_devices import op_database

    from cuda_records import machine

    simulated = options.simulate or not torch.cuda.is_available()
    if simulated and not options.simulate:
        print(
            f"no GPU: torch {torch.__version__} sees no CUDA device, the same driver runs under simulated CUDA"
        )
    out = options.out or ROOT / ("build/cuda/ops.jsonl" if simulated else "tests/data/cuda_ops.jsonl")
    names = list(dict.fromkeys(op.full_name for op in op_database()))
    names = [name for name in names if not options.only or name in options.only]
    header = {"machine": machine(), "simulated": simulated, "samples": options.samples}
    before, done = read(out) if out.exists() else ({}, {})
    # Under simulation the code under test is what changes: only a run in parts takes up an earlier one.
    anew = simulated and options.minutes == float("inf")
    if anew or {name: before.get(name) for name in header} != header:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(header | {"recorded": time.strftime("%Y-%m-%d")}) + "\n", encoding="utf-8")
        done = {}
    else:
        _drop_cut_line(out)
    left = [name for name in names if name not in done]
    written = fill(left, out, options, simulated)
    what = "run under simulation" if simulated else "recorded"
    print(
        f"{written} ops {what}, {len(names) - len(left)} were in {out}, {len(left) - written} left for another run"
    )
    return 0


def _drop_cut_line(out: Path) -> None:
    """A line that was cut has no end: what is appended must not join it."""
    text = out.read_text(encoding="utf-8")
    if not text.endswith("\n"):
        out.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
