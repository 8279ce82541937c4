"""A Ctrl-C, a signal, no memory at any moment while an error is caught, explained and printed, or its fix written.

The traceback is printed whole and once, the exit status is the script's, one line says what happened to the explanation,
and no file is left half written. A sample of the moments here; WHYDEVICE_NIGHTLY=1 takes all that differ.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interrupts import OURS
from processes import HANGS, environment
from whydevice import signals

NIGHTLY = bool(os.environ.get("WHYDEVICE_NIGHTLY"))
SOME = 6
"""Moments that are taken in the suite, for each way to be interrupted."""
EVERY = 20
"""Of the moments that lie in the evidence, the causes and the like, every so many by night."""
SEAMS = ("catch/excepthook.py", "__call__"), ("cli.py", "_finish"), ("catch/excepthook.py", "_at_exit")
"""Functions of ours that the interpreter itself calls: what meets one as it begins, the interpreter reports."""
PARSERS = (
    ("source/parsed.py", "_parse"), ("edits/running.py", "_compile"), ("edits/running.py", "_imported"),
    ("render/places.py", "_position"),
)  # fmt: skip
"""Functions that ask CPython to parse or compile: no memory and no stack mean there that code is nested too deeply."""
HOLDING = (
    "guard.py",
    "run.py",
    "cli.py",
    "signals.py",
    "catch/",
    "render/json.py",
    "render/terminal.py",
    "explain.py",
)
"""Where the traceback, the status and the files are held."""

FAILS = """\
import arms
import torch


def shifted(a):
    mean = torch.empty(3, device="meta")
    arms.now()
    return a - torch.from_numpy(mean.numpy())


shifted(torch.ones(3))
"""
SIMULATED = """\
import arms
import torch

model = torch.nn.Linear(4, 2).cuda()
x = torch.ones(3, 4)
arms.now()
y = model(x)
"""
WAYS: dict[str, tuple[list[str] | None, str]] = {
    "import": (None, "import whydevice\n" + FAILS),
    "command": (["script.py"], FAILS),
    "json": (["--json", "out.json", "script.py"], FAILS),
    "simulated": (["--simulate-cuda", "--json", "out.json", "script.py"], SIMULATED),
    "fix": (["--fix", "--unsafe-fixes", "script.py"], FAILS),
}
RUNS = [
    ("import", "KeyboardInterrupt"), ("json", "KeyboardInterrupt"), ("simulated", "KeyboardInterrupt"),
    ("fix", "KeyboardInterrupt"), ("json", "SIGTERM"), ("fix", "SIGTERM"), ("command", "SystemExit"),
    ("import", "MemoryError"), ("command", "RecursionError"),
]  # fmt: skip


class Interrupter:
    """The process of interrupts.py."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("interrupts.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(OMP_NUM_THREADS="1", COLUMNS="80"),
        )

    def runs(self, way: str, kind: str, points: list[int | None], folder: Path) -> list[dict[str, Any]]:
        argv, script = WAYS[way]
        request = {"argv": argv, "script": script, "kind": kind, "points": points, "folder": str(folder)}
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        found = []
        while answer := json.loads(self.process.stdout.readline()):
            found.append(answer)
        return found


@pytest.fixture(scope="module")
def interrupter() -> Iterator[Interrupter]:
    made = Interrupter()
    with made.process:
        yield made
        assert made.process.stdin is not None
        made.process.stdin.close()


