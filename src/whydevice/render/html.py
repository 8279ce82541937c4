"""An explanation as HTML for a notebook: self-contained, in the notebook's own colours, light or dark."""

from __future__ import annotations

from html import escape

from ..types import Explanation
from . import layout
from .tree import Block, Line, clean, visible

_WIDTH = 100
_MOST_CELL_LINES = 30
"""A longer cell is folded."""
# Jupyter's variables where they are set, else the system's theme; the switch of Jupyter, VS Code or Colab comes last.
_LIGHT = (
    "--wd-red:#b42318;--wd-green:#19713a;--wd-blue:#1f5fbf;--wd-warn:#8a5a00;--wd-tag:#8250a8;--wd-dim:#666;"
)
_DARK = (
    "--wd-red:#ff8a80;--wd-green:#7ddc93;--wd-blue:#8ab8ff;"
    "--wd-warn:#e5b567;--wd-tag:#d3a6ff;--wd-dim:#a8a8a8;"
)
_RULES = (
    f".whydevice{{{_LIGHT}color:var(--jp-content-font-color1,inherit);border-left:3px solid var(--wd-red);"
    "padding:.2em 0 .2em .8em;margin:.5em 0;overflow-x:auto;"
    "font-size:var(--jp-code-font-size,13px);line-height:1.35}"
    ".whydevice pre,.whydevice td,.whydevice th,.whydevice summary{font-family:var(--jp-code-font-family,"
    "ui-monospace,Menlo,Consolas,monospace);font-size:inherit;background:none;color:inherit;border:0;"
    "line-height:inherit}"
    ".whydevice pre{margin:0 0 .8em;padding:0;white-space:pre}"
    ".whydevice details{margin:0 0 .8em}.whydevice summary{cursor:pointer}"
    ".whydevice table{border-collapse:collapse;margin:.3em 0 0 1em;font-size:inherit;color:inherit}"
    ".whydevice tr,.whydevice tr:hover{background:none}"
    ".whydevice td,.whydevice th{text-align:left;padding:.1em 1.2em .1em 0}.whydevice th{font-weight:normal}"
    ".whydevice .title{font-weight:bold}.whydevice .tag{color:var(--wd-tag)}"
    ".whydevice .place,.whydevice .gutter,.whydevice .other{color:var(--wd-blue)}"
    ".whydevice .culprit{color:var(--wd-red);font-weight:bold}.whydevice .removed{color:var(--wd-red)}"
    ".whydevice .added{color:var(--wd-green)}.whydevice .good{color:var(--wd-green);font-weight:bold}"
    ".whydevice .warn{color:var(--wd-warn);font-weight:bold}"
    ".whydevice .dim,.whydevice th{color:var(--wd-dim)}"
    f"@media (prefers-color-scheme:dark){{.whydevice{{{_DARK}}}}}"
    f"[data-jp-theme-light=true] .whydevice,.vscode-light .whydevice,[theme=light] .whydevice{{{_LIGHT}}}"
    f"[data-jp-theme-light=false] .whydevice,.vscode-dark .whydevice,.vscode-high-contrast .whydevice,"
    f"[theme=dark] .whydevice{{{_DARK}}}.vscode-high-contrast-light .whydevice{{{_LIGHT}}}"
)
# Said thrice, the class outranks what a notebook has for all tables: JupyterLab's stripes, right-aligned cells.
_STYLE = _RULES.replace(".whydevice ", 3 * ".whydevice" + " ")


def html(explanation: Explanation, *, script: str | None = None) -> str:
    """A `<div>` with its own style sheet; nothing is loaded, and everything from the program is escaped."""
    made = layout.blocks(explanation, _WIDTH, script)
    body = ""
    for block in made:
        body += _table(block) if block.kind == "operands" else _pre(block)
        if block.kind == "fix" and block is next(one for one in made if one.kind == "fix"):
            body += "".join(_cell(name, text) for name, text in explanation.fixes[0].cells)
    return f'<div class="whydevice"><style>{_STYLE}</style>{body}</div>'


def _cell(name: str, text: str) -> str:
    """A cell as it is with the fix, to be copied over the old one."""
    opened = " open" if text.count("\n") < _MOST_CELL_LINES else ""
    # What would not show is spelt out here too, for a cell can hide it as any file can.
    shown = "".join(char if char in "\t\n" else visible(char) for char in text.rstrip())
    return (
        f"<details{opened}><summary>{escape(clean(name))} with the fix</summary>"
        f"<pre>{escape(shown)}</pre></details>"
    )


def _pre(block: Block) -> str:
    return "<pre>" + "\n".join(_line(line) for line in block.lines) + "</pre>"


def _line(line: Line) -> str:
    parts = []
    for span in line:
        text = escape(span.text)
        parts.append(
            f'<span class="{span.style}">{text}</span>' if span.style and span.text.strip() else text
        )
    return "".join(parts)


def _table(block: Block) -> str:
    head, *rows = block.rows
    cells = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    for at, row in enumerate(rows):
        marked = ' class="culprit"' if at in block.culprits else ""
        # Of a culprit's row the operand and its device are coloured, as on a terminal.
        data = (f"<td{marked if column < 2 else ''}>{escape(cell)}</td>" for column, cell in enumerate(row))
        cells.append("<tr>" + "".join(data) + "</tr>")
    title = f"{len(rows)} operand{'s' * (len(rows) != 1)}"
    return f"<details><summary>{title}</summary><table>{''.join(cells)}</table></details>"
