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
