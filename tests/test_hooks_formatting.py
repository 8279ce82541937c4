"""What the user's own code prints of an error that it caught: no entry of ours, and as without us afterwards."""

from __future__ import annotations

import textwrap
from pathlib import Path

from processes import LIGHT, outcome, run, why

PRINTS = """\
import logging, sys, traceback, torch

def shifted(a):
    return a - torch.ones(3)

try:
    shifted(torch.ones(3, device="cuda"))
except RuntimeError as exc:
    traceback.print_exc()
    logging.exception("failed")
    print(traceback.format_exc())
    traceback.print_exception(type(exc), exc, exc.__traceback__.tb_next)
    try:
        raise KeyError("again") from exc
    except KeyError:
        traceback.print_exc()
"""


def test_what_the_user_prints_under_simulated_cuda(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PRINTS)
    done = why("--simulate-cuda", "script.py", cwd=tmp_path)
    assert done.returncode == 0
    text = done.stdout + done.stderr
    assert text.count("Traceback") == 6
    assert text.count("in shifted\n    return a - torch.ones(3)\n") == 5
    files = [line.split('"')[1] for line in text.splitlines() if line.startswith('  File "')]
    assert {Path(file).name for file in files} == {"script.py"}


def test_a_watched_function_shows_no_entry_of_ours(tmp_path: Path) -> None:
    script = """\
    import traceback
    before = traceback.TracebackException.__init__
    import whydevice
    assert traceback.TracebackException.__init__ is before
    watched = whydevice.watch()(shifted)
    try:
        watched(3)
    except RuntimeError:
        print(traceback.format_exc().count("File"))
    whydevice.uninstall()
    assert traceback.TracebackException.__init__ is before
    """
    (tmp_path / "script.py").write_text(LIGHT + textwrap.dedent(script))
    done = run("script.py", cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("2\n", 0), done.stderr


def test_a_wrapper_that_another_tool_has_put_over_ours_stays(tmp_path: Path) -> None:
    script = """\
    import traceback
    first = traceback.TracebackException.__init__
    import whydevice
    whydevice.watch
    ours = traceback.TracebackException.__init__
    theirs = lambda self, *args, **options: ours(self, *args, **options)
    traceback.TracebackException.__init__ = theirs
    whydevice.uninstall()
    assert traceback.TracebackException.__init__ is theirs
    try:
        1 / 0
    except ZeroDivisionError:
        print(traceback.format_exc().count("ZeroDivisionError"))
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    assert outcome(run("script.py", cwd=tmp_path)) == ("1\n", "", 0)
