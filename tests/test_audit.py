"""whydevice.audit: the device map of a module tree, and what .to() does not reach."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import whydevice


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 3)
        self.register_buffer("scale", torch.ones(1))
        self.mask = torch.ones(3)
        self.heads = [nn.Linear(3, 1)]
        self.named = {"aux": nn.Linear(3, 1, bias=False)}

    def __getattr__(self, name: str) -> object:
        if name == "explode":
            raise AssertionError("audit asked for an attribute")
        return super().__getattr__(name)


def test_what_to_does_not_reach_is_told_apart() -> None:
    found = whydevice.audit(Net())
    kinds = {entry.path: entry.kind for entry in found.entries}
    assert kinds["fc.weight"] == "parameter"
    assert kinds["scale"] == "buffer"
    assert kinds["mask"] == "attribute"
    assert kinds["heads[0].weight"] == "hidden"
    assert kinds['named["aux"].weight'] == "hidden"
    assert {entry.path for entry in found.unreached} == {
        "mask",
        "heads[0].weight",
        "heads[0].bias",
        'named["aux"].weight',
    }
    counted = ", ".join(f"{n} on {device}" for device, n in found.devices.items())
    assert str(found).split("\n")[0].endswith(f": {len(found.entries)} tensors, {counted}")
    assert "mask" in str(found) and ".to() does not reach it" in str(found)


def test_simulated_devices_are_shown() -> None:
    with whydevice.simulate_cuda():
        net = Net().to("cuda")
        found = whydevice.audit(net)
    devices = {entry.path: entry.device for entry in found.entries}
    assert devices["fc.weight"] == "cuda:0"
    assert devices["mask"] == "cpu"


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(TypeError, match="takes a torch"):
        whydevice.audit([])
