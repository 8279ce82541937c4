"""The renderers: the reports of the design word for word, and what holds for any explanation."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import render_cases as cases
from whydevice.render import layout, pages, terminal, tree
from whydevice.render.fixes import _code as changed_code
from whydevice.render.html import html
from whydevice.render.json import as_dict, document, to_dict
from whydevice.render.plain import text
from whydevice.render.source import Mark, Shown, code_rows
from whydevice.types import Also, Cause, Culprit, DeviceError, Edit, Explanation, Fix, Operand, Place

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


LONG_CODE = {
    "comment": ("f(a, b)  # much (more, and more) than " + "a row holds " * 3, ["f(a, b)  # much (more, and more) than..."]),
    "comment of a long line": ("f(aaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbb, ccccccccc)  # why", ["f(aaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbb,", "    ccccccccc)  # why"]),
    "comment without room": ("f(aaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbb, c)  # why", ["f(aaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbb, c)"]),
    "string": ("f('one, two (three', aaaaaaaaa, 'four, five, six, #7')", ["f('one, two (three', aaaaaaaaa,", "    'four, five, six, #7')"]),
}  # fmt: skip


@pytest.mark.parametrize(("written", "shown"), LONG_CODE.values(), ids=LONG_CODE)
def test_long_code_is_broken_in_no_comment_and_no_string(written: str, shown: list[str]) -> None:
    assert changed_code(written, 40) == shown


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
    explanation = replace(
        cases.BATCH,
        headline=f"`{nasty}` is on cpu",
        trail=(Place(cases.SCRIPT, 3, nasty, nasty, 0, 3, 1, nasty),),
        operands=(Operand(nasty, nasty, what=nasty, file=nasty, line=3),),
        notes=(nasty,),
        cause=Cause(nasty, "", ""),
    )
    shown = text(explanation, script=nasty)
    assert "\\x1b[31m\\u202e" in shown and "\\ud800\\u200b" in shown
    assert not control_characters(shown)
    assert not control_characters(html(explanation, script=nasty))


def test_markup_is_not_interpreted() -> None:
    explanation = replace(
        cases.BACKWARD, headline="[bold]`x[0]`[/bold] is <b>on</b> & cpu", notes=("<script>1</script>",)
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


def test_a_large_table_is_folded_with_a_count() -> None:
    rows = tuple(Operand(f"x{n}", f"cuda:{n % 2}", what="float32[3]") for n in range(20))
    explanation = replace(cases.BATCH, operands=(*rows, Operand("y", "cpu", culprit=True)), also=(), trail=())
    shown = text(explanation)
    assert "... and 13 more: 7 on cuda:1, 6 on cuda:0" in shown
    assert "\n  y " in shown and "x6" in shown and "x7" not in shown
    assert html(explanation).count("<tr>") == 22


def test_the_table_says_only_what_is_not_said() -> None:
    assert "operand" not in text(cases.TD)
    assert "operand" in text(replace(cases.TD, cause=None))
    unproven = replace(cases.BUFFER, cause=None, operands=(Operand("x", "cpu", role="mat1", inferred=True),))
    assert "cpu (inferred)" in text(unproven) and "as `mat1`" in text(unproven)


def test_the_footer_leaves_off_what_does_not_apply() -> None:
    assert "apply it" not in text(cases.AUGMENT, script="script.py")
    assert "more:" not in text(cases.BACKWARD, script="script.py")
    assert "apply it" not in text(cases.GRU, script="")
    real = replace(cases.GRU, environment=replace(cases.ENVIRONMENT, simulated=False))
    assert "apply it: python -m whydevice --fix -m pkg.train" in text(real, script="-m pkg.train")
    of_a_rank = replace(real, environment=replace(real.environment, rank=0))
    assert "apply it" not in text(of_a_rank, script="-m pkg.train")


def test_certainty_is_said_unless_certain() -> None:
    assert "[moved-after-dispatch, likely]" in text(cases.DISPATCH)
    assert "likely" not in text(replace(cases.DISPATCH, certainty="certain"))


def test_a_second_fix_and_a_fix_that_did_not_help() -> None:
    other = replace(cases.GRU.fixes[0], title="move it after", applicability="manual", reason="slower")
    shown = text(replace(cases.GRU, fixes=(replace(cases.GRU.fixes[0], verified=False), other)))
    assert "  or (manual): move it after\n      slower\n" in shown
    assert "not enough: the script still fails with it" in shown


def test_edits_without_a_diff_are_shown_from_the_sources() -> None:
    fix = replace(cases.GRU.fixes[0], diff="")
    assert "14 -        return torch.zeros(1" in text(replace(cases.GRU, fixes=(fix,)))
    assert "make it where" in text(replace(cases.GRU, fixes=(fix,), sources={}))


def test_a_fix_in_another_file_names_it() -> None:
    diff = "--- a/pkg/model.py\n+++ b/pkg/model.py\n@@ -2,2 +2,3 @@\n a\n+b\n c\n"
    edit = Edit(os.path.join(os.getcwd(), "pkg/model.py"), 3, 0, 3, 0, "b\n")
    shown = text(replace(cases.GRU, fixes=(Fix("add it", "safe", (edit,), diff),)))
    assert "    pkg/model.py:\n    2  a\n    3 +b\n" in shown


def test_a_long_diff_is_cut() -> None:
    diff = "--- a/script.py\n+++ b/script.py\n@@ -1,1 +1,30 @@\n" + "".join(f"+line {n}\n" for n in range(30))
    shown = text(replace(cases.GRU, fixes=(Fix("add them", "safe", (), diff),)))
    assert "+line 7" in shown and "line 8" not in shown and "... and 22 more lines" in shown


def test_a_source_that_lost_its_indentation_is_taken_from_the_file() -> None:
    place = replace(cases.GRU.trail[0], source=cases.GRU.trail[0].source.strip())
    shown = text(replace(cases.GRU, trail=(place, *cases.GRU.trail[1:])), script="script.py")
    assert shown == text(cases.GRU, script="script.py")


def test_columns_that_do_not_lie_in_the_source_underline_nothing() -> None:
    place = Place(cases.SCRIPT, 3, "x", "a note", 40, 3, 44)
    assert "script.py:3: fails here; a note" in text(replace(cases.BACKWARD, trail=(place,)))


def test_paths_are_relative_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    below, outside = str(tmp_path / "a" / "b.py"), str(tmp_path.parent / "c.py")
    trail = (Place(outside, 1, "x = 1", "first"), Place(below, 2, "y = 2", "then"), Place("<stdin>", 3))
    entry = to_dict(replace(cases.BACKWARD, trail=trail, culprit=Culprit("y", "cpu", None, below, 2)))
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
    assert to_dict(replace(cases.BATCH, error=DeviceError("E", "m", "B2")))["error"]["devices"] is None
    assert json.loads(document([cases.BATCH])) == as_dict([cases.BATCH])
    assert as_dict([]) == {"schema": 1, "explanations": []}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "color", "environment", "colored"),
    [
        (Terminal, "auto", {}, True),
        (io.StringIO, "auto", {}, False),
        (Terminal, "never", {"FORCE_COLOR": "1"}, False),
        (io.StringIO, "always", {"NO_COLOR": "1"}, True),
        (Terminal, "auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (Terminal, "auto", {"NO_COLOR": ""}, True),
        (io.StringIO, "auto", {"FORCE_COLOR": "1"}, True),
        (io.StringIO, "auto", {"FORCE_COLOR": "0"}, False),
        (Terminal, "auto", {"TERM": "dumb"}, False),
        (Terminal, "auto", {"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        (object, "auto", {}, False),
    ],
)
def test_color(
    stream: type, color: str, environment: dict[str, str], colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert terminal.wants_color(stream(), color) is colored


@pytest.mark.parametrize(("columns", "width"), [(60, 60), (250, 100), (0, 80)])
def test_width_is_the_terminals(columns: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    stream.fileno = lambda: 2  # type: ignore[method-assign]
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((columns, 24)))
    assert terminal.width_for(stream) == width
    assert terminal.width_for(io.StringIO()) == 80


def test_an_encoding_without_the_characters_does_not_fail() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    terminal.write(replace(cases.BATCH, headline="`é名` is on cpu", notes=("\udc80",)), stream)
    assert b"`\\xe9\\u540d` is on cpu" in raw.getvalue()


def test_rendering_imports_neither_torch_nor_rich(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]; import render_cases as cases, io\n"
        "from whydevice.render import terminal, html, json, plain, pages\n"
        "terminal.write(cases.GRU, io.StringIO(), 'always')\n"
        "html.html(cases.GRU); json.document([cases.GRU])\n"
        "print(sorted({'torch', 'rich', 'stack_data', 'numpy'} & set(sys.modules)))"
    )
    here = Path(__file__).parent
    out = subprocess.run(
        [sys.executable, "-c", script, str(here), str(here.parent / "src")],
        capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert out.stdout == "[]\n"


PAGE = """A batch was not moved.

