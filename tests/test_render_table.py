"""The table of operands: what it leaves out, and what gives way where it is too wide."""

from __future__ import annotations

import render_cases as cases
from whydevice.render.html import html
from whydevice.render.plain import text
from whydevice.types import Also, Explanation, Operand


def test_a_large_table_is_folded_with_a_count() -> None:
    rows = tuple(Operand(f"x{n}", f"cuda:{n % 2}", what="float32[3]") for n in range(20))
    explanation = cases.BATCH._replace(operands=(*rows, Operand("y", "cpu", culprit=True)), also=(), trail=())
    shown = text(explanation)
    assert "... and 13 more: 7 on cuda:1, 6 on cuda:0" in shown
    assert "\n  y " in shown and "x6" in shown and "x7" not in shown
    assert html(explanation).count("<tr>") == 22


def test_the_table_says_only_what_is_not_said() -> None:
    assert "operand" not in text(cases.TD)
    assert "operand" in text(cases.TD._replace(cause=None))
    unproven = cases.BUFFER._replace(cause=None, operands=(Operand("x", "cpu", role="mat1", inferred=True),))
    assert "cpu (inferred)" in text(unproven) and "as `mat1`" in text(unproven)


def wide(*rows: Operand, also: tuple[Also, ...] = ()) -> list[str]:
    """The lines of the table of these operands."""
    explanation: Explanation = cases.BATCH._replace(operands=rows, also=also, trail=())
    shown = text(explanation).split("\n")
    start = next(at for at, line in enumerate(shown) if line.startswith("  operand"))
    return shown[start : start + 1 + len(rows) + len(also)]


def test_what_it_is_and_where_it_is_seen_share_a_column_where_both_are_too_wide() -> None:
    rows = wide(
        Operand("self.model", "cpu", what="Sequential, 6 parameters, 1 buffer"),
        Operand("frame.to(self.device)", "cuda:0", inferred=True),
        also=(Also("kept", "cpu", "cuda:0", cases.SCRIPT, 15),),
    )
    assert rows == [
        "  operand                 device              what, seen in",
        "  self.model              cpu                 Sequential, 6 parameters, 1 buffer",
        "  frame.to(self.device)   cuda:0 (inferred)",
        "  kept                    cpu                 script.py:15, would fail next",
    ]


def test_the_operand_gives_way_before_its_device() -> None:
    (_, row) = wide(
        Operand(
            "evaluator.function(argument) + another", "cpu, cuda:0, cuda:1", what="Evaluator of " + "x" * 40
        )
    )
    assert " cpu, cuda:0, cuda:1 " in row and len(row) <= 80 and row.startswith("  evaluator")


def test_paths_that_differ_at_their_end_stay_different() -> None:
    names = [f"evaluator.model.module.blocks.layers.first.{end}" for end in ("weight", "bias")]
    shown = {row.split()[0] for row in wide(*(Operand(name, "cpu", what="float32[3]") for name in names))[1:]}
    assert len(shown) == 2 and all(name.startswith("evaluator.") for name in shown)
