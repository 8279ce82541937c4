"""Copies between devices: `.to`, `.cuda`, `.cpu`, `.type`, storages."""

from __future__ import annotations

from typing import Any

import torch

from . import tags
from .devices import resolve, tag_of
from .tags import read

_to_copy = torch.ops.aten._to_copy.default
_original_to = torch._C.TensorBase.to


def move(
    tensor: torch.Tensor, tag: int, dtype: Any = None, memory_format: Any = None, non_blocking: bool = False
) -> torch.Tensor:
    """A copy of `tensor` on the device of `tag`, differentiable as `.to` is."""
    kwargs: dict[str, Any] = {"device": tags.device(tag), "pin_memory": False}
    if non_blocking:
        kwargs["non_blocking"] = True
    if dtype is not None:
        kwargs["dtype"] = dtype
    if memory_format is not None:
        kwargs["memory_format"] = memory_format
    out: torch.Tensor = _to_copy(tensor, **kwargs)
    node = out.grad_fn if out.requires_grad else None
    if node is not None:
        # C++ moves the gradient to the device that it reads off the input, which really is the CPU: no move
        # at all.
        node.register_hook(_back_to(read(tensor)))
    return out


def _back_to(tag: int) -> Any:
    def hook(inputs: Any, outputs: Any) -> Any:
        del outputs
        return tuple(g if g is None or read(g) == tag else move(g, tag) for g in inputs)

    return hook


def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Tensor.to: to a device, to a dtype, or to what another tensor has."""
    device, rest = kwargs.get("device"), list(args)
    if (rest and isinstance(rest[0], torch.Tensor)) or "other" in kwargs:
        other = kwargs.pop("other", None) if "other" in kwargs else rest.pop(0)
        device, rest = other.device, [other.dtype, *rest]
    elif rest and not isinstance(rest[0], torch.dtype):
        device = rest.pop(0)
    elif "device" in kwargs:
        kwargs = {k: v for k, v in kwargs.items() if k != "device"}
    if device is None:
        return _original_to(self, *[r for r in rest if r is not None], **kwargs)
    found = resolve(device)
    tag = tag_of(found)
    if tag is None:
        return _original_to(self, found, *rest, **kwargs)
    source = read(self)
    real = tags.real_device(self)
    if real.type == "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if source == tags.WILD:
        source = tag
        tags.write(self, tag)
    if source == tag:
        if tag == 0:
            return _original_to(self, found, *rest, **kwargs)
        if torch._C._get_tracing_state() is not None:
            return move(self, tag, *_wanted_dtype(rest, kwargs))
        rest = rest[1:] if rest and rest[0] is None else rest
        if not rest and not kwargs:
            return self
        return _original_to(self, *_after_device(rest, self), **kwargs)
    dtype, memory_format = _wanted_dtype(rest, kwargs)
    positional = [value for value in rest if isinstance(value, bool)]
    non_blocking = bool(kwargs.get("non_blocking", positional[0] if positional else False))
    return move(self, tag, dtype, memory_format, non_blocking)


def _wanted_dtype(rest: list[Any], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    dtype = kwargs.get("dtype")
    if dtype is None and rest and isinstance(rest[0], torch.dtype):
        dtype = rest[0]
    return dtype, kwargs.get("memory_format")


def _after_device(rest: list[Any], self: torch.Tensor) -> list[Any]:
    """Positional arguments after the device, as the overload without one takes them."""
    return rest if not rest or isinstance(rest[0], torch.dtype) else [self.dtype, *rest]


def cuda(
    self: torch.Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> torch.Tensor:
    """Tensor.cuda."""
    wanted = torch.device("cuda") if device is None else resolve(device)
    if wanted.type != "cuda":
        raise RuntimeError("Invalid device, must be cuda device")
    extra = {} if memory_format is None else {"memory_format": memory_format}
    return to(self, wanted, non_blocking=non_blocking, **extra)


def cpu(self: torch.Tensor, memory_format: Any = None) -> torch.Tensor:
    """Tensor.cpu."""
    extra = {} if memory_format is None else {"memory_format": memory_format}
    return to(self, tags.CPU, **extra)


def copy_storage(storage: Any, tag: int) -> Any:
    """A copy of an UntypedStorage, tagged."""
    copied: Any = torch.UntypedStorage(storage.nbytes())  # type: ignore[no-untyped-call]
    copied.copy_(storage, False)
    copied._whydevice = tag
    return copied


def storage_to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
    """UntypedStorage.to."""
    del non_blocking
    tag = tag_of(resolve(device))
    if tag is None:
        raise RuntimeError(f"whydevice: moving a storage to {device} is not simulated")
    return self if self._whydevice == tag else copy_storage(self, tag)
