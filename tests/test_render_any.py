"""Whatever an explanation holds, the report fits, and nothing in it is invisible."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

import render_cases as cases
from whydevice.render import layout, pages, tree
from whydevice.render.html import html
from whydevice.render.json import document
from whydevice.render.plain import text
from whydevice.types import Also, Cause, Culprit, DeviceError, Edit, Explanation, Fix, Operand, Place

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
    st.sampled_from([None, True, False]), names, st.lists(st.tuples(names, sources), max_size=2).map(tuple),
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
    assert not cases.control_characters(shown)
    for row in rows:
        assert tree.width_of(row) <= width
        assert row == row.rstrip()
    page = html(explanation)
    assert not cases.control_characters(page.replace("\t", ""))  # those of a cell, to be copied, stay
    json.loads(document([explanation]))
    pages.page(explanation.cause or Cause("a", "b", shown))
