"""Checks that PyTorch makes in composite C++ code, above the dispatcher: recurrent layers, attention, optimizers."""

from __future__ import annotations

from typing import Any

import torch

from . import special
from .patching import Patches
from .tags import read


def install(patches: Patches) -> None:
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        original = getattr(torch._C._VariableFunctions, name)
        checked = patches.stand_in(original, _recurrent(original))
        patches.set(torch._VF, name, checked)
        patches.set(torch, name, checked)
    original = torch._C._nn.scaled_dot_product_attention
    attention = patches.stand_in(original, _attention(original))
    patches.set(torch.nn.functional, "scaled_dot_product_attention", attention)
    patches.set(torch._C._nn, "scaled_dot_product_attention", attention)
    patches.wrap(torch._C, "_group_tensors_by_device_and_dtype", _grouped)


def _recurrent(original: Any) -> Any:
    """RNN.h, check_attributes: hidden states first, then parameters, each against the input."""

    def layer(data: Any, second: Any, third: Any, *rest: Any) -> Any:
        # (input, hx, params, ...) or, for packed sequences, (data, batch_sizes, hx, params, ...)
        packed = isinstance(third, torch.Tensor) or (
            isinstance(second, torch.Tensor) and rest and _is_list(rest[0])
        )
        hidden, params = (third, rest[0]) if packed else (second, third)
        if packed and read(second) > 0:
            raise RuntimeError(f"batch_sizes tensor should be on CPU, but got {second.device}")
        mine = data.device
        for kind, found in (("hidden", hidden), ("parameter", params)):
            for tensor in found if _is_list(found) else (found,):
                if tensor.device != mine:
                    raise RuntimeError(
                        f"Input and {kind} tensors are not at the same device, found input tensor at {mine} "
                        f"and {kind} tensor at {tensor.device}"
                    )
        return original(data, second, third, *rest)

    return layer


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _attention(original: Any) -> Any:
    """attention.cpp, validate_sdpa_input."""

    def scaled_dot_product_attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        a, b, c = read(query), read(key), read(value)
        if not a == b == c and max(a, b, c) > 0:
            raise special.attention_error(str(query.device), str(key.device), str(value.device))
        return original(query, key, value, *args, **kwargs)

    return scaled_dot_product_attention


def _grouped(original: Any) -> Any:
    """ForeachUtils.h, _group_tensors_by_first_tensors_device_and_dtype, with simulated devices.

    Every list holds, at an index, tensors of one device and dtype; only `step` tensors may be on the CPU.
    """

    def group(lists: Any, with_indices: bool = False) -> Any:
        devices = {read(t) for tensors in lists for t in tensors if t is not None}
        if all(tag <= 0 for tag in devices):
            return original(lists, with_indices)
        groups: dict[Any, list[int]] = {}
        for index, first in enumerate(lists[0]):
            for tensors in lists[1:]:
                other = tensors[index] if index < len(tensors) else None
                if other is None or other.device == first.device:
                    continue
                step = other.dim() == 0 and read(other) <= 0 and other.dtype in (torch.float32, torch.float64)
                if not step:
                    raise RuntimeError(
                        "Tensors of the same index must be on the same device and the same dtype except "
                        "`step` tensors "
                        "that can be CPU and float32/64" + _tail()
                    )
            groups.setdefault((first.device, first.dtype), []).append(index)
        return {
            key: ([[t[i] for i in chosen] if t else [] for t in lists], chosen if with_indices else [])
            for key, chosen in groups.items()
        }

    return group


def _tail() -> str:
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version >= (2, 10):
        return ", and optimizer states that can be bfloat16 for mixed-precision training"
    return " notwithstanding"
