"""Simulated CUDA: scripts run as if there were N GPUs, the CPU computes, and what CUDA refuses is refused.

    with whydevice.simulate_cuda(devices=2): ...

A tensor's device is a tag on its storage (tags.py). A dispatch mode compares tags as PyTorch's CUDA kernels
compare devices (mode.py, judge.py, special.py, rules.json), and patches make Python's questions about
devices answer from the tags (*_patches.py, cuda_surface.py). Importing this package does not import torch;
entering the simulation does.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from .state import STATE

__all__ = ["active", "current_device", "device_of", "report", "simulate_cuda", "traffic_report"]


class simulate_cuda:
    """Context manager: `devices` simulated GPUs in this thread and all that it starts. Nests and repeats.

    `traffic` counts, per user line, copies between devices and waits for the GPU (`traffic_report`). An inner
    simulation changes the number of GPUs until it ends. Raises ValueError for fewer than one device.
    """

    def __init__(self, devices: int = 1, *, traffic: bool = False) -> None:
        if devices < 1:
            raise ValueError(f"a simulation needs at least one device, not {devices}")
        self.devices, self.traffic = devices, traffic
        self._entered: list[tuple[Any, ...]] = []

    def __enter__(self) -> simulate_cuda:
        from . import session
        from .mode import new_mode

        outermost = STATE.session is None
        before = (STATE.devices, STATE.thread.current)
        mode = None
        if outermost:
            STATE.begin()
            session.Session(self.traffic).start()
        STATE.devices = self.devices
        if outermost:
            mode = new_mode()
            mode.__enter__()
        self._entered.append((outermost, before, mode))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        outermost, before, mode = self._entered.pop()
        try:
            if mode is not None:
                mode.__exit__(kind, exc, trace)
        finally:
            STATE.devices, STATE.thread.current = before
            if outermost:
                STATE.session.stop()


def active() -> int:
    """The number of simulated GPUs, 0 when none is. Does not import torch."""
    return STATE.devices


def current_device() -> int:
    """The index of the current simulated GPU in this thread."""
    return STATE.thread.current


def device_of(tensor: object) -> str | None:
    """The device of a tensor as PyTorch prints it, simulated or real. None for what is no tensor or cannot
    tell.

    Runs no operator, no mode and no code of the user's; right outside the simulation too.
    """
    if "torch" not in sys.modules:
        return None
    from .tags import plain_device_of

    return plain_device_of(tensor)


def report() -> str | None:
    """What the last simulation could not judge, by op; None when there was nothing."""
    from .summary import text

    return text(STATE.unjudged)


def traffic_report() -> str | None:
    """Copies between devices and waits for the GPU, per user line; None when none were asked for or found."""
    return None if STATE.traffic is None else STATE.traffic.text()
