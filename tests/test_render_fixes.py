"""Fixes in a report: which lines are shown, and how long code is broken."""

from __future__ import annotations

import ast
import json
import os
import textwrap
from pathlib import Path

import pytest

import render_cases as cases
from whydevice.edits import plan
from whydevice.render import fixes
from whydevice.render.json import document
from whydevice.render.plain import text
from whydevice.source import Source
from whydevice.types import Edit, Fix


def test_a_second_fix_and_a_fix_that_did_not_help() -> None:
    other = cases.GRU.fixes[0]._replace(title="move it after", applicability="manual", reason="slower")
    shown = text(cases.GRU._replace(fixes=(cases.GRU.fixes[0]._replace(verified=False), other)))
    assert "  or (manual): move it after\n      slower\n" in shown
    assert "not enough: the script still fails with it" in shown


def test_edits_without_a_diff_are_shown_from_the_sources() -> None:
    fix = cases.GRU.fixes[0]._replace(diff="")
    assert "14 -        return torch.zeros(1" in text(cases.GRU._replace(fixes=(fix,)))
    assert "make it where" in text(cases.GRU._replace(fixes=(fix,), sources={}))


def test_a_fix_in_another_file_names_it() -> None:
    diff = "--- a/pkg/model.py\n+++ b/pkg/model.py\n@@ -2,2 +2,3 @@\n a\n+b\n c\n"
    edit = Edit(os.path.join(os.getcwd(), "pkg/model.py"), 3, 0, 3, 0, "b\n")
    shown = text(cases.GRU._replace(fixes=(Fix("add it", "safe", (edit,), diff),)))
    assert "    pkg/model.py:\n    2  a\n    3 +b\n" in shown


def test_a_long_diff_is_cut() -> None:
    diff = "--- a/script.py\n+++ b/script.py\n@@ -1,1 +1,30 @@\n" + "".join(f"+line {n}\n" for n in range(30))
    shown = text(cases.GRU._replace(fixes=(Fix("add them", "safe", (), diff),)))
    assert "+line 11" in shown and "line 12" not in shown and "... and 18 more lines" in shown


LONG = [
    "return self.states[idx.cpu()].to(device), self.rewards[idx.cpu()].to(device)",
    "ready = self.cached_keys is None or self.cached_keys.device != self.key.weight.device",
    "on_real, on_fake = discriminator(real), discriminator(fake.to(real.device))",
    "accuracy = sum((probe(x.to(device)).argmax(1) == y).sum().item() for x, y in loader) / 20",
    "self.kx = torch.tensor([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]])[None, None]",
    "targets = [{k: v.to(device) if k == 'a, (b' else v for k, v in t.items()} for t in targets]",
    "loss = build(first['loss, (and more'], second[\"it's\"], third).to(first['device'], second)",
]


@pytest.mark.parametrize("code", LONG)
@pytest.mark.parametrize("room", [48, 60, 73])
def test_code_is_broken_where_it_still_means_the_same(code: str, room: int) -> None:
    rows = fixes._code("    " + code, room)
    assert max(map(len, rows)) <= room and len(rows) > 1
    if not rows[-1].endswith("..."):
        shown = ast.parse("def f():\n" + "\n".join(rows))
        assert ast.dump(shown) == ast.dump(ast.parse("def f():\n" + textwrap.indent(code, "    ")))


LONG_CODE = {
    "comment": ("f(a, b)  # much (more, and more) than " + "a row holds " * 3, ["f(a, b)  # much (more, and more) than..."]),
    "comment of a long line": ("f(aaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbb, ccccccccc)  # why", ["f(aaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbb,", "    ccccccccc)  # why"]),
    "comment without room": ("f(aaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbb, c)  # why", ["f(aaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbb, c)"]),
    "string": ("f('one, two (three', aaaaaaaaa, 'four, five, six, #7')", ["f('one, two (three', aaaaaaaaa,", "    'four, five, six, #7')"]),
}  # fmt: skip


@pytest.mark.parametrize(("written", "shown"), LONG_CODE.values(), ids=LONG_CODE)
def test_long_code_is_broken_in_no_comment_and_no_string(written: str, shown: list[str]) -> None:
    assert fixes._code(written, 40) == shown


def test_the_edits_of_json_are_applied_as_its_line_says(tmp_path: Path) -> None:
    old = "a = 'é😀'; b = f(a)\nc = 1\n"
    path = str(tmp_path / "script.py")
    edits = (
        Edit(path, 1, 17, 1, 17, ".to(d)"),
        Edit(path, 1, 4, 1, 8, "x"),
        Edit(path, 2, 0, 3, 0, "c = 2\nd = 3\n"),
    )
    found = cases.BATCH._replace(fixes=(Fix("t", "safe", edits), Fix("t", "manual", reason="r")))
    made, none = json.loads(document([found]))["explanations"][0]["fixes"]
    assert none["to_apply"] is None
    assert "the last of a file first (lines from 1, columns from 0 in characters)" in made["to_apply"]
    lines = old.split("\n")
    at = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
    new = old
    for e in sorted(made["edits"], key=lambda e: (e["line"], e["column"]), reverse=True):
        start, end = at[e["line"] - 1] + e["column"], at[e["end_line"] - 1] + e["end_column"]
        new = new[:start] + e["text"] + new[end:]
    assert new == plan(edits, {path: Source.from_text(path, old)})[path]
