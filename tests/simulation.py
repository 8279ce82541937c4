"""What tests of whole programs under simulated CUDA share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import whydevice
from whydevice import simulate


def check_equals_the_cpu(program: Callable[[Any], Any]) -> None:
    """A program given "cuda" under simulation returns, to the last bit, what it does given "cpu", and all of it was judged."""
    torch.manual_seed(0)
    plain = program("cpu")
    torch.manual_seed(0)
    with whydevice.simulate_cuda():
        simulated = program("cuda")
    assert simulated == plain
    assert simulate.report() is None


def gpu(*shape: int, index: int = 0) -> Any:
    """Ones on a simulated GPU."""
    return torch.ones(*shape, device=f"cuda:{index}")


def raises(text: str, kind: type[BaseException] = RuntimeError) -> Any:
    """pytest.raises for an error with this very text in it."""
    return pytest.raises(kind, match=re.escape(text))


def trained(model: nn.Module, loss: Callable[[], Any], optimizer: Any = None, count: int = 2) -> list[float]:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses
