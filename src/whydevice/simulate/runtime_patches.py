"""Threads, generators, compilation: what must know of the simulation outside of tensors."""

from __future__ import annotations

import sys
import threading
from typing import Any

import torch

from .devices import resolve, tag_of
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


class _GeneratorType(type(torch._C.Generator)):  # type: ignore[misc]
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch._C.Generator)


class Generator(torch._C.Generator, metaclass=_GeneratorType):
    """torch.Generator, on a simulated GPU when asked for one. It draws the CPU's numbers."""

    _whydevice = 0

    def __new__(cls, device: Any = "cpu") -> Any:
        tag = tag_of(resolve(device))
        if tag is None:
            return torch._C.Generator(device)
        made = super().__new__(cls)
        made._whydevice = tag
        return made

    def __init__(self, device: Any = "cpu") -> None: ...

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        from . import tags

        return tags.device(self._whydevice)


def say_once(text: str) -> None:
    """One line on stderr, once a simulation."""
    if text not in STATE.said:
        STATE.said.add(text)
        print(f"whydevice: {text}", file=sys.stderr)


def _compile(model: Any = None, **kwargs: Any) -> Any:
    """torch.compile under simulation: the function itself."""
    say_once("torch.compile is not simulated, compiled code runs eagerly")
    return (lambda function: function) if model is None else model
