"""--trace: the line that made a tensor, where frames and sources alone do not tell it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def explained(tmp_path: Path, *options: str) -> dict[str, Any]:
    (tmp_path / "script.py").write_text(SCRIPT)
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
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=env)
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
