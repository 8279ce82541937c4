"""Large, deep, cyclic and shared things: the failure is still explained, what was cut is said, nothing hangs.

Outcomes only: how long it takes is for tests/benchmarks.
"""

from __future__ import annotations

import linecache
import sys
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


def explained(text: str, tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "script.py"
    path.write_text(text)
    linecache.checkcache(str(path))
    with simulate_cuda():
        try:
            exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
        except RuntimeError as exc:
            found = explain(exc)
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
