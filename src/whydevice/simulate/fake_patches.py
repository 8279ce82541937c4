"""FakeTensors on CUDA that autograd records. The CPU build of torch has no device guard for CUDA: it ends the process with
a C++ abort as soon as it notes where such a gradient belongs, under simulation or not. An error comes first here."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

import torch

from .patching import Patches

WORDS = (
    "whydevice: the simulation cannot record gradients of FakeTensors on cuda (FakeTensorMode, torch.export and its "
    "passes): this build of torch has no CUDA, and would end the process. Run this part under torch.no_grad()"
)


_real: Any = torch._C.TensorBase.requires_grad


def install(patches: Patches) -> None:
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    if fake is None:
        return
    patches.wrap(fake.FakeTensorMode, "__torch_dispatch__", _dispatch)
    original = fake.FakeTensor.__new__
    patches.set(fake.FakeTensor, "__new__", staticmethod(_new(original)))
    patches.set(fake.FakeTensor, "requires_grad", property(lambda self: _real.__get__(self), _set))
    patches.wrap(torch.Tensor, "requires_grad_", _requires_grad_)
    if "torch.export" in sys.modules:
        patches.wrap(sys.modules["torch.export"], "export", _export)


def refuse(value: Any) -> None:
    """Raise NotImplementedError for a FakeTensor on cuda, whose gradient is to be recorded."""
    if _on_cuda(value):
        raise NotImplementedError(WORDS)


def _set(self: Any, requires_grad: bool) -> None:
    """torch.export marks what it converts, and checks that; it runs without gradients here, so no op records any."""
    if requires_grad and not _exporting:
        refuse(self)
    _real.__set__(self, requires_grad)


_exporting: list[bool] = []


def _export(original: Any) -> Any:
    @functools.wraps(original)
    def export(*args: Any, **kwargs: Any) -> Any:
        _exporting.append(True)
        try:
            with torch.no_grad():
                return original(*args, **kwargs)
        finally:
            _exporting.pop()

    return export


def _new(original: Any) -> Any:
    @functools.wraps(original)
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        if any(_is_cuda(each) for each in given):
            if not _exporting and (
                kwargs.get("requires_grad") is True or any(_tracked(each) for each in given)
            ):
                raise NotImplementedError(WORDS)
        return original(cls, *args, **kwargs)

    return __new__


def _dispatch(original: Any) -> Any:
    @functools.wraps(original)
    def __torch_dispatch__(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = original(self, func, types, args, kwargs)
        if torch.is_grad_enabled() and any(_on_cuda(each) for each in _flat(found)):
            if any(_tracked(each) for each in _flat((args, kwargs))):
                raise NotImplementedError(WORDS)
        return found

    return __torch_dispatch__


def _requires_grad_(original: Any) -> Any:
    @functools.wraps(original)
    def requires_grad_(self: Any, requires_grad: bool = True) -> Any:
        if requires_grad:
            refuse(self)
        return original(self, requires_grad)

    return requires_grad_


def _tracked(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _on_cuda(value: Any) -> bool:
    device = getattr(value, "fake_device", None) if isinstance(value, torch.Tensor) else None
    return isinstance(device, torch.device) and device.type == "cuda"


def _is_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.partition(":")[0] == "cuda"


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _flat(each)
    elif isinstance(value, dict):
        yield from _flat(list(value.values()))
    else:
        yield value
