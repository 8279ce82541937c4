"""The dispatch mode: sees every op that reaches a kernel, compares the tags, lets the CPU compute, tags the
results.

What an op needs is worked out once and kept on the OpOverload itself (`op._whydevice`), as a closure that
takes the arguments: looking it up costs one attribute. The closures have a short way for the common case,
in which all tensors bear the same tag, and leave the rest to `judge`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

from . import library_ops, special, special_sparse  # noqa: F401  special_sparse registers its rules
from .devices import tag_of
from .judge import Call, Item, judge
from .kernels import RUNNERS, check_generator, check_permutation, gpu_only, runs_on_cpu, without_cuda_kernel
from .signature import Signature
from .state import STATE
from .tags import CPU, WILD, read, real_device, storage_of, write

Run = Callable[[tuple[Any, ...], dict[str, Any]], Any]
Tensor = torch.Tensor
_NONE: dict[str, Any] = {}
_compiled: list[Any] = []


class SimulatedCuda(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Active in every thread of the simulation."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Not wrapped by dynamo's `disable`, which would import it and cost a call per op: nothing is compiled here."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if types and _foreign(types):
            # A FakeTensorMode comes after this one and its tensors are its own; other subclasses come before it.
            return func(*args, **(kwargs or _NONE)) if _fake_mode() is not None else NotImplemented
        run = getattr(func, "_whydevice", None) or compiled(func)
        return run(args, kwargs or _NONE)


def _fake_mode() -> Any:
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)


def new_mode() -> Any:
    """The mode for the thread that calls."""
    return SimulatedCuda()  # type: ignore[no-untyped-call]


def _foreign(types: Any) -> bool:
    """Whether a tensor subclass with a dispatch of its own takes part: its inner ops come here again."""
    disabled = torch._C._disabled_torch_dispatch_impl
    return any(t is not Tensor and t.__torch_dispatch__ is not disabled for t in types)


def forget() -> None:
    """Take the closures off the ops again."""
    while _compiled:
        _compiled.pop().__dict__.pop("_whydevice", None)


def compiled(func: Any) -> Run:
    """The closure for an op, made on its first call."""
    run = _compile(func)
    traffic = STATE.session.traffic if STATE.session is not None else None
    if traffic is not None:
        run = traffic.watch(func, run)
    func._whydevice = run
    _compiled.append(func)
    return run


def mark(out: Any, tag: int) -> None:
    """Tag what an op returned."""
    if isinstance(out, Tensor):
        write(out, tag)
    elif isinstance(out, (tuple, list)):
        for part in out:
            mark(part, tag)


def _compile(func: Any) -> Run:
    signature = Signature(func)
    if func.namespace not in ("aten", "prim", "prims"):
        return library_ops.runner(func, signature, SimulatedCuda)
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
        return _composite(func)
    if signature.name in RUNNERS:
        return RUNNERS[signature.name](func, signature, _several(func, signature))
    if signature.name.partition(".")[0] in special.NO_CUDA_KERNEL:
        return without_cuda_kernel(func, signature)
    if not runs_on_cpu(func):
        return gpu_only(func, signature)
    if signature.device:
        return _factory(func, signature)
    count = len(signature.tensors)
    if count == 0 and not signature.generator:
        return lambda args, kwargs: signature.op(*args, **kwargs)
    if signature.generator or signature.lists or signature.keyword_tensors:
        return _general(func, signature)
    if count == 1 and signature.quiet and not signature.view:
        return lambda args, kwargs: signature.op(*args, **kwargs)
    if count == 1:
        return _view(func, signature) if signature.view else _unary(func, signature)
    return _several(func, signature)


def _composite(func: Any) -> Run:
    """In inference mode, and below autograd, composite ops arrive whole: take them apart with the mode active."""
    key, op = torch._C.DispatchKey.CompositeImplicitAutograd, func._op_dk

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _push_mode(new_mode())
        try:
            return op(key, *args, **kwargs)
        finally:
            _pop_mode()

    return run


def _general(func: Any, signature: Signature) -> Run:
    """Lists, keyword tensors, generators, and every call whose tags differ."""
    op, foreach = signature.op, signature.name.startswith("_foreach_")

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        items = signature.items(args, kwargs)
        if foreach:
            return _foreach(signature, args, kwargs)
        if any(item.tag == 0 and real_device(item.tensor).type == "meta" for item in items):
            return _with_meta(op, args, kwargs, items)
        tag = judge(Call(signature.name, args, kwargs, items))
        if signature.generator:
            check_generator(kwargs.get("generator"), tag)
        if tag > 0 and len(items) > 1:
            _watch_scalars(items, tag)
        out = op(*args, **kwargs)
        if tag and not signature.quiet:
            mark(out, tag)
        return out

    return run


def _with_meta(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], items: list[Item]) -> Any:
    """Meta comes before CUDA: its kernels run, and compare in Python (torch/_prims_common, check_same_device)."""
    failure = None
    try:
        return op(*args, **kwargs)
    except RuntimeError as error:
        gpu = next((item.device for item in items if item.tag > 0), None)
        if gpu is None or "device cpu" not in str(error):
            raise
        failure = RuntimeError(str(error).replace("device cpu", f"device {gpu}"))
    raise failure


def _view(func: Any, signature: Signature) -> Run:
    """Results share the storage, and with it the tag; without a storage (sparse) the tag is handed on."""
    op, position = signature.op, signature.tensors[0][1]

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = op(*args, **kwargs)
        if type(out) is Tensor and out.layout is not torch.strided:
            mark(out, read(args[position]))
        return out

    return run


def _unary(func: Any, signature: Signature) -> Run:
    op, position = signature.op, signature.tensors[0][1]

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            tag = storage_of(args[position])._whydevice  # type: ignore[attr-defined]
        except (TypeError, IndexError, RuntimeError):
            value = args[position] if position < len(args) else kwargs.get(signature.tensors[0][0])
            tag = read(value) if isinstance(value, Tensor) else 0
        out = op(*args, **kwargs)
        if tag:
            try:
                storage_of(out)._whydevice = tag  # type: ignore[attr-defined]
            except (TypeError, RuntimeError):
                mark(out, tag)
        return out

    return run


def _several(func: Any, signature: Signature) -> Run:
    op = signature.op
    positions = [position for _, position, _, _ in signature.tensors]
    first, *rest = positions
    quiet = signature.quiet
    general = _general(func, signature)

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # An error must not be raised while another is handled: it would be printed with it.
        try:
            tag = storage_of(args[first])._whydevice  # type: ignore[attr-defined]
            for position in rest:
                value = args[position]
                if value is not None and storage_of(value)._whydevice != tag:  # type: ignore[attr-defined]
                    tag = None
                    break
        except (TypeError, IndexError, RuntimeError):
            tag = None
        if tag is None:
            return general(args, kwargs)
        out = op(*args, **kwargs)
        if tag and not quiet:
            try:
                storage_of(out)._whydevice = tag  # type: ignore[attr-defined]
            except (TypeError, RuntimeError):
                mark(out, tag)
        return out

    return run


def _foreach(signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Lists on different devices take the slow path, one op per position, and so are compared per position."""
    columns: list[list[Any]] = []
    loose: list[Item] = []
    for name, position, is_list, written in signature.tensors:
        value = args[position] if position < len(args) else kwargs.get(name)
        if is_list and value is not None:
            columns.append([Item(name, written, t, read(t)) for t in value])
        elif isinstance(value, Tensor):
            loose.append(Item(name, written, value, read(value)))
    chosen = []
    for row in zip(*columns, strict=False):
        chosen.append(judge(Call(signature.name, args, kwargs, [*row, *loose])))
    out = signature.op(*args, **kwargs)
    if isinstance(out, (tuple, list)) and not signature.inplace:
        for tensor, tag in zip(out, chosen, strict=False):
            if tag:
                mark(tensor, tag)
    return out