def chosen(events: list[str]) -> list[int]:
    """The first moment of each kind (a place, and what is called there); in the suite evenly spread, by count."""
    first: dict[str, int] = {}
    for number, event in enumerate(events, 1):
        first.setdefault(event, number)
    holding = [number for event, number in first.items() if event.startswith(HOLDING)]
    others = [number for event, number in first.items() if not event.startswith(HOLDING)]
    if NIGHTLY:
        return sorted([*holding, *others[::EVERY]])
    half = SOME // 2
    return sorted({*holding[1 :: len(holding) // half + 1], *others[:: len(others) // half + 1]})


@pytest.mark.parametrize("way, kind", RUNS)
def test_interrupted_at_any_moment(way: str, kind: str, interrupter: Interrupter, tmp_path: Path) -> None:
    (base,) = interrupter.runs(way, kind, [None], tmp_path)
    points: list[int | None] = [
        at for at in chosen(base["events"]) if not _taken_for_nesting(kind, base["events"][at - 1])
    ]
    assert len(points) >= SOME // 2 - 1
    wrong = {}
    for result in interrupter.runs(way, kind, points, tmp_path):
        event = base["events"][result["point"] - 1]
        if complaints := _complaints(way, kind, result, base, event):
            wrong[result["point"], event] = complaints
    assert not wrong, wrong


def _taken_for_nesting(kind: str, event: str) -> bool:
    file, _, what = event.split(":")
    return kind in ("MemoryError", "RecursionError") and (file, what.split()[0]) in PARSERS


def _complaints(way: str, kind: str, result: dict[str, Any], base: dict[str, Any], event: str) -> list[str]:
    traceback, _, report = base["stderr"].partition("\nwhydevice: ")
    own = traceback[traceback.rindex('  File "script.py"') if way == "import" else 0 :]
    stderr, found = result["stderr"], []
    seam = any(event.startswith(file + ":") and event.endswith(":" + name) for file, name in SEAMS)
    killed = kind == "SIGTERM"
    if stderr.count(own) != 1 and not (killed and own not in stderr):
        found.append(f"the traceback {stderr.count(own)} times")
    if stderr.count("Traceback") != 1 and not seam and not killed:
        found.append(f"{stderr.count('Traceback')} tracebacks")
    # A handler of the script's that calls sys.exit may come before anything is printed, and is obeyed then.
    allowed = {-signal.SIGTERM} if killed else {base["status"], *([9] if kind == "SystemExit" else [])}
    if result["status"] not in allowed:
        found.append(f"exit status {result['status']}")
    said = stderr.count("\nwhydevice: interrupted") + stderr.count("\nwhydevice: failed")
    if said != 1 and not (said == 0 and report in stderr) and not seam and not killed:
        found.append(f"said {said} times that it did not explain")
    if extra := set(result["files"]) - {"script.py", "out.json"}:
        found.append(f"left {extra}")
    if result["files"]["script.py"] not in (WAYS[way][1], base["files"]["script.py"]):
        found.append("the script is neither as it was nor mended")
    try:
        json.loads(result["files"].get("out.json", "{}"))
    except ValueError:
        found.append("half a document")
    return [f"{each}\n{stderr}" for each in found]


def test_the_moments_are_ours() -> None:
    assert all((Path(OURS) / file).exists() for file in (*HOLDING, *(file for file, _ in SEAMS)))


# -- the runs of --fix ---------------------------------------------------------------------------------------------

LOOPED = """\
import signal, sys
with open("runs", "a+") as runs:
    runs.write("x")
    runs.seek(0)
    if len(runs.read()) == int(sys.argv[1]):
        open("waits", "w").close()
        while True:
            signal.pause()
import torch
model = torch.nn.Linear(4, 2).cuda()
x = torch.ones(3, 4)
y = model(x)
"""
MENDED = LOOPED.replace("torch.ones(3, 4)", 'torch.ones(3, 4, device="cuda")')


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="signals are POSIX's")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [1, 2])
def test_a_fix_that_is_interrupted_leaves_no_run_and_no_folder(at: int, number: int, tmp_path: Path) -> None:
    """A terminal sends a Ctrl-C to all; what ends a job sends SIGTERM to the process that it knows."""
    work, temporary = tmp_path / "work", tmp_path / "tmp"
    work.mkdir(), temporary.mkdir()
    (work / "script.py").write_text(LOOPED)
    command = ["-m", "whydevice", "--simulate-cuda", "--fix", "--json", "out.json", "script.py", str(at)]
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=work,
        env=environment(TMPDIR=str(temporary)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (work / "waits").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    # It ends when whoever holds its pipes has ended too: also the script's own process.
    _, said = process.communicate(timeout=HANGS)
    if number == signal.SIGTERM:
        assert process.returncode == -number
    else:
        assert process.returncode == (128 + number if at == 1 else 1)
    assert said.count("Traceback") == (1 if at == 2 or number == signal.SIGINT else 0), said
    assert not [each for each in temporary.iterdir() if each.name.startswith("whydevice")]
    assert {each.name for each in work.iterdir()} <= {"script.py", "out.json", "runs", "waits", "__pycache__"}
    assert len(json.loads((work / "out.json").read_text())["explanations"]) == at - 1
    if at == 1:
        assert (work / "script.py").read_text() == LOOPED
    else:
        assert "wrote a fix that is not verified" in said and "interrupted" in said
        assert (work / "script.py").read_text() == MENDED


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals are POSIX's")
def test_a_signal_waits_for_the_end_of_a_write() -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: got.append(number))
    try:
        handler = signal.getsignal(signal.SIGHUP)
        with signals.held():
            signal.raise_signal(signal.SIGHUP)
            assert got == []
        assert got == [signal.SIGHUP] and signal.getsignal(signal.SIGHUP) is handler
        with pytest.raises(KeyboardInterrupt), signals.held():
            signal.raise_signal(signal.SIGINT)
            got.append(0)
        assert got[-1] == 0
    finally:
        signal.signal(signal.SIGHUP, before)
