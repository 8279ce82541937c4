"""Whatever fails inside: the traceback comes first, the exit status stays, and one line says that whydevice failed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from processes import HANGS, LIGHT, LIGHT_MISMATCH, environment, outcome, run, why


def _run(folder: Path, text: str, *, cli: bool = False, **env: str) -> Any:
    (folder / "script.py").write_text(textwrap.dedent(text))
    return (why if cli else run)("script.py", cwd=folder, env=environment(**env))


def _to(folder: Path, text: str, stderr: Any, *, cli: bool) -> Any:
    (folder / "script.py").write_text(text)
    command = [sys.executable, *(["-m", "whydevice"] if cli else []), "script.py"]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=stderr,
        timeout=HANGS,
        text=True,
    )


STAGES = {
    "reading": "_fake('whydevice.explain', explain=fails)\n",
    "rendering": "_fake('whydevice.render.terminal', write=fails)\n",
    "importing": "import importlib.abc\n"
    "class Finder(importlib.abc.MetaPathFinder):\n"
    "    def find_spec(self, name, path, target=None):\n"
    "        if name == 'whydevice.explain': fails()\n"
    "sys.meta_path.insert(0, Finder())\nsys.modules.pop('whydevice.explain', None)\n",
    "listening": "import whydevice.guard\nwhydevice.guard.listeners.append(fails)\n",
}
FAILURES = [
    "ZeroDivisionError()",
    "SystemExit(5)",
    "KeyboardInterrupt()",
    "RecursionError()",
    "MemoryError()",
]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("stage", STAGES)
def test_a_failure_at_any_stage_is_one_line(stage: str, failure: str, tmp_path: Path) -> None:
    body = f"def fails(*args): raise {failure}\n{STAGES[stage]}shifted(3)\n"
    plain = _run(tmp_path, "import json\n" + LIGHT + body.replace("whydevice.guard", "json"))
    ours = _run(tmp_path, "import whydevice\n" + LIGHT + body)
    if "listeners" not in STAGES[stage]:
        assert ours.stderr.startswith(plain.stderr)
    assert ours.stderr.count("Traceback") == 1
    rest = ours.stderr[ours.stderr.index("expected device cpu!\n") + len("expected device cpu!\n") :]
    assert rest.startswith("whydevice: ") and rest.count("\n") == 1
    assert ours.returncode == 1
    shown = _run(tmp_path, "import whydevice\n" + LIGHT + body, WHYDEVICE_DEBUG="1")
    assert "in fails" in shown.stderr
    assert shown.stderr.startswith(ours.stderr[: ours.stderr.index(rest)])


@pytest.mark.parametrize("cli", [False, True])
@pytest.mark.parametrize(
    "body", [LIGHT_MISMATCH, LIGHT + "raise SystemExit(7)\n", LIGHT + "raise ValueError\n"]
)
def test_a_full_disk_keeps_the_exit_status(body: str, cli: bool, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        plain = _to(tmp_path, "import json\n" + body, full, cli=False)
    with open("/dev/full", "w") as full:
        ours = _to(tmp_path, ("" if cli else "import whydevice\n") + body, full, cli=cli)
    assert (ours.stdout, ours.returncode) == (plain.stdout, plain.returncode)


@pytest.mark.parametrize("cli", [False, True])
def test_a_closed_pipe_keeps_the_exit_status(cli: bool, tmp_path: Path) -> None:
    def into_nothing(text: str, cli: bool) -> Any:
        reading, writing = os.pipe()
        os.close(reading)
        try:
            return _to(tmp_path, text, writing, cli=cli)
        finally:
            os.close(writing)

    plain = into_nothing("import json\n" + LIGHT_MISMATCH, False)
    ours = into_nothing(("" if cli else "import whydevice\n") + LIGHT_MISMATCH, cli)
    assert (ours.stdout, ours.returncode) == (plain.stdout, plain.returncode)


def test_deep_in_a_recursion_there_is_room_to_explain(tmp_path: Path) -> None:
    """`watch` explains where the stack is nearly full; our own calls must fit above it."""
    text = (
        LIGHT
        + """
