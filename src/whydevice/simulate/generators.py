"""torch.Generator on simulated GPUs: it draws the CPU's numbers and remembers where it belongs.

An op gets another Python object for the same C++ generator, so the tag goes by the address of the C++ one.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from . import tags
from .devices import resolve
from .devices import tag_of as _device_tag

_tags: dict[int, int] = {}
_real_device: Any = torch._C.Generator.device


class _GeneratorType(type(torch._C.Generator)):  # type: ignore[misc]
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch._C.Generator)


class Generator(torch._C.Generator, metaclass=_GeneratorType):
    """Takes the place of torch.Generator."""

    def __new__(cls, device: Any = "cpu") -> Any:
        tag = _device_tag(resolve(device))
        if tag is None:
            return torch._C.Generator(device)
        made: Any = super().__new__(cls)
        if tag:
            address = made._cdata
            _tags[address] = tag
            weakref.finalize(made, _tags.pop, address, None)
        return made

    def __init__(self, device: Any = "cpu") -> None: ...

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        tag = tag_of(self)
        return tags.device(tag) if tag > 0 else _real_device.__get__(self)

    def clone_state(self) -> Any:
        made = type(self)(self.device)
        made.set_state(self.get_state())
        return made


def tag_of(generator: Any) -> int:
    """The tag of a generator, 0 for the CPU's."""
    return _tags.get(generator._cdata, 0) if _tags else 0
