"""A tensor's metadata, through PyTorch's own C descriptors: no operation runs, and no `__torch_function__`."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from .passive import bases, class_entries, class_module, lookup


def torch() -> Any:
    """The torch that the program has imported; an explanation never imports it anew."""
    return sys.modules.get("torch")


def is_tensor(value: object) -> bool:
    t = torch()
    return t is not None and issubclass(type(value), t.Tensor)


def is_module(value: object) -> bool:
    t = torch()
    return t is not None and issubclass(type(value), t.nn.Module)


def is_parameter(value: object) -> bool:
    t = torch()
    return t is not None and issubclass(type(value), t.nn.Parameter)


def is_device(value: object) -> bool:
    t = torch()
    # Under simulation something stands for the type, and says for which.
    return t is not None and type(value) is getattr(t.device, "__wrapped__", t.device)


def device_of(value: object) -> str | None:
    """The device of a tensor as PyTorch prints it, simulated or real; None when it has none."""
    if _answers_itself(value):
        return _device_by_keys(value)
    simulate = sys.modules.get("whydevice.simulate")
    if simulate is not None:
        found: str | None = simulate.device_of(value)
        if found is not None:
            return found
    t = torch()
    try:
        with t._C.DisableTorchFunction():
            return _written(t._C.TensorBase.device.__get__(value))
    except (RuntimeError, TypeError, NotImplementedError):
        return None


@lru_cache(maxsize=64)
def _written(device: object) -> str:
    """A device as PyTorch prints it: writing it anew takes longer than reading it from the tensor."""
    return str(device)


def _answers_itself(value: object) -> bool:
    """Whether a tensor's own `__torch_dispatch__` may be what its `.device` and `.shape` ask.

    With `dispatch_device=True` the C descriptors call it. That a subclass was made so cannot be seen, so each that
    defines one counts; torch's own (FakeTensor, DTensor) are no code of the user's.
    """
    t = torch()
    kind = type(value)
    if kind is t.Tensor or kind is t.nn.Parameter or not issubclass(kind, t.Tensor):
        return False
    for base in bases(kind):
        if base is t.Tensor:
            return False
        if lookup(class_entries(base), "__torch_dispatch__") is not None:
            return class_module(base).partition(".")[0] != "torch"
    return False


def _device_by_keys(value: object) -> str | None:
    """What the tags of the dispatcher say of a tensor's device; None where they leave the index open."""
    t = torch()
    with t._C.DisableTorchFunction():
        try:
            tag = getattr(t._C.TensorBase.untyped_storage(value), "_whydevice", 0)
        except (RuntimeError, NotImplementedError):
            tag = 0
        keys = t._C._dispatch_keys(value)
    if tag > 0:
        return f"cuda:{tag - 1}"
    key = t._C.DispatchKey
    if keys.has(key.CUDA):
        count = getattr(t._C, "_cuda_getDeviceCount", None)
        return "cuda:0" if count is None or count() == 1 else None
    return "cpu" if keys.has(key.CPU) else "meta" if keys.has(key.Meta) else None


def shape_of(value: object) -> tuple[int, ...] | None:
    t = torch()
    if _answers_itself(value):
        return None
    try:
        with t._C.DisableTorchFunction():
            return tuple(int(n) for n in t._C.TensorBase.shape.__get__(value))
    except (RuntimeError, TypeError, NotImplementedError, ValueError):
        return None


def dtype_of(value: object) -> str | None:
    t = torch()
    try:
        with t._C.DisableTorchFunction():
            return str(t._C.TensorBase.dtype.__get__(value)).removeprefix("torch.")
    except (RuntimeError, TypeError, NotImplementedError):
        return None


def is_leaf(value: object) -> bool:
    """Whether autograd made the tensor from others (False) or not."""
    t = torch()
    with t._C.DisableTorchFunction():
        return t._C.TensorBase.grad_fn.__get__(value) is None


def storage_key(value: object) -> int | None:
    """What two views of one memory have in common: the address of the storage's implementation."""
    t = torch()
    try:
        with t._C.DisableTorchFunction():
            return int(t._C.TensorBase.untyped_storage(value)._cdata)
    except (RuntimeError, TypeError, NotImplementedError, AttributeError):
        return None
