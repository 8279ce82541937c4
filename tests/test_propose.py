"""Which fixes are offered at all: never for a marked line, for text that is not what runs, nor for a library."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from whydevice.explain import explain
from whydevice.simulate import simulate_cuda
from whydevice.types import Explanation

HELPER = """\
import torch

def shifted(x):
    steps = torch.arange(x.shape[0])
    return x + steps
"""
SCRIPT = """\
import torch
import helper

x = torch.ones(3, device="cuda")
y = helper.shifted(x)
"""


def explained(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    helper: str = HELPER,
    before: Callable[[], None] = lambda: None,
) -> Explanation:
    """The explanation of SCRIPT; `before` runs once the helper is imported."""
    (folder / "helper.py").write_text(helper)
    (folder / "script.py").write_text(SCRIPT)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    linecache.clearcache()
    path = str(folder / "script.py")
    with simulate_cuda(1):
        try:
            exec(compile(SCRIPT, path, "exec"), {"__name__": "__main__", "__file__": path})
        except RuntimeError as error:
            before()
            found = explain(error)
            assert found is not None
            return found
    raise AssertionError("the devices agreed")


def test_the_fix_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [fix] = explained(tmp_path, monkeypatch).fixes
    assert (fix.applicability, [e.text for e in fix.edits]) == ("safe", [", device=x.device"])


def test_a_marked_line_is_not_edited_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked = HELPER.replace("shape[0])", "shape[0])  # whydevice: ignore")
    found = explained(tmp_path, monkeypatch, marked)
    [fix] = found.fixes
    assert (fix.applicability, fix.edits, fix.diff) == ("manual", (), "")
    assert fix.reason == "line 4 is marked `# whydevice: ignore`, so it is not edited"
    assert fix.reason in " ".join(str(found).split())


def _rewrite(path: Path, text: str) -> Callable[[], None]:
    return lambda: path.write_text(text) and None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import torch\n", "import torch\n\n\n"),
        ("steps = torch", "count = torch"),
        ("return x + steps", "return x + steps * 1"),
        ("x.shape[0])", "x.shape[0])  #"),
    ],
    ids=["moved", "renamed", "changed", "comment"],
)
def test_a_file_that_changed_since_its_import_is_not_edited(
    old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = HELPER.replace(old, new)
    found = explained(tmp_path, monkeypatch, before=_rewrite(tmp_path / "helper.py", changed))
    written = [fix for fix in found.fixes if fix.edits and fix.edits[0].file.endswith("helper.py")]
    if new.endswith("#"):
        assert written, "a comment changes no code"
        return
    assert not written
    assert all("it has changed since it was loaded" in fix.reason for fix in found.fixes if not fix.edits)


def test_a_file_that_is_not_writable_is_not_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = os.access  # the superuser may write anywhere
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    [fix] = explained(tmp_path, monkeypatch).fixes
    assert (fix.applicability, fix.edits) == ("manual", ())
    assert fix.reason == "helper.py is not writable, so it is not edited"


def test_a_library_is_not_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    found = explained(folder, monkeypatch)
    assert all(not fix.edits for fix in found.fixes)


def test_a_function_that_is_not_on_the_stack_is_compared_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = HELPER.replace("    steps = torch.arange(x.shape[0])\n", "    steps = count()\n")
    made += "\ndef count():\n    return torch.arange(3)\n"
    [fix] = explained(tmp_path, monkeypatch, made).fixes
    assert fix.edits
    now = made.replace("torch.arange(3)", "torch.arange(4)")
    found = explained(tmp_path, monkeypatch, made, _rewrite(tmp_path / "helper.py", now))
    assert not [e for fix in found.fixes for e in fix.edits if e.line > 5]


FILLER = "# filler\n" * 2000


def test_in_a_long_file_too_the_fix_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function is compiled by itself there, and calls what its file imports."""
    [fix] = explained(tmp_path, monkeypatch, HELPER + FILLER).fixes
    assert (fix.applicability, [e.text for e in fix.edits]) == ("safe", [", device=x.device"])


def _nested(depth: int, total: str = "x + steps") -> str:
    """A helper of nested calls, the failing one innermost; each holds a constant of its own."""
    text = "import torch\n\ndef shifted(x):\n    return level0(x)\n\n"
    for n in range(depth):
        text += f"def level{n}(x):\n    note = {n * 1000 + 7}\n    return level{n + 1}(x)\n\n"
    return f"{text}def level{depth}(x):\n    steps = torch.arange(3)\n    return {total}\n"


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("changed", [0, 4, 5, 11])
def test_of_a_long_file_the_nearest_eight_frames_are_compared(
    changed: int, long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`level5` to `level11` and the failing function are the nearest eight; of a short file all are compared."""
    made = _nested(12) + (FILLER if long else "")
    now = made.replace(f"note = {changed * 1000 + 7}\n", f"note = {changed * 1000 + 8}\n")
    assert now != made
    found = explained(tmp_path, monkeypatch, made, _rewrite(tmp_path / "helper.py", now))
    compared = not long or changed >= 5
    assert [fix.edits == () for fix in found.fixes] == [compared]
    assert found.fixes[0].reason.endswith("so it is not edited") is compared


def test_of_a_long_file_the_function_that_is_edited_is_compared_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _nested(12, "x + steps").replace("torch.arange(3)", "count()")
    made += "\ndef count():\n    return torch.arange(3)\n" + FILLER
    [fix] = explained(tmp_path, monkeypatch, made).fixes
    assert [e.line for e in fix.edits if "device" in e.text] != [] and fix.applicability != "manual"
    now = made.replace("torch.arange(3)", "torch.arange(4)")
    found = explained(tmp_path, monkeypatch, made, _rewrite(tmp_path / "helper.py", now))
    lines = made[: made.index("torch.arange(3)")].count("\n") + 1
    assert not [e for fix in found.fixes for e in fix.edits if e.line == lines]
