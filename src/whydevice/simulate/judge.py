"""Whether a call's tensors may meet, as CUDA's kernels decide it, and on which device its results are.

`judge` returns the tag of the results or raises with CUDA's words. It runs only when the tags of a call
differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from . import errors, tags
from .rules import DeviceRule, table
from .state import STATE


class Item(NamedTuple):
    """A tensor of a call: the name of its argument, whether the op writes it, the tensor, its tag."""

    name: str
    written: bool
    tensor: torch.Tensor
    tag: int
    wild: bool = False  # made by C++ for this call, and given its device by it

    @property
    def device(self) -> str:
        return tags.name(self.tensor, self.tag)


class Call(NamedTuple):
    """One call of an op, seen at the dispatcher. `op` is the name in native_functions.yaml."""

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    items: list[Item]

    def named(self, name: str) -> list[Item]:
        return [item for item in self.items if item.name == name]

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)


Special = Callable[[Call], int]
SPECIAL: dict[str, Special] = {}
# TensorIterator ops that do not allow a 0-dim CPU operand (no `allow_cpu_scalars` where they build their
# iterator).
NO_CPU_SCALARS = {"complex", "complex.out", "polar", "polar.out", "index.Tensor_out"}


def special(*ops: str) -> Callable[[Special], Special]:
    """Register the rule of ops that compare devices in their own way, by base name (`index`) or full (`index.Tensor`)."""

    def register(rule: Special) -> Special:
        for op in ops:
            SPECIAL[op] = rule
        return rule

    return register


def exact(items: list[Item], method: str) -> int:
    """The generated wrapper's check: the first tensor sets the device, the first that differs is named."""
    common = items[0]
    for item in items[1:]:
        if item.device != common.device:
            raise errors.wrapper(item.name, item.device, common.device, method)
    return common.tag


def iterate(items: list[Item], cpu_scalars: bool = True) -> int:
    """TensorIterator's check: outputs before inputs, the first that is not on the CPU sets the device.

    One 0-dim CPU input passes. (aten/src/ATen/TensorIterator.cpp, compute_types)
    """
    ordered = [i for i in items if i.written] + [i for i in items if not i.written]
    common = next((item for item in ordered if item.tag > 0), ordered[0])
    scalars = 0
    for item in ordered:
        if item.tag == common.tag:
            continue
        if cpu_scalars and not item.written and item.tag == 0 and item.tensor.dim() == 0:
            scalars += 1
            if scalars > 1:
                raise errors.too_many_scalars()
            continue
        raise errors.iterator(common.device, item.device)
    return common.tag


def key_of(items: list[Item], rule: DeviceRule) -> str:
    """The dispatch key that wins among the arguments: the wrapper's name bears it."""
    layouts = {item.tensor.layout for item in items}
    if torch.sparse_coo in layouts:
        key = "SparseCUDA"
    elif layouts & {torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}:
        key = "SparseCsrCUDA"
    elif any(item.tensor.is_nested for item in items):
        key = "NestedTensorCUDA"
    elif any(item.tensor.is_quantized for item in items):
        key = "QuantizedCUDA"
    else:
        key = "CUDA"
    # What makes a sparse tensor has a kernel for sparse tensors only, whatever its arguments are.
    return key if key in rule.keys else "CUDA" if "CUDA" in rule.keys else rule.keys[0]


def resize(items: list[Item]) -> int:
    """The outputs of a structured kernel are where its first input is (torchgen: resize_out)."""
    first = next(item for item in items if not item.written)
    for item in items:
        if item.written and item.device != first.device:
            raise errors.output(first.device, item.device)
    return first.tag


def adopt(items: list[Item]) -> list[Item]:
    """Give the tensors that C++ made inside an operator the device that the others are on."""
    if all(item.tag != tags.WILD for item in items):
        return items
    found = next((item.tag for item in items if item.tag > 0), 0)
    # A number on the CPU goes with any device and so settles nothing.
    if found or any(item.tag == 0 and item.tensor.dim() for item in items):
        for item in items:
            if item.tag == tags.WILD:
                tags.write(item.tensor, found)
    return [item._replace(tag=found, wild=True) if item.tag == tags.WILD else item for item in items]


def judge(call: Call) -> int:
    """The tag of the call's results, or the error that CUDA raises."""
    try:
        return _judge(call)
    except RuntimeError as error:
        # TorchScript loses the text of an error that passes through it (script_patches.py).
        STATE.thread.refused = str(error)
        raise


def _judge(call: Call) -> int:
    """Without a simulated GPU among the arguments nothing is judged: PyTorch itself does."""
    wild = all(item.tag == tags.WILD for item in call.items)
    if wild:
        return tags.WILD if call.items else 0
    call = call._replace(items=adopt(call.items))
    items = call.items
    first = items[0].tag
    if all(item.tag == first for item in items) or all(item.tag <= 0 for item in items):
        return max(item.tag for item in items)
    base = call.op.partition(".")[0]
    rule = SPECIAL.get(call.op) or SPECIAL.get(base)
    if rule is not None:
        return rule(call)
    entry = table().get(call.op)
    if entry is None:
        STATE.count(call.op, "no rule for it: its devices were not compared")
        return next(item.tag for item in items if item.tag > 0)
    if entry.check == "exact" and entry.keys:
        order = [item for name in entry.arguments for item in call.named(name.removesuffix("[]"))]
        return exact(order, entry.wrapper(key_of(items, entry))) if order else first
    if entry.check == "exact" and not entry.keys:
        # Composite, and no rule of its own in special.py: CUDA names an inner op, which is not known here.
        STATE.count(call.op, "made of other operators: raised in TensorIterator's words, CUDA's may differ")
    if entry.check == "resize":
        return resize(items)
    return iterate(items, call.op not in NO_CPU_SCALARS)
