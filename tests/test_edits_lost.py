"""A copy in place of the thing itself: what is then changed in place would be lost."""

from __future__ import annotations

import pytest

from whydevice.edits import Source, lost_update
from whydevice.types import Edit

PATH = "a.py"
LINE = "tp = tp.to(p.device)"


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ("tp.data = tp.data + p", True),
        ("tp.mul_(0.9).add_(p)", True),
        ("tp.data.copy_(p)", True),
        ("tp[0] = p", True),
        ("tp += p", True),
        ("total = tp + p", False),
        ("new = tp.mul(2)", False),
        ("p.data.copy_(tp)", False),
        ("other.tp.copy_(p)", False),
        ("tp.__len__()", False),
    ],
)
@pytest.mark.parametrize(
    "head", ["for p, tp in pairs:", "def step(p, tp):", "def step(pairs):\n  for p, tp in pairs:"]
)
def test_an_item_or_parameter_that_is_changed_in_place(head: str, body: str, lost: bool) -> None:
    text = f"{head}\n    {LINE}\n    {body}\n"
    line = text[: text.index(LINE)].count("\n") + 1
    edit = Edit(PATH, line, 0, line, 0, f"    {LINE}\n")
    assert lost_update([edit], Source.from_text(PATH, text)) == ("tp" if lost else None)


def test_what_the_function_made_itself_may_be_replaced() -> None:
    text = f"def f(p):\n    tp = make()\n    {LINE}\n    tp.add_(p)\n"
    assert lost_update([Edit(PATH, 3, 0, 3, 0, f"    {LINE}\n")], Source.from_text(PATH, text)) is None


def test_a_line_of_the_users_own_is_not_the_edits() -> None:
    text = f"for p, tp in pairs:\n    {LINE}\n    tp.add_(p)\n    q = q.to(p.device)\n"
    assert (
        lost_update([Edit(PATH, 4, 0, 4, 0, "    q = q.to(p.device)\n")], Source.from_text(PATH, text))
        is None
    )