What happened: a DataLoader yields its batches on the cpu, whatever device the model is on, and `model(x)`
then has operands on two devices.

- the first item is long enough to be wrapped at the eightieth column, with a hanging indent below its
  own text
- the second

Before:

    for x, y in loader:
        model(x)

```python
x = x.to(device)
```
"""


def test_page() -> None:
    assert pages.page(Cause("batch-not-moved", "A batch was not moved", PAGE)) == (
        """\
batch-not-moved: A batch was not moved

What happened: a DataLoader yields its batches on the cpu, whatever device the
model is on, and `model(x)` then has operands on two devices.

- the first item is long enough to be wrapped at the eightieth column, with a
  hanging indent below its own text
- the second

Before:

    for x, y in loader:
        model(x)

    x = x.to(device)"""
    )


def test_listing() -> None:
    causes = [
        Cause("a", "first", ""),
        Cause("a-name-that-is-far-too-long-for-the-column", "second " * 20, ""),
    ]
    lines = pages.listing(causes).split("\n")
    assert lines[0] == "  a" + " " * 35 + "first"
    assert all(len(line) <= 80 for line in lines) and "--explain NAME" in lines[-1]
    assert pages.listing([])


def control_characters(shown: str) -> list[str]:
    return [c for c in shown if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


names = st.text(max_size=60) | st.sampled_from(
    ["x", "self.model.layers[0]", "batch['ids']", "a" * 300, "名" * 50]
)
devices = st.sampled_from(["cpu", "cuda:0", "cuda:1", "meta"])
sources = st.sampled_from(
    ["y = f(x)", "    z = x + self.model.layers[0](x)", "\tout = " + "x + " * 60 + "y", "名前 = f(値, x)", ""]
) | st.text(max_size=200)
lines = st.integers(1, 10**6)
files = st.sampled_from([cases.SCRIPT, cases.LIBRARY, "/a/" + "long/" * 40 + "file.py", "<stdin>"]) | names
places = st.builds(
    Place,
    files,
    lines,
    sources,
    names,
    st.none() | st.integers(0, 90),
    lines,
    st.integers(0, 120),
    st.none() | names,
)
operands = st.builds(
    Operand, names, st.none() | devices, culprit=st.booleans(), what=names, inferred=st.booleans(),
    role=st.none() | names, file=st.none() | files, line=st.none() | lines,
)  # fmt: skip
edits = st.builds(Edit, files, lines, st.integers(0, 90), lines, st.integers(0, 90), sources)
diffs = st.lists(st.sampled_from("-+ @\\") | sources, max_size=40).map(
    lambda parts: "--- a/script.py\n+++ b/script.py\n@@ -3,4 +3,9 @@\n" + "".join(parts)
)
fixes = st.builds(
    Fix, names, st.sampled_from(["safe", "unsafe", "manual"]), st.lists(edits, max_size=3).map(tuple), diffs,
    st.sampled_from([None, True, False]), names,
)  # fmt: skip
explanations = st.builds(
    Explanation,
    st.builds(DeviceError, names, names, st.just("B1"), st.lists(devices, max_size=3).map(tuple)),
    st.sampled_from(["certain", "likely", "possible"]),
    names,
    st.just(cases.ENVIRONMENT),
    st.none() | st.builds(Cause, names, names, names),
    st.none() | st.builds(Culprit, names, devices, devices, files, lines),
    st.none() | places,
    st.lists(places, max_size=12).map(tuple),
    st.lists(operands, max_size=25).map(tuple),
    st.lists(st.builds(Also, names, devices, devices, files, lines), max_size=5).map(tuple),
    st.lists(fixes, max_size=3).map(tuple),
    st.lists(names, max_size=6).map(tuple),
    st.dictionaries(files, sources, max_size=3),
)


@settings(max_examples=150, deadline=None)
@given(explanations, st.integers(40, 120))
def test_any_explanation_fits(explanation: Explanation, width: int) -> None:
    shown = text(explanation, width)
    rows = shown.split("\n")
    assert len(rows) <= layout.MOST_LINES
    assert not control_characters(shown)
    for row in rows:
        assert tree.width_of(row) <= width
        assert row == row.rstrip()
    page = html(explanation)
    assert not control_characters(page)
    json.loads(document([explanation]))
    pages.page(explanation.cause or Cause("a", "b", shown))
