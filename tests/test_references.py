"""Nothing of a failed run is kept alive by its explanation."""

from __future__ import annotations

import gc
import weakref

import torch

from whydevice.explain import explain


def add(a: torch.Tensor, b: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return a * scale + b


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.ones(3, device="meta")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return add(x, self.shift)


def fail() -> tuple[list[weakref.ref[object]], object]:
    net, x = Net(), torch.ones(3)
    refs: list[weakref.ref[object]] = [weakref.ref(net), weakref.ref(x), weakref.ref(net.shift)]
    try:
        net(x)
    except RuntimeError as exc:
        return refs, explain(exc)
    raise AssertionError("meta and cpu agreed")


def test_tensors_and_modules_can_be_collected_while_the_explanation_lives() -> None:
    refs, explanation = fail()
    gc.collect()
    assert explanation is not None
    assert [ref() for ref in refs] == [None, None, None]
