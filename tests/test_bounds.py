"""Large, deep, cyclic and shared things: the failure is still explained, what was cut is said, nothing hangs.

Outcomes only: how long it takes is for tests/benchmarks.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from whydevice.evidence import bounds, trees, values
from whydevice.evidence.operands import held_tensors
from whydevice.evidence.ways import way_to
from whydevice.explain import explain
from whydevice.simulate import simulate_cuda
from whydevice.source import text as text_of_files

HEAD = """\
import torch
from torch import nn

"""
MODEL = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {state}
        self.fc = nn.Linear(4, 4)
        self.shift = torch.ones(4)

    def forward(self, x):
        return self.fc(x) + self.shift


model = Net().cuda()
"""
SHIFT = "model(torch.ones(2, 4, device='cuda'))\n"
INPUT = "x = torch.ones(2, 4)\nmodel.fc(x)\nmodel(x)\n"


def explained(
    text: str, tmp_path: Path, change: Callable[[Path], None] | None = None, may_be_silent: bool = False
) -> Any:
    """The explanation of a script, as data; `change` is done to its file once it has failed."""
    path = tmp_path / "script.py"
    path.write_text(text)
    linecache.checkcache(str(path))
    with simulate_cuda():
        try:
            exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
        except (RuntimeError, AssertionError) as exc:
            if change is not None:
                change(path)
            found = explain(exc)
            if found is None and may_be_silent:
                return None
            assert found is not None
            assert len(str(found).splitlines()) <= 40
            return found.to_dict()
    raise AssertionError("the script did not fail")


def cause_of(found: dict[str, Any]) -> str | None:
    return found["cause"] and found["cause"]["name"]


def test_ten_thousand_modules(tmp_path: Path) -> None:
    state = "self.blocks = nn.ModuleList([nn.Sequential(nn.Identity(), nn.Identity()) for _ in range(3300)])"
    found = explained(HEAD + MODEL.format(state=state) + SHIFT, tmp_path)
    assert cause_of(found) == "tensor-attribute-not-buffer"
    assert found["culprit"]["expression"] == "self.shift"


def test_more_parameters_than_are_looked_at_are_said(tmp_path: Path) -> None:
    text = HEAD + (
        "one = nn.Parameter(torch.ones(1))\n"
        "groups = [nn.ParameterList([one] * 200) for _ in range(60)]\n"
        "model = nn.Sequential(nn.Linear(4, 4), *groups).cuda()\n"
        "x = torch.ones(2, 4)\nmodel(x)\n"
    )
    found = explained(text, tmp_path)
    assert found["culprit"]["expression"] == "x"
    model = next(o for o in found["operands"] if o["expression"] == "model")
    assert model["what"] == "Sequential, over 8000 parameters"
    told = f"Of `Sequential`, the first {trees.MOST_TENSORS:,} parameters and buffers were looked at."
    assert told in found["notes"]


def test_a_list_of_a_million_tensors(tmp_path: Path) -> None:
    text = HEAD + (
        "data = [torch.ones(4)] * 1_000_000\n"
        "index = dict.fromkeys(range(100_000), data[0])\n"
        "model = nn.Linear(4, 4).cuda()\n"
        "def step(batch, index):\n    return model(batch[3])\n"
        "step(data, index)\n"
    )
    found = explained(text, tmp_path)
    assert found["culprit"]["expression"] == "batch[3]"


def test_the_items_of_an_operand_that_were_not_looked_at_are_said(tmp_path: Path) -> None:
    found = explained(
        HEAD + "data = [torch.ones(4)] * 999 + [torch.ones(4).cuda()]\ntorch.stack(data)\n", tmp_path
    )
    assert "Of `data`, the first 200 of 1,000 items were looked at." in found["notes"]


@pytest.mark.parametrize("through", ["function", "module"])
def test_a_thousand_frames_of_recursion(through: str, tmp_path: Path) -> None:
    function = (
        "y = torch.ones(3, device='cuda')\n"
        "def down(n, x):\n    if n == 0:\n        return x + y\n    return down(n - 1, x)\n"
        "start = torch.ones(3)\ndown(1000, start)\n"
    )
    module = (
        "class Down(nn.Module):\n"
        "    def forward(self, x, n):\n"
        "        if n == 0:\n            return x + torch.ones(3, device='cuda')\n"
        "        return self(x, n - 1)\n"
        "start = torch.ones(3)\nDown()(start, 300)\n"
    )
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(8000)
    try:
        found = explained(HEAD + (function if through == "function" else module), tmp_path)
    finally:
        sys.setrecursionlimit(limit)
    assert found["culprit"]["expression"] == "x"
    # The root is at the far end of the recursion: its ends are what is kept.
    assert found["root"]["source"].strip().startswith("start = ")
    assert any("frames were left out" in note for note in found["notes"])


