"""The switch for an environment: `--enable-site` writes a .pth file, `--disable-site` removes it."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from processes import HANGS, LIGHT, LIGHT_MISMATCH, SRC, environment, outcome, run


def test_a_script_that_knows_nothing_of_us_is_explained(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    python = str(tmp_path / "env" / "bin" / "python")
    script = tmp_path / "script.py"
    script.write_text(LIGHT_MISMATCH)

    def started(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *args],
            env=environment(**env),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=HANGS,
        )

    assert started("-m", "whydevice", "--disable-site").stdout.startswith("nothing to do")
    plain = started("script.py", WHYDEVICE="1")
    assert "whydevice: " not in plain.stderr
    enabled = started("-m", "whydevice", "--enable-site")
    assert (enabled.returncode, enabled.stdout.startswith("wrote ")) == (0, True)
    [written] = (tmp_path / "env").rglob("whydevice.pth")
    for value in ("1", "everywhere"):
        shown = started("script.py", WHYDEVICE=value)
        assert shown.returncode == 1
        assert shown.stderr.count("\nwhydevice: ") == 1
    for off in ({}, {"WHYDEVICE": "0"}):
        assert started("script.py", **off).stderr == plain.stderr
    # Without the package the line is silent.
    gone = subprocess.run(
        [python, "-c", "print(1)"],
        env=environment(WHYDEVICE="1", PYTHONPATH=""),
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert (gone.stdout, gone.stderr) == ("1\n", "")
    assert started("-m", "whydevice", "--disable-site").stdout == f"removed {written}\n"
    assert not written.exists()
    assert SRC and sys.executable


SWITCHES = """\
import multiprocessing, os, subprocess, sys
def child(call):
    call(3)
if __name__ == "__main__":
    for how in ("fork", "spawn"):
        one = multiprocessing.get_context(how).Process(target=child, args=(shifted,))
        one.start()
        one.join()
    if len(sys.argv) == 1:
        subprocess.run([sys.executable, "script.py", "again"])
"""


@pytest.mark.parametrize(("value", "blocks"), [("1", 4), ("everywhere", 4), ("0", 0), ("off", 0)])
def test_children_inherit_the_choice(value: str, blocks: int, tmp_path: Path) -> None:
    script = "import whydevice\n" + LIGHT + "shifted.__module__ = '__main__'\n" + SWITCHES
    (tmp_path / "script.py").write_text(script)
    done = run("script.py", cwd=tmp_path, env=environment(WHYDEVICE=value))
    assert done.stderr.count("Traceback") == 4
    assert done.stderr.count("an explanation\n") == blocks
    assert done.returncode == 0


def test_off_means_that_no_hook_is_set(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import sys, threading, traceback\n"
        "def hooks(): return sys.excepthook, sys.unraisablehook, threading.excepthook, list(sys.meta_path),"
        " traceback.TracebackException.__init__\n"
        "before = hooks()\n"
        "import whydevice\n"
        "from whydevice import watch\n"
        "assert hooks() == before\n"
    )
    assert outcome(run("script.py", cwd=tmp_path, env=environment(WHYDEVICE="0"))) == ("", "", 0)
