"""A report shows names, types, shapes, devices and the user's own lines: no values; and nothing in it takes effect."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from runner import Runner
from whydevice.catch import ranks
from whydevice.evidence.infer import canonical
from whydevice.evidence.passive import shown_key
from whydevice.explain import explain
from whydevice.render.json import document
from whydevice.simulate import simulate_cuda

SECRET = "hunter2SECRET"

SCRIPT = """\
import os, sys
import torch
from torch import nn

password = sys.argv[1]
token = os.environ["API_TOKEN"]


class Client:
    def __init__(self, key):
        self.key = key
        self.headers = {"Authorization": key, key: key}
        self.device = "cpu:" + key

    def __repr__(self):
        return self.key


class Net(nn.Module):
    def __init__(self, client):
        super().__init__()
        self.client = client
        self.table = {password: torch.ones(4), "plain": torch.ones(4)}
        self.fc = nn.Linear(4, 4)

    def forward(self, batch, name=password):
        x = self.fc(batch["x"])
        return x + self.table[name]


client = Client(token)
device = client.device if len(sys.argv) > 9 else "cuda"
model = Net(client).to(device)
users = {token + "@example.org": torch.ones(3, 4), "x": torch.ones(3, 4, device="cuda"), password: token}
print(model(users, name=password))
"""


@pytest.mark.parametrize("failing", ["table", "batch", "stack"])
def test_no_value_environment_or_command_line_is_shown(failing: str, command: Runner, tmp_path: Path) -> None:
    script = SCRIPT
    if failing == "batch":
        script = script.replace('batch["x"]', "batch[token + '@example.org']")
    elif failing == "stack":
        script = script.replace(
            "print(model(users, name=password))", "torch.stack(list(users.values())[:2])\nmodel(users)"
        )
    (tmp_path / "script.py").write_text(script)
    argv = ["--simulate-cuda", "--json", "out.json", "script.py", SECRET + "argv"]
    done = command.run(argv, tmp_path, env={"API_TOKEN": SECRET + "env"})
    block = done.stderr[done.stderr.index("\nwhydevice: ") :]
    text = (tmp_path / "out.json").read_text()
    assert json.loads(text)["explanations"], done.stderr
    assert SECRET not in block
    assert SECRET not in text


def test_keys_are_shown_as_names_or_not_at_all() -> None:
    assert [shown_key(k) for k in ("x", "input_ids", "fc.weight", "layers/0", 3, -1, "block12")] == [
        '["x"]', '["input_ids"]', '["fc.weight"]', '["layers/0"]', "[3]", "[-1]", '["block12"]',
    ]  # fmt: skip
    hidden = ("a b", "me@example.org", "sk-live-4f3a", "", "x" * 50, "+49 170 1234567", "4111111111111111", 10**12,
              1.5, None, True, ("a",), "\x1b[31m", "<b>", "AKIA0123456789ABCDEF", "päss")  # fmt: skip
    assert {shown_key(k) for k in hidden} == {"[...]"}


def test_text_that_only_starts_like_a_device_is_none() -> None:
    assert canonical("cuda:1") == "cuda:1"
    assert [canonical(t) for t in ("cpu:hunter2", "cuda:0 secret", "cuda:", "cpu\n", "cuda:12345")] == [
        None
    ] * 5


NASTY = """\
import torch
x\u00aa = torch.ones(3); note = "\x1b]0;owned\x07 \x1b[31m <script>alert(1)</script> \u202e\u2066 [bold]red[/bold] &amp;"
y = x\u00aa + torch.ones(3, device="cuda"); text = "\x1b[2J\u202e<img src=x onerror=alert(1)>"
"""


class Tags(HTMLParser):
    """The tags and text of a document as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def nasty(tmp_path: Path) -> Any:
    folder = tmp_path / "<b>\x1b[31m\u202edir"
    folder.mkdir()
    path = folder / "scr<i>ipt.py"
    path.write_text(NASTY, encoding="utf-8")
    with simulate_cuda():
        try:
            exec(compile(NASTY, str(path), "exec"), {"__name__": "__main__"})
        except RuntimeError as exc:
            return explain(exc)
    raise AssertionError


def test_nothing_in_a_source_or_name_takes_effect(tmp_path: Path) -> None:
    found = nasty(tmp_path)
    assert found is not None
    text = str(found)
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b-\u200f]", text) is None
    assert "\\x1b" in text
    line = ranks.line(found, "rank 0")
    assert "\x1b" not in line and "\u202e" not in line and "\n" not in line
    tags = Tags()
    tags.feed(found._repr_html_())
    assert tags.tags <= {"div", "style", "pre", "span", "details", "summary", "table", "tr", "td", "th"}
    assert tags.attributes <= {"class"}
    assert "<img src=x" in tags.text and "\x1b" not in tags.text and "\u202e" not in tags.text
    assert document([found]).isascii() and "\x1b" not in document([found])


def test_markup_of_rich_stays_text(tmp_path: Path) -> None:
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=100, color_system=None).print(nasty(tmp_path))
    assert "\x1b" not in out.getvalue()
    assert "[bold]red[/bold]" in out.getvalue() or "onerror" in out.getvalue()