def test_a_file_of_thirty_thousand_lines(tmp_path: Path) -> None:
    filler = "".join(f"def f{i}(a, b):\n    c = a + b\n    return [c, {i}]\n\n\n" for i in range(6000))
    found = explained(HEAD + filler + MODEL.format(state="pass") + SHIFT, tmp_path)
    assert cause_of(found) == "tensor-attribute-not-buffer"


def test_a_line_of_a_megabyte(tmp_path: Path) -> None:
    table = "TABLE = [" + ", ".join(str(i) for i in range(150_000)) + "]\n"
    assert len(table) > 1_000_000
    found = explained(HEAD + table + MODEL.format(state="pass") + SHIFT, tmp_path)
    assert cause_of(found) == "tensor-attribute-not-buffer"


def test_the_failing_line_is_a_megabyte(tmp_path: Path) -> None:
    text = "a = torch.ones(3); b = torch.ones(3).cuda(); a + b; c = '" + "x" * 1_000_000 + "'\n"
    found = explained(HEAD + text, tmp_path)
    assert all(len(place["source"]) <= 2_000 for place in found["trail"])
    assert {"a", "b"} <= {o["expression"] for o in found["operands"]}


def told(found: dict[str, Any], *words: str) -> bool:
    """Whether a note of the report has all of these words."""
    return any(all(word in note for word in words) for note in found["notes"])


MEGABYTE = "[" + ", ".join(str(i) for i in range(150_000)) + "]"
HALVES = "a = torch.ones(3)\nb = torch.ones(3).cuda()\n"
FUNCTION = "def f(x):\n    y = torch.ones(3)\n{}    return x + y\nf(torch.ones(3).cuda())\n"
LONG_BODY = "".join(f"    v{i} = {i} + len([x, y])\n" for i in range(30_000))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"{HALVES}c = a + b + len({MEGABYTE})\n", "Line 6 of script.py"),
        (f"{HALVES}c = a + b + len({MEGABYTE.replace(' ', chr(10))})\n", "Lines 6 to 150,005 of script.py"),
        (f"{HALVES}a + b; " + "; ".join(f"x{i} = a" for i in range(100_000)) + "\n", "Line 6 of script.py"),
        (FUNCTION.format(f"    t = {MEGABYTE}\n"), "Lines 4 to 7 of script.py"),
        (FUNCTION.format(LONG_BODY), "Lines 4 to 30,006 of script.py"),
        ("class A:\n    def g(self): pass\n    " + FUNCTION.format(LONG_BODY).replace("\n", "\n    ").replace(
            "    f(torch", "A.f(torch"), " of script.py"),
    ],
    ids=["a list", "a list on its lines", "a line of statements", "in a function", "30,000 lines", "a method"],
)  # fmt: skip
def test_a_megabyte_of_code_at_the_failure_is_not_read_and_said(
    text: str, lines: str, tmp_path: Path
) -> None:
    found = explained(HEAD + text, tmp_path)
    assert told(found, lines, "characters of code", "not read"), found["notes"]
    assert (found["cause"], found["fixes"]) == (None, [])
    assert found["error"]["devices"]


@pytest.mark.parametrize(
    "literal",
    [
        "'" + "x" * 1_000_000 + "'",
        '"' + "é" * 1_000_000 + '"',
        "'''" + "some words 'quoted\n" * 60_000 + "'''",
    ],
    ids=["ascii", "letters", "lines"],
)
def test_a_string_of_a_megabyte_in_the_failing_statement(literal: str, tmp_path: Path) -> None:
    found = explained(f"{HEAD}{HALVES}c = a + b + len({literal})\n", tmp_path)
    assert found["culprit"]["expression"] == "a"
    assert all(len(place["source"]) <= 2_000 for place in found["trail"])
    assert not told(found, "not read")


def test_a_line_of_five_megabytes_of_json(tmp_path: Path) -> None:
    data = '{"a": [' + ", ".join(f'{{"k": {i}, "v": "x{i}"}}' for i in range(180_000)) + "]}"
    text = f"{HEAD}DATA = {data}\n{HALVES}c = a + b\n"
    assert len(text) > 5_000_000
    found = explained(text, tmp_path)
    assert found["culprit"]["expression"] == "a"
    assert found["fixes"][0]["applicability"] == "safe"


def test_a_table_of_a_megabyte_that_the_failing_line_reads_is_said(tmp_path: Path) -> None:
    text = f"{HEAD}DATA = {MEGABYTE}\n{HALVES}def f(x):\n    return x + b\nf(torch.ones(len(DATA)))\n"
    found = explained(text, tmp_path)
    assert found["culprit"]["expression"] == "x"
    assert told(found, "Line 4 of script.py", "not read")


