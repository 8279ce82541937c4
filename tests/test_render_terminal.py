"""Colour, width and encoding of a stream; what rendering imports."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import render_cases as cases
from processes import HANGS
from whydevice.render import terminal


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
    terminal.write(cases.BATCH._replace(headline="`é名` is on cpu", notes=("\udc80",)), stream)
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
        capture_output=True, text=True, check=True, timeout=HANGS, cwd=tmp_path,
    )  # fmt: skip
    assert out.stdout == "[]\n"
