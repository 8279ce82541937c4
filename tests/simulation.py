"""What tests of whole programs under simulated CUDA share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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
