"""Line numbers and offsets, against a plain reading of the whole text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydevice.source import lines
from whydevice.source.lines import Lines


@given(st.text(alphabet="ab\n\r\f\u2028", max_size=60), st.sampled_from([1, 2, 3, 7, 100]))
def test_lines_are_those_of_the_whole_text(text: str, stretch: int) -> None:
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_STRETCH", stretch)
        read = Lines(text)
        assert read.count == len(starts)
        assert [read.start(line) for line in range(1, read.count + 1)] == starts
        for offset in range(len(text) + 1):
            line = read.at(offset)
            assert starts[line - 1] <= offset
            assert line == len(starts) or offset < starts[line]


@pytest.mark.parametrize("line", [0, -1, 4])
def test_a_line_that_is_not_there(line: int) -> None:
    with pytest.raises(IndexError):
        Lines("a\nb\n").start(line)