import whydevice, whydevice.guard
def deep(n):
    if n: return deep(n - 1)
    with watch:
        shifted(3)
def needs(exc, n=150):
    return needs(exc, n - 1) if n else "an explanation"
sys.modules["whydevice.explain"].explain = needs
before = sys.getrecursionlimit()
watch = whydevice.watch()
for room in (15, 30, 60):
    try: deep(before - room - 10)
    except RecursionError: print("recursion", room)
    except RuntimeError as exc: print(room, type(exc).__name__)
assert sys.getrecursionlimit() == before
"""
    )
    done = _run(tmp_path, text)
    assert done.stdout.splitlines()[-1] == "60 RuntimeError", done.stdout + done.stderr
    assert "whydevice: failed" not in done.stderr
    assert done.stderr.count("whydevice: an explanation") == len(
        [line for line in done.stdout.splitlines() if line.endswith("RuntimeError")]
    )


def test_an_error_while_the_interpreter_shuts_down(tmp_path: Path) -> None:
    text = (
        LIGHT
        + """
import whydevice, atexit
class Last:
    def __del__(self):
        shifted(3)
keep = Last()
sys.modules["keep_until_the_end"] = keep
atexit.register(lambda: shifted(3))
print("done")
"""
    )
    plain = _run(tmp_path, text.replace("import whydevice, atexit", "import atexit"))
    ours = _run(tmp_path, text)
    assert (ours.stdout, ours.returncode) == (plain.stdout, plain.returncode) == ("done\n", 0)
    assert ours.stderr.count("Traceback") == plain.stderr.count("Traceback")
    assert "failed while explaining" not in ours.stderr


def test_an_interrupt_while_explaining_ends_the_explanation_alone(tmp_path: Path) -> None:
    text = (
        LIGHT
        + """
import signal, os
signal.signal(signal.SIGINT, signal.default_int_handler)
def slow(exc):
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000): pass
sys.modules["whydevice.explain"].explain = slow
shifted(3)
"""
    )
    done = _run(tmp_path, "import whydevice\n" + text)
    assert done.returncode == 1
    assert done.stderr.endswith("whydevice: interrupted while explaining the error above\n")


@pytest.mark.parametrize("cli", [False, True])
def test_an_interrupt_that_leaves_an_exec_of_text_does_not_end_the_process_by_a_signal(
    cli: bool, tmp_path: Path
) -> None:
    """`dataclass` is made by `exec`, and Python remembers a KeyboardInterrupt that came through one."""
    text = LIGHT + "def slow(exc): exec('raise KeyboardInterrupt')\n"
    text += "sys.modules['whydevice.explain'].explain = slow\nshifted(3)\n"
    done = _run(tmp_path, ("" if cli else "import whydevice\n") + text, cli=cli)
    assert done.returncode == 1
    assert done.stderr.endswith("whydevice: interrupted while explaining the error above\n")


def test_a_hook_that_raises_below_ours(tmp_path: Path) -> None:
    """The interpreter reports a hook that raises; ours explains all the same, and hides nothing of it."""
    text = (
        LIGHT + "def broken(*args): raise ValueError('broken hook')\nsys.excepthook = broken\n{}shifted(3)\n"
    )
    plain = _run(tmp_path, text.format(""))
    ours = _run(tmp_path, text.format("import whydevice\n"))
    assert ours.returncode == plain.returncode == 1
    for expected in ("Error in sys.excepthook", "broken hook", "Original exception was"):
        assert expected in plain.stderr and expected in ours.stderr
    assert ours.stderr.count("whydevice: an explanation") == 1


def test_json_that_cannot_be_written_changes_no_status(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(LIGHT + "import shutil\nshutil.rmtree('out')\nraise SystemExit(4)\n")
    (tmp_path / "out").mkdir()
    done = why("--json", "out/x.json", "script.py", cwd=tmp_path)
    assert done.returncode == 4
    assert outcome(done)[0] == ""
