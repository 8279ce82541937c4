"""From what a caller writes (`"cuda"`, `1`, `torch.device("cuda:0")`) to a tag."""

from __future__ import annotations

from typing import Any

import torch

from . import errors
from .state import STATE


def resolve(device: Any) -> torch.device:
    """A `torch.device` for anything that PyTorch accepts as one. A bare integer means the accelerator, as on CUDA."""
    if isinstance(device, torch.device):
        return device
    if isinstance(device, int) and not isinstance(device, bool):
        if device < 0:
            raise RuntimeError("Device index must not be negative")
        return torch.device("cuda", device)
    return torch.device(device)


def tag_of(device: torch.device) -> int | None:
    """The tag of a device: 0 for the CPU, n + 1 for `cuda:n`, None for others (meta, mps), which stay real.

    Uses CUDA in the sense of PyTorch: initialises it, and checks that the device exists.
    """
    kind = device.type
    if kind == "cpu":
        return 0
    if kind != "cuda":
        return None
    STATE.initialise()
    index = device.index
    if index is None:
        return STATE.thread.current + 1
    if index >= STATE.devices:
        raise errors.invalid_ordinal()
    return index + 1


def index_of(device: Any, optional: bool = True) -> int:
    """The index of a CUDA device; None and a bare `cuda` mean the current one."""
    if device is None:
        return STATE.thread.current
    found = resolve(device)
    if found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {device}")
    index = found.index
    if index is None:
        return STATE.thread.current
    if index >= STATE.devices:
        raise errors.invalid_ordinal()
    return index