def test_a_file_over_the_bound_of_bytes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_of_files, "MOST_BYTES", 2_000_000)
    filler = "".join(f"def f{i}(a, b):\n    return [a, b, {i}]\n\n\n" for i in range(45_000))
    assert len(filler) > 2_000_000
    found = explained(HEAD + filler + HALVES + "c = a + b\n", tmp_path)
    assert told(found, "The file script.py, over 2,000,000 bytes long, was not read")
    assert (found["cause"], found["fixes"]) == (None, [])


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _sparse(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(1 << 40)


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def _device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _garbage(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\xff\xfe\x00\x01" * 100)


def _garbage_lines(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\x00\x01)]}\n" * 3000)


@pytest.mark.parametrize("ending", ["c = a + b\n", "assert a.device == b.device\n"], ids=["adds", "asserts"])
@pytest.mark.parametrize(
    "change", [_fifo, _folder, _sparse, _loop, _device, _garbage, _garbage_lines], ids=lambda f: f.__name__
)
def test_what_takes_the_place_of_a_source_is_not_waited_for(
    change: Callable[[Path], None], ending: str, tmp_path: Path
) -> None:
    found = explained(HEAD + HALVES + ending, tmp_path, change, may_be_silent="assert" in ending)
    if found is not None:
        assert found["error"]["devices"] or "assert" in ending
        assert all(fix["applicability"] == "manual" for fix in found["fixes"])


def test_cyclic_and_shared_containers(tmp_path: Path) -> None:
    text = HEAD + (
        "a = []\n"
        "for i in range(300):\n    a.append(a)\n    a.append([a, a])\n"
        "d = {}\nd.update({i: [d, a] for i in range(300)})\n"
        "class Node:\n    pass\n"
        "n = Node(); n.next = n; n.all = [n] * 300; n.d = d\n"
        "x = torch.ones(2)\n"
        "deep = [x]\n"
        "for i in range(2000):\n    deep = [deep, deep]\n"
        "def step(a, d, n, deep, batch):\n"
        "    return batch[0] + torch.ones(2, device='cuda')\n"
        "step(a, d, n, deep, [x, a, d, n])\n"
    )
    found = explained(text, tmp_path)
    assert found["culprit"]["expression"] == "batch[0]"


def test_the_clock_ends_a_scan_and_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SECONDS", -1.0)
    with bounds.bounded() as made:
        assert len(list(values.items(list(range(200))))) == 200
        assert len(list(values.items([0] * 200))) < 200
        assert list(values.items([1, 2])) == []
    assert made.notes() == ("The search was stopped after -1 s of computing.",)


def test_a_count_ends_all_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_VISITS", 50)
    with bounds.bounded() as made:
        assert len([*values.items([0] * 40), *values.items([0] * 40)]) == 50
    assert made.notes() == ("Only 50 items of containers and objects were looked at.",)
    assert len(list(values.items([0] * 100))) == 100, "no bounds outside an explanation"


def test_a_way_is_found_past_shared_containers() -> None:
    tensor = torch.ones(1)
    shared: list[Any] = [[[[0] * 200] * 200] * 200] * 200
    assert way_to([shared, {"x": tensor}], tensor) is not None
    found = way_to([shared, [[tensor]]], tensor, 4)
    assert found is not None and [link.key for link in found[:-1]] == [1, 0, 0]


def test_garbage_is_not_collected_in_the_middle_of_an_explanation() -> None:
    import gc

    assert gc.isenabled()
    with bounds.bounded():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with bounds.bounded():
            pass
        assert not gc.isenabled(), "left as it was"
    finally:
        gc.enable()


def test_the_garbage_collector_finds_nothing_that_an_explanation_left(tmp_path: Path) -> None:
    import ast
    import gc

    text = HEAD + "# filler\n" * 2000 + MODEL.format(state="pass") + SHIFT
    explained(text, tmp_path)  # the imports leave some

    def left() -> int:
        return sum(issubclass(type(each), ast.AST) for each in gc.get_objects())

    gc.collect()
    before = left()
    gc.disable()
    try:
        assert cause_of(explained(text, tmp_path)) == "tensor-attribute-not-buffer"
        assert left() == before
    finally:
        gc.enable()


def test_a_model_is_searched_once_in_an_explanation() -> None:
    model = nn.Linear(2, 2)
    with bounds.bounded():
        assert held_tensors(model) is held_tensors(model)
    assert held_tensors(model) is not held_tensors(model), "outside of one, nothing is kept"


def test_a_long_file_that_was_cut_short_since(tmp_path: Path) -> None:
    text = HEAD + "\n" * 2000 + HALVES + "c = a + b\n"
    found = explained(text, tmp_path, lambda path: path.write_text(HEAD + "\n" * 1990) and None)
    assert (found["cause"], found["fixes"]) == (None, [])
