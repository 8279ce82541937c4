"""The HTML of a notebook in a real browser: readable in light and dark, the table folded, nothing cut off."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import render_cases as cases
from processes import HANGS
from whydevice.render.html import html
from whydevice.render.plain import text

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# What each front end puts around an output, as its own themes do: attributes of <html>, of <body>, and whether
# the system's theme is dark. The last two follow the system alone.
THEMES = {
    "JupyterLab light": ("", 'data-jp-theme-light="true" style="--jp-content-font-color1:rgba(0,0,0,.87);background:#fff"', True),
    "JupyterLab dark": ("", 'data-jp-theme-light="false" style="--jp-content-font-color1:#fff;background:#111"', False),
    "VS Code light": ("", 'class="vscode-light" style="color:#3b3b3b;background:#fff"', True),
    "VS Code dark": ("", 'class="vscode-dark" style="color:#ccc;background:#1f1f1f"', False),
    "Colab light": ('theme="light"', 'style="color:#212121;background:#fff"', True),
    "Colab dark": ('theme="dark"', 'style="color:#d5d5d5;background:#383838"', False),
    "a page in the light": ("", 'style="color:#000;background:#fff"', False),
    "a page in the dark": ("", 'style="color:#eee;background:#121212"', True),
}  # fmt: skip

PAGE = """\
<!DOCTYPE html><html {root}><meta charset="utf-8"><body {body}>{shown}<script>
const number = text => text.match(/[\\d.]+/g).map(Number);
const over = (top, below) => top.slice(0, 3).map((c, i) => c * (top[3] ?? 1) + below[i] * (1 - (top[3] ?? 1)));
const light = color => color.slice(0, 3).map(c => c / 255).map(
    c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4).reduce((s, c, i) => s + c * [.2126, .7152, .0722][i], 0);
const ground = number(getComputedStyle(document.body).backgroundColor);
const details = [...document.querySelectorAll(".whydevice details")];
const result = {{
    folded: details.filter(d => !d.open).length,
    hidden: [...document.querySelectorAll("table")].filter(t => t.checkVisibility()).length,
    heading: document.querySelector(".whydevice pre").getBoundingClientRect().height,
}};
details.forEach(d => d.open = true);
const walk = document.createTreeWalker(document.querySelector(".whydevice"), NodeFilter.SHOW_TEXT);
const contrasts = {{}};
while (walk.nextNode()) {{
    const of = walk.currentNode.parentElement;
    if (of.tagName == "STYLE" || !walk.currentNode.data.trim()) continue;
    const color = over(number(getComputedStyle(of).color), ground);
    const pair = [light(color), light(ground)].sort((a, b) => b - a);
    contrasts[of.className || of.tagName] = (pair[0] + .05) / (pair[1] + .05);
}}
result.contrasts = contrasts;
result.rows = document.querySelectorAll("table tr").length;
result.shown = [...document.querySelectorAll("table")].filter(t => t.checkVisibility()).length;
result.wide = document.documentElement.scrollWidth - innerWidth;
result.text = document.querySelector(".whydevice").innerText;
document.body.innerHTML = "<pre id=result></pre>";
document.getElementById("result").textContent = JSON.stringify(result);
</script></body></html>
"""


def _look(folder: Path, theme: str, explanation: Any) -> dict[str, Any]:
    """What the browser makes of the page."""
    root, body, dark = THEMES[theme]
    page = folder / "page.html"
    page.write_text(PAGE.format(root=root, body=body, shown=html(explanation, script="script.py")))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    flags += ["--window-size=700,900", f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    assert CHROMIUM is not None
    done = subprocess.run(
        [CHROMIUM, *flags, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=HANGS
    )
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.S)
    assert found is not None, done.stdout + done.stderr
    result = json.loads(unescape(found[1]))
    assert isinstance(result, dict)
    return result


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize("theme", THEMES)
def test_a_page_is_readable(theme: str, tmp_path: Path) -> None:
    shown = _look(tmp_path, theme, cases.GRU)
    assert min(shown["contrasts"].values()) >= 4.5, shown["contrasts"]
    assert (shown["folded"], shown["hidden"], shown["shown"]) == (1, 0, 1)
    assert shown["rows"] == len(cases.GRU.operands) + 1
    assert shown["wide"] <= 0, "what is long scrolls inside the block"
    said = " ".join(shown["text"].split())
    for line in text(cases.GRU, script="script.py").splitlines():
        for word in line.split():
            assert word in said or word in ("operand", "device", "what"), word
