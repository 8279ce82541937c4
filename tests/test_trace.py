"""--trace: the line that made a tensor, where frames and sources alone do not tell it."""

from __future__ import annotations

import gc
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from processes import HANGS

SCRIPT = """\
import torch

makers = {}
exec("def made(n):\\n    return torch.zeros(n)", {"torch": torch}, makers)


def table(kind):
    return getattr(torch, kind)(
        4
    )


weights = makers["made"](4)
scale = table("on" + "es")
x = torch.ones(4, device="cuda")
print(x * scale * weights)
"""


def explained(tmp_path: Path, *options: str, script: str = SCRIPT) -> dict[str, Any]:
    (tmp_path / "script.py").write_text(script)
    command = [
        sys.executable,
        "-m",
        "whydevice",
        "--simulate-cuda",
        *options,
        "--json",
        "out.json",
        "script.py",
    ]
    source = Path(__file__).parents[1] / "src"
    env = {**os.environ, "PYTHONPATH": str(source), "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANGS, env=env)
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads((tmp_path / "out.json").read_text())["explanations"][0]
    return found


def noted(explanation: dict[str, Any]) -> list[int]:
    return [p["line"] for p in explanation["trail"] if "noted by --trace" in (p["note"] or "")]


def test_the_line_that_made_it_is_noted(tmp_path: Path) -> None:
    found = explained(tmp_path, "--trace")
    assert found["culprit"]["expression"] == "scale"
    assert noted(found) and noted(found)[0] in (8, 9)


def test_without_trace_nothing_is_noted(tmp_path: Path) -> None:
    assert noted(explained(tmp_path)) == []


# -- in this process, with real tensors -------------------------------------------------------------------------


@pytest.fixture
def tracing() -> Iterator[Any]:
    from whydevice.evidence import tracing as module

    with module.Tracing():
        yield module
    module._noted.clear()


def here() -> int:
    return inspect.currentframe().f_back.f_lineno  # type: ignore[union-attr]


def test_real_tensors_are_noted(tracing: Any) -> None:
    made, line = torch.zeros(3), here()
    assert tracing.place_of(made) == (__file__, line)
    assert tracing.place_of(torch.zeros(3).numpy()) is None


def test_each_of_several_results_is_noted(tracing: Any) -> None:
    both, line = torch.zeros(4).chunk(2), here()
    assert [tracing.place_of(each) for each in both] == [(__file__, line)] * 2
    most, line = torch.zeros(2, 3).max(dim=1), here()
    assert [tracing.place_of(each) for each in most] == [(__file__, line)] * 2


def test_a_move_is_noted_anew_and_what_stays_is_not(tracing: Any) -> None:
    made, line = torch.zeros(3), here()
    made.add_(1)
    same = made.to("cpu")
    assert same is made and tracing.place_of(made) == (__file__, line)
    moved, line = made.to("meta"), here()
    assert tracing.place_of(moved) == (__file__, line)


def test_what_is_elsewhere_by_now_is_not_said_to_be_made_there() -> None:
    import whydevice
    from whydevice.evidence import tracing

    with whydevice.simulate_cuda(), tracing.Tracing():
        made, line = torch.zeros(2), here()
        assert tracing.place_of(made) == (__file__, line)
        made.data = made.to("cuda")  # as a module's .to() does with its parameters
        assert tracing.place_of(made) is None


def test_an_entry_goes_with_its_tensor(tracing: Any) -> None:
    made = torch.zeros(3)
    key = id(made)
    assert key in tracing._noted
    del made
    gc.collect()
    assert key not in tracing._noted


def test_a_library_has_no_line_and_its_user_has(tracing: Any) -> None:
    layer = torch.nn.Linear(2, 2)
    out, line = layer(torch.zeros(1, 2)), here()
    assert tracing.place_of(out) == (__file__, line)


def test_the_noted_place_stays_in_a_long_trail() -> None:
    from whydevice.compose import MOST_TRAIL, _kept
    from whydevice.types import Place

    places = [Place("a.py", line) for line in range(1, 12)]
    kept = _kept(places, (places[0], places[4]))
    assert len(kept) == MOST_TRAIL
    assert [p.line for p in kept] == [1, 5, 8, 9, 10, 11]


LONG = """\
import torch


def make(n):
    return getattr(torch, "on" + "es")(n)


def a(v):
    return b(v)


def b(v):
    return c({"v": v})


def c(box):
    return box["v"] * torch.ones(4, device="cuda")


a(make(4))
"""


def test_what_trace_notes_and_the_way_misses_makes_it_less_sure(tmp_path: Path) -> None:
    found = explained(tmp_path, "--trace", script=LONG)
    assert noted(found) == [5]
    assert found["certainty"] != "certain" or found["root"]["line"] == 5
