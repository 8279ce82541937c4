"""The renderers: the reports of the design word for word, and what holds for any explanation."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pytest
from rich.console import Console

import render_cases as cases
from whydevice.render import terminal, tree
from whydevice.render.html import html
from whydevice.render.json import as_dict, document, to_dict
from whydevice.render.plain import text
from whydevice.render.source import Mark, Shown, code_rows
from whydevice.types import Cause, Culprit, DeviceError, Operand, Place

REPORTS = Path(__file__).parent / "data/reports"


@pytest.mark.parametrize("name", cases.ALL)
def test_report(name: str) -> None:
    assert text(cases.ALL[name], script="script.py") + "\n" == (REPORTS / f"{name}.txt").read_text("utf-8")


def test_every_renderer_says_the_same() -> None:
    for explanation in cases.ALL.values():
        lines = text(explanation).split("\n")
        assert [line.plain.rstrip() for line in terminal.renderables(explanation, 80)] == lines
        stream = io.StringIO()
        terminal.write(explanation, stream, "always")
        colored = stream.getvalue()
        assert "\x1b[" in colored
        assert re.sub(r"\x1b\[[0-9;]*m", "", colored).split("\n")[1:-1] == lines


def test_types_reach_the_renderers() -> None:
    assert str(cases.GRU) == text(cases.GRU)
    assert cases.GRU.to_dict() == to_dict(cases.GRU)
    assert cases.GRU._repr_html_() == html(cases.GRU)
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(cases.GRU)
    assert [line.rstrip() for line in console.file.getvalue().split("\n")[:-1]] == text(cases.GRU).split("\n")  # type: ignore[attr-defined]


def code(raw: str, *marks: Mark, width: int = 60) -> list[str]:
    return [tree.line_text(tree.trimmed(line)) for line in code_rows(Shown.of(raw), list(marks), 0, width)]


def test_a_tab_is_expanded_and_the_underline_follows() -> None:
    assert code("\tx = y", Mark(5, 6, "cpu", True)) == ["    x = y", "        ^ cpu"]


def test_wide_characters_keep_the_underline_below_its_text() -> None:
    assert code("名前 = 値 + x", Mark(9, 10, "cpu", True)) == ["名前 = 値 + x", " " * 12 + "^ cpu"]
    assert code("f('e\u0301', x)", Mark(8, 9, "", True))[1] == " " * 7 + "^"


def test_a_long_line_is_cut_around_what_is_marked() -> None:
    raw = "result = " + "a + " * 40 + "model(batch) + " + "b + " * 40 + "c"
    start = raw.index("batch")
    rows = code(raw, Mark(start, start + 5, "on cpu", True))
    assert rows[0].startswith("...") and rows[0].endswith("...") and len(rows[0]) == 60
    assert rows[0][rows[1].index("^") :].startswith("batch")


def test_marks_too_far_apart_show_the_culprit() -> None:
    raw = "x = left + " + "a + " * 40 + "right"
    rows = code(raw, Mark(4, 8, "on cuda:0"), Mark(raw.index("right"), len(raw), "on cpu", True))
    assert "right" in rows[0] and "^^^^^" in rows[1] and "left" not in rows[0]


def test_labels_stand_below_each_other() -> None:
    rows = code("f(aa, bb, cc)", Mark(2, 4, "one"), Mark(6, 8, "two", True), Mark(10, 12, "three"))
    assert rows == [
        "f(aa, bb, cc)",
        "  --  ^^  -- three",
        "  |   |",
        "  |   two",
        "  |",
        "  one",
    ]


def test_what_does_not_print_is_spelt_out() -> None:
    nasty = "x\x1b[31m\u202e = \ud800\u200b"
    explanation = cases.BATCH._replace(
        headline=f"`{nasty}` is on cpu",
        trail=(Place(cases.SCRIPT, 3, nasty, nasty, 0, 3, 1, nasty),),
        operands=(Operand(nasty, nasty, what=nasty, file=nasty, line=3),),
        notes=(nasty,),
        cause=Cause(nasty, "", ""),
    )
    shown = text(explanation, script=nasty)
    assert "\\x1b[31m\\u202e" in shown and "\\ud800\\u200b" in shown
    assert not cases.control_characters(shown)
    assert not cases.control_characters(html(explanation, script=nasty))


def test_markup_is_not_interpreted() -> None:
    explanation = cases.BACKWARD._replace(
        headline="[bold]`x[0]`[/bold] is <b>on</b> & cpu", notes=("<script>1</script>",)
    )
    assert "[bold]`x[0]`[/bold] is <b>on</b>" in text(explanation, 100)
    assert "[bold]" in next(iter(terminal.renderables(explanation, 100))).plain
    page = html(explanation)
    assert "<script" not in page and "<b>" not in page and "&lt;b&gt;on&lt;/b&gt; &amp; cpu" in page


def test_html_loads_nothing_and_folds_the_table() -> None:
    page = html(cases.BATCH, script="script.py")
    assert page.count("<details>") == 1 and '<td class="culprit">x</td>' in page
    assert "prefers-color-scheme:dark" in page and "--jp-" in page
    assert not re.search(r"https?:|url\(|@import|<script|src=", page)
    assert page.startswith("<div") and page.endswith("</div>")
    open_tags: list[str] = []
    for closing, tag in re.findall(r"<(/?)(\w+)[^>]*>", page):
        if closing:
            assert open_tags.pop() == tag
        else:
            open_tags.append(tag)
    assert not open_tags


def test_the_table_looks_the_same_where_a_notebook_styles_all_tables() -> None:
    # JupyterLab's own rules for rendered HTML have up to two classes and two elements (`tbody tr:nth-child(odd)`).
    style = html(cases.BATCH).partition("</style>")[0]
    rules = re.findall(r"([^{}]+)\{[^{}]*\}", style)
    cells = [
        one for rule in rules for one in rule.split(",") if one.endswith((" td", " th", " tr", " table"))
    ]
    assert cells and all(one.count(".whydevice") == 3 for one in cells)


def test_the_footer_leaves_off_what_does_not_apply() -> None:
    assert "apply it" not in text(cases.AUGMENT, script="script.py")
    assert "more:" not in text(cases.BACKWARD, script="script.py")
    assert "apply it" not in text(cases.GRU, script="")
    real = cases.GRU._replace(environment=cases.ENVIRONMENT._replace(simulated=False))
    assert "apply it: python -m whydevice --fix -m pkg.train" in text(real, script="-m pkg.train")
    three = cases.GRU._replace(environment=cases.ENVIRONMENT._replace(gpus=3))
    assert "whydevice --simulate-cuda=3 --fix a.py" in text(three, script="a.py")
    of_a_rank = real._replace(environment=real.environment._replace(rank=0))
    assert "apply it" not in text(of_a_rank, script="-m pkg.train")


def test_certainty_is_said_unless_certain() -> None:
    assert "[moved-after-dispatch, likely]" in text(cases.DISPATCH)
    assert "likely" not in text(cases.DISPATCH._replace(certainty="certain"))


def test_a_source_that_lost_its_indentation_is_taken_from_the_file() -> None:
    place = cases.GRU.trail[0]._replace(source=cases.GRU.trail[0].source.strip())
    shown = text(cases.GRU._replace(trail=(place, *cases.GRU.trail[1:])), script="script.py")
    assert shown == text(cases.GRU, script="script.py")


def test_columns_that_do_not_lie_in_the_source_underline_nothing() -> None:
    place = Place(cases.SCRIPT, 3, "x", "a note", 40, 3, 44)
    assert "script.py:3: fails here; a note" in text(cases.BACKWARD._replace(trail=(place,)))


def test_paths_are_relative_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    below, outside = str(tmp_path / "a" / "b.py"), str(tmp_path.parent / "c.py")
    trail = (Place(outside, 1, "x = 1", "first"), Place(below, 2, "y = 2", "then"), Place("<stdin>", 3))
    entry = to_dict(cases.BACKWARD._replace(trail=trail, culprit=Culprit("y", "cpu", None, below, 2)))
    assert [place["file"] for place in entry["trail"]] == [outside, os.path.join("a", "b.py"), "<stdin>"]
    assert entry["culprit"]["file"] == os.path.join("a", "b.py")


def test_json_is_the_contract() -> None:
    entry = to_dict(cases.BATCH)
    assert set(entry) >= {
        "error", "certainty", "cause", "culprit", "root", "trail", "operands", "also", "fixes", "environment",
    }  # fmt: skip
    assert set(entry["error"]) >= {"type", "message", "family", "devices", "argument", "op"}
    assert set(entry["cause"]) == {"name", "title", "page"}
    assert set(entry["culprit"]) == {"expression", "device", "wanted", "file", "line"}
    assert set(entry["trail"][0]) == {"file", "line", "source", "note"}
    assert set(entry["operands"][0]) >= {
        "expression", "role", "kind", "device", "dtype", "shape", "file", "line", "culprit",
    }  # fmt: skip
    assert set(entry["also"][0]) == {"expression", "device", "wanted", "file", "line"}
    assert set(entry["fixes"][0]) >= {"title", "applicability", "edits", "diff", "verified"}
    assert set(entry["fixes"][0]["edits"][0]) == {"file", "line", "column", "end_line", "end_column", "text"}
    assert entry["environment"] == {"python": "3.11.2", "torch": "2.13.0", "simulated": True, "rank": None}
    assert entry["error"]["argument"] is None and entry["root"] is None
    assert to_dict(cases.BACKWARD)["cause"] is None and to_dict(cases.BACKWARD)["culprit"] is None
    assert to_dict(cases.BATCH._replace(error=DeviceError("E", "m", "B2")))["error"]["devices"] is None
    assert json.loads(document([cases.BATCH])) == as_dict([cases.BATCH])
    assert as_dict([]) == {"schema": 1, "explanations": []}
