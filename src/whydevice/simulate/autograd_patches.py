"""Autograd's own checks of devices, which its C++ makes on real devices only.

A gradient that is handed to `backward` or `grad` must be where its output is; what the backward of a custom
Function returns must be where that function's input was. (torch/csrc/autograd/engine.cpp, validate_outputs)
"""

from __future__ import annotations

from typing import Any

import torch

from . import errors, moves, tags
from .patching import Patches
from .tags import read


def install(patches: Patches) -> None:
    patches.wrap(torch.autograd, "_engine_run_backward", _run_backward)
    function: Any = torch.autograd.function
    patches.set(function.Function, "apply", classmethod(_apply(vars(function.Function)["apply"])))
    for name in ("apply", "apply_boxed"):
        if name in vars(function.BackwardCFunction):
            patches.set(function.BackwardCFunction, name, _checked(vars(function.BackwardCFunction)[name]))


def _run_backward(original: Any) -> Any:
    def run(outputs: Any, grads: Any, *args: Any, **kwargs: Any) -> Any:
        if all(isinstance(t, torch.Tensor) for t in outputs):
            grads = tuple(
                _settled(grad, read(output), index, None)
                for index, (output, grad) in enumerate(zip(outputs, grads, strict=True))
            )
        found = original(outputs, grads, *args, **kwargs)
        inputs = args[2] if len(args) > 2 else ()
        if isinstance(found, tuple) and len(found) == len(inputs):
            return tuple(_returned(grad, wanted) for grad, wanted in zip(found, inputs, strict=True))
        return found

    return run


def _settled(grad: Any, wanted: int, index: int, node: str | None) -> Any:
    """A gradient as validate_outputs leaves it: 0-dim ones are moved, others must be in place."""
    if not isinstance(grad, torch.Tensor) or wanted == tags.WILD:
        return grad
    tag = read(grad)
    if tag == wanted or tags.real_device(grad).type != "cpu":
        return grad
    if tag == tags.WILD:
        tags.write(grad, wanted)
        return grad
    if grad.dim() == 0:
        return moves.move(grad, wanted)
    raise errors.gradient(index, tags.string(wanted), tags.string(tag), node)


def _returned(grad: Any, wanted: Any) -> Any:
    """What `torch.autograd.grad` hands out lies where its input is."""
    if isinstance(grad, torch.Tensor) and isinstance(wanted, torch.Tensor):
        tag, mine = read(grad), read(wanted)
        if tag == tags.WILD:
            tags.write(grad, mine)
        elif tag != mine and mine != tags.WILD and grad.dim() == 0:
            return moves.move(grad, mine)
    return grad


def _apply(original: Any) -> Any:
    """Remember where the tensors were that a custom Function was given. `original`: a class method of Python, or C."""

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        found = original.__get__(None, cls)(*args, **kwargs)
        first = next(
            (t for t in (found if isinstance(found, tuple) else (found,)) if isinstance(t, torch.Tensor)),
            None,
        )
        node = first.grad_fn if first is not None else None
        if node is not None and hasattr(node, "__dict__"):
            node._whydevice_inputs = [read(a) for a in args if isinstance(a, torch.Tensor)]  # type: ignore[attr-defined]
            node._whydevice_places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]  # type: ignore[attr-defined]
        return found

    return apply


def _checked(original: Any) -> Any:
    def apply(self: Any, *args: Any) -> Any:
        found = original(self, *args)
        wanted = getattr(self, "_whydevice_inputs", None)
        if not wanted:
            return found
        parts = list(found) if isinstance(found, (tuple, list)) else [found]
        node = type(self).__name__
        needed = self.needs_input_grad
        for index, (tag, place) in enumerate(zip(wanted, self._whydevice_places, strict=True)):
            if place < len(parts) and (place >= len(needed) or needed[place]):
                parts[place] = _settled(parts[place], tag, index, node)
        return tuple(parts) if isinstance(found, (tuple, list)) else parts[0]

    return apply
