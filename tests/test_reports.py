"""Every recorded report read as text: its marks, its table and its diff fit its script and each other."""

from __future__ import annotations

import pytest

from fixture_cases import cases
from reports import Report

REPORTED = [case for case in cases() if (case.folder / "report.txt").exists()]


@pytest.mark.parametrize("case", REPORTED, ids=[case.id for case in REPORTED])
def test_a_report_is_sound(case) -> None:  # type: ignore[no-untyped-def]
    report = (case.folder / "report.txt").read_text("utf-8")
    script = (case.folder / "script.py").read_text("utf-8")
    assert Report(report, script).broken() == []


SCRIPT = "import torch\nx = torch.ones(3)\ny = torch.ones(3, device='cuda')\nprint(x + y)\n"
REPORT = """\
whydevice: `x` is on cpu, but `y` is on cuda:0   [tensor-without-device]

  script.py:4: fails here
   2 | x = torch.ones(3)
     |     ^^^^^^^^^^^^^ made here without device=, so on cpu
   4 | print(x + y)
     |       ^   - float32[3] on cuda:0

  operand   device   what         seen in
  x         cpu      float32[3]
  y         cuda:0   float32[3]

  fix (safe): make it on the device where it is used
   2 -x = torch.ones(3)
   2 +x = torch.ones(3, device="cuda")
"""


@pytest.mark.parametrize(
    ("true", "false"),
    [
        ("|       ^   -", "|        ^  -"),
        ("   4 | print(x + y)", "   4 | print(x - y)"),
        ("   4 | print(x + y)", "   4 | ...print(x + y)"),
        ("   2 -x = torch.ones(3)", "   2 -x = torch.zeros(3)"),
        ("y         cuda:0", "y         cuda:1"),
        ("`x` is on cpu", "`x` is on cuda:1"),
        ("y         cuda:0   float32[3]", "y         cuda:0   float32[3]   script.py:4, wo..."),
        ("[tensor-without-device]", "[tensor-without-device]" + "x" * 20),
    ],
)
def test_an_unsound_report_is_found(true: str, false: str) -> None:
    assert Report(REPORT, SCRIPT).broken() == []
    assert true in REPORT
    assert Report(REPORT.replace(true, false), SCRIPT).broken()
