"""Ops that are run in a way of their own: kernels that only one device has, and checks that are no comparison of tags.

`RUNNERS` gives, by op, a function of the op, its signature and the way in which it would run otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import errors, generators, special, tags
from .judge import Call, judge
from .signature import Signature
from .tags import read, write

Run = Callable[[tuple[Any, ...], dict[str, Any]], Any]
Tensor = torch.Tensor
# Where an op can have a kernel that a build for the CPU runs.
_ON_CPU = ("CPU", "SparseCPU", "SparseCsrCPU", "QuantizedCPU", "NestedTensorCPU", "MkldnnCPU",
           "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional",
           "CompositeImplicitAutogradNestedTensor")  # fmt: skip


def runs_on_cpu(func: Any) -> bool:
    """Whether this build has a kernel that computes the op."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(has(func.name(), key) for key in _ON_CPU)


def check_generator(generator: Any, tag: int) -> None:
    """Generator.h, check_generator: a generator belongs to a kind of device."""
    if generator is None:
        return
    found = "cuda" if generators.tag_of(generator) > 0 else "cpu"
    wanted = "cuda" if tag > 0 else "cpu"
    if found != wanted:
        raise errors.generator(wanted, found)


def check_permutation(generator: Any) -> None:
    """TensorFactories.cpp, randperm_out_cpu."""
    if generator is not None and generators.tag_of(generator) > 0:
        raise errors.permutation("cpu", tags.string(generators.tag_of(generator)))


def _pack(func: Any, signature: Signature, plain: Run) -> Run:
    """The batch follows its device, `batch_sizes` is on the CPU always."""

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        special.check_lengths(args[1])
        out = signature.op(*args, **kwargs)
        write(out[0], read(args[0]))
        return out

    return run


def without_cuda_kernel(func: Any, signature: Signature) -> Run:
    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if any(item.tag > 0 for item in signature.items(args, kwargs)):
            raise special.no_kernel(signature.name)
        return signature.op(*args, **kwargs)

    return run


def gpu_only(func: Any, signature: Signature) -> Run:
    """Kernels that only a GPU has: nothing here can compute what they do."""

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        items = signature.items(args, kwargs)
        if any(item.tag > 0 for item in items):
            judge(Call(signature.name, args, kwargs, items))
            raise RuntimeError(f"whydevice: aten::{signature.name} needs a real GPU and is not simulated")
        return signature.op(*args, **kwargs)

    return run


def _convolution(func: Any, signature: Signature, plain: Run) -> Run:
    """CUDA names the types also when only the dtypes differ, which the CPU finds out in other words."""

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        subject, weight = args[0], args[1]
        if subject.dtype is not weight.dtype and read(subject) > 0:
            special.check_types(signature.items(args, kwargs))
        return plain(args, kwargs)

    return run


def _set(func: Any, signature: Signature, plain: Run) -> Run:
    """TensorShape.cpp, checkSetStorage: a tensor takes no storage from another device."""

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        source = args[1] if len(args) > 1 else kwargs.get("source")
        if source is not None:
            mine = read(args[0])
            its = (
                read(source)
                if isinstance(source, Tensor)
                else getattr(source, "_untyped_storage", source)._whydevice
            )
            if mine != its and max(mine, its) > 0 and min(mine, its) >= 0:
                raise errors.storage(tags.string(mine), tags.string(its))
        return signature.op(*args, **kwargs)

    return run


def _equal(func: Any, signature: Signature, plain: Run) -> Run:
    """TorchScript compares the constants of a graph that it saves; a mode gets those without dimensions as numbers."""

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not any(isinstance(each, Tensor) for each in args):
            return type(args[0]) is type(args[1]) and args[0] == args[1]
        return plain(args, kwargs)

    return run


RUNNERS: dict[str, Callable[[Any, Signature, Run], Run]] = {
    "_pack_padded_sequence": _pack,
    "convolution": _convolution,
    "equal": _equal,
    "set_.source_Tensor": _set,
    "set_.source_Storage": _set,
    "set_.source_Storage_storage_offset": _set,
    "set_.source_Tensor_storage_offset": _set,
}