def _factory(func: Any, signature: Signature) -> Run:
    """Ops that are told a device. Python's own calls always say `pin_memory`, C++'s never do: that tells the
    device that a user asked for from the one that C++ read off a tensor whose memory is really the CPU's.
    """
    op = signature.op
    like = bool(signature.tensors)
    # The bindings of torch.range alone do not say pin_memory; no C++ operator calls it.
    unsaid = 0 if signature.name.startswith("range") else WILD

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _fake_mode() is not None:
            return op(*args, **kwargs)
        if len(args) > signature.device_position:
            args, kwargs = _named(func, args, kwargs, signature.device_position)
        device = kwargs.get("device")
        source = 0
        if like:
            items = signature.items(args, kwargs)
            source = (
                judge(Call(signature.name, args, kwargs, items))
                if len(items) > 1
                else (items[0].tag if items else 0)
            )
        if device is None:
            tag: int | None = source
        else:
            tag = tag_of(device)
            if tag is None:
                return op(*args, **kwargs)
            if tag == 0 and kwargs.get("pin_memory") is None:
                tag = source if like else unsaid
        pinned = kwargs.get("pin_memory")
        kwargs = {k: v for k, v in kwargs.items() if k != "pin_memory"}
        if device is not None and (tag or source):
            kwargs["device"] = CPU
        if signature.generator:
            if signature.name.startswith("randperm") and not tag:
                check_permutation(kwargs.get("generator"))
            check_generator(kwargs.get("generator"), tag or 0)
        out = op(*args, **kwargs)
        if tag:
            mark(out, tag)
        elif pinned:
            storage_of(out)._whydevice_pinned = True  # type: ignore[attr-defined]
        return out

    return run


def _named(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], position: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call with the arguments from `position` on given by name."""
    names = [argument.name for argument in func._schema.arguments]
    return args[:position], {**dict(zip(names[position:], args[position:], strict=False)), **kwargs}


def _watch_scalars(items: list[Item], tag: int) -> None:
    """A 0-dim CPU tensor that took part on the GPU gets its gradient back on the CPU.

    Autograd moves 0-dim gradients to the device of their input (engine.cpp, validate_outputs); without that
    move the backward of what lies before would meet a gradient on the wrong device.
    """
    for item in items:
        if item.tag == 0 and item.tensor.requires_grad and "_whydevice_hook" not in item.tensor.__dict__:
            item.tensor._whydevice_hook = True  # type: ignore[attr-defined]
            item.tensor.register_hook(_to_cpu)  # type: ignore[no-untyped-call]


def _to_cpu(grad: Tensor) -> Tensor:
    return grad.to(CPU)
