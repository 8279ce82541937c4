"""An error inside torch.compile has no frame of `forward`: the user's line is in its text only."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import nn

from whydevice.explain import explain


class Scorer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 4)
        self.table = nn.Parameter(torch.empty(4, device="meta"))

    def forward(self, x: Any) -> Any:
        return self.net(x) + self.table


OFFSET = torch.zeros(3, device="meta")


def shifted(x: Any) -> Any:
    y = x * 2
    return y - OFFSET


@pytest.mark.parametrize(
    ("made", "size", "culprit", "function"),
    [(Scorer, 4, "self.table", "Scorer.forward"), (lambda: shifted, 3, "OFFSET", "shifted")],
)
def test_the_line_comes_from_the_text(made: Any, size: int, culprit: str, function: str) -> None:
    compiled = torch.compile(made(), backend="eager")
    with pytest.raises(RuntimeError) as caught:
        compiled(torch.randn(2, size))
    found = explain(caught.value)
    assert found is not None and found.culprit is not None and found.root is not None
    assert (found.culprit.expression, found.culprit.device) == (culprit, "meta")
    assert found.trail[-1].function == function
    assert 'device="meta"' in found.root.source
    assert found.root.file == inspect.getfile(Scorer)
