"""The contract checker (contract.py) finds what is not as DESIGN.md has it; `--json` of real runs passes it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from contract import problems
from processes import MISMATCH, why
from runner import Runner

BROKEN: dict[str, Any] = {
    "certainty": "sure",
    "cause": {"name": "x"},
    "root": {"file": "bad.py", "line": 0, "source": ""},
    "trail": None,
    "operands": [{"expression": "x"}],
    "environment": {"python": "3", "torch": "2", "simulated": 0, "rank": None},
    "fixes": [{"title": "t", "applicability": "sure", "edits": [], "diff": "", "verified": None}],
}


def test_a_real_document_holds_and_a_broken_one_does_not(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(MISMATCH)
    assert why("--json", "out.json", "bad.py", cwd=tmp_path).returncode == 1
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["explanations"] and problems(document, str(tmp_path)) == []
    for key, value in BROKEN.items():
        changed = copy.deepcopy(document)
        changed["explanations"][0][key] = value
        assert problems(changed, str(tmp_path)), key
        del changed["explanations"][0][key]
        assert problems(changed, str(tmp_path)), key
    assert problems({"explanations": []}, str(tmp_path))


@pytest.mark.parametrize("asked", ["--diff", "--fix"])
def test_fix_and_diff_are_about_the_same_edits(asked: str, command: Runner, tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    text = (
        "import torch\n\nw = torch.ones(3, device='cuda')\nx = torch.ones(3)\nprint((w * x).sum().item())\n"
    )
    script.write_text(text)
    done = command.run(["--simulate-cuda", asked, "s.py"], tmp_path)
    assert ("+x = torch.ones" in done.stdout) is (asked == "--diff")
    assert (script.read_text() == text) is (asked == "--diff")
