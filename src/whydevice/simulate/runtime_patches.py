"""Threads, generators, compilation: what must know of the simulation outside of tensors."""

from __future__ import annotations

import sys
import threading
from typing import Any

import torch

from .generators import Generator
from .patching import Patches
from .state import STATE


def install(patches: Patches, enter: Any) -> None:
    """`enter` gives the context that activates the mode in a thread."""

    def bootstrap(original: Any) -> Any:
        def _bootstrap_inner(self: Any) -> Any:
            with enter():
                return original(self)

        return _bootstrap_inner

    patches.wrap(threading.Thread, "_bootstrap_inner", bootstrap)
    patches.set(torch, "Generator", Generator)
    patches.set(torch, "compile", _compile)
    patches.set(torch.nn.Module, "compile", lambda self, *args, **kwargs: _compile(self) and None)
    patches.wrap(torch.jit, "load", _jit_load)
    patches.set(torch.cuda.nvtx, "_nvtx", _Nvtx)


def say_once(text: str) -> None:
    """One line on stderr, once a simulation."""
    if text not in STATE.said:
        STATE.said.add(text)
        print(f"whydevice: {text}", file=sys.stderr)


def _compile(model: Any = None, **kwargs: Any) -> Any:
    """torch.compile under simulation: the function itself."""
    say_once("torch.compile is not simulated, compiled code runs eagerly")
    return (lambda function: function) if model is None else model


def _jit_load(original: Any) -> Any:
    """Loaded on the CPU, then moved to where `map_location` says."""

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        device = torch.device(map_location) if isinstance(map_location, (str, torch.device)) else None
        if device is None or device.type != "cuda":
            return original(f, map_location, *args, **kwargs)
        return original(f, "cpu", *args, **kwargs).to(device)

    return load


class _Nvtx:
    """Stands for the C functions of torch.cuda.nvtx: marks that no profiler reads."""

    rangePushA = staticmethod(lambda message: 0)
    rangePop = staticmethod(lambda: 0)
    rangeStartA = staticmethod(lambda message: 0)
    rangeEnd = staticmethod(lambda handle: None)
    markA = staticmethod(lambda message: None)
    deviceRangeStart = staticmethod(lambda message, stream: None)
    deviceRangeEnd = staticmethod(lambda handle, stream: None)
