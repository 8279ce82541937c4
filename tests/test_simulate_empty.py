"""Tensors without elements keep their device, also where C++ makes the result without asking another operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import whydevice

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "one_hot": lambda empty: F.one_hot(empty, 4),
    "one_hot summed": lambda empty: F.one_hot(empty, 4).sum(0),
    "bincount": lambda empty: torch.bincount(empty, minlength=3),
    "cat": lambda empty: torch.cat([empty, empty]),
    "float": lambda empty: empty.float(),
    "nonzero": torch.nonzero,
    "unique": torch.unique,
    "index": lambda empty: torch.zeros(3, 2, device=empty.device)[empty],
    "embedding": lambda empty: F.embedding(empty, torch.zeros(3, 2, device=empty.device)),
    "stack": lambda empty: torch.stack([empty, empty]),
    "cdist": lambda empty: torch.cdist(empty.float().view(0, 2), empty.float().view(0, 2)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_made_of_an_empty_tensor_is_where_it_is(name: str) -> None:
    with whydevice.simulate_cuda():
        empty = torch.zeros(0, dtype=torch.long, device="cuda")
        assert str(OPERATIONS[name](empty).device) == "cuda:0"
