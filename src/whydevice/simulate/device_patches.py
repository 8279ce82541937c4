"""torch.device: a bare index means the accelerator, which C++ asks a build without CUDA for in vain."""

from __future__ import annotations

from typing import Any

import torch

from .devices import resolve
from .patching import Patches
from .state import STATE

_real = torch.device


class _DeviceType(type):
    """Stands for the type of devices: all of them are its instances, and it is equal to the real type."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _real)

    def __subclasscheck__(cls, kind: type) -> bool:
        return kind is cls or issubclass(kind, _real)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is _real

    def __hash__(cls) -> int:
        return hash(_real)

    def __repr__(cls) -> str:
        return repr(_real)


class device(metaclass=_DeviceType):
    """Takes the place of torch.device, and makes real ones."""

    __module__ = "torch"

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        place = kwargs.get("device", args[0] if args else None)
        if len(args) + len(kwargs) == 1 and type(place) is int and STATE.devices:
            return resolve(place)
        return _real(*args, **kwargs)


def install(patches: Patches) -> None:
    patches.set(torch, "device", patches.stand_in(_real, device))
    patches.set(torch._C, "_get_accelerator", _accelerator)
    from torch.jit import annotations

    patches.wrap(annotations, "try_ann_to_type", _annotated)


def _accelerator(check: Any = None) -> torch.device:
    return _real("cuda")


def _annotated(original: Any) -> Any:
    """TorchScript tells types by identity: an annotation may be the real type, from before the simulation."""

    def try_ann_to_type(ann: Any, *args: Any, **kwargs: Any) -> Any:
        return original(torch.device if ann is _real else ann, *args, **kwargs)

    return try_ann_to_type
