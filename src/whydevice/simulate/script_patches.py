"""TorchScript: what its interpreter does without Python, which here has to know of simulated devices.

It drops the text of a Python error, here that of a refused call: on CUDA the same error comes from C++, and
its text ends the message that the interpreter makes. And `.to`, `.cuda()` and `.cpu()` in its source call
`aten::to` in C++, which has no CUDA to move to.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from . import moves
from .patching import Patches
from .state import STATE
from .tags import read

_COMPOSITE: Any = torch._C.DispatchKey.CompositeImplicitAutograd


def install(patches: Patches) -> None:
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]  # `undo` takes it back
    patches.undo_with(library._destroy)
    library.impl("to.device", _to_device, "AutogradCPU")
    library.impl("to.dtype_layout", _to_layout, "AutogradCPU")
    for name in ("script", "trace", "trace_module", "load", "freeze", "optimize_for_inference"):
        patches.wrap(torch.jit, name, _rewritten)
    for kind in (torch._C.ScriptMethod, torch._C.ScriptFunction):
        patches.wrap(kind, "__call__", _with_text)


def _rewritten(original: Any) -> Any:
    """What a compiler of TorchScript returns, with `.to(device)` as a call that the dispatcher sees."""

    def compiling(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        unit: Any = torch.jit._state._python_cu
        graphs = [function.graph for function in unit.get_functions()]
        if isinstance(made, torch.jit.ScriptModule):
            for module in made.modules():
                methods: Any = getattr(module, "_c", None)
                names = methods._method_names() if methods is not None else ()
                graphs += [methods._get_method(name).graph for name in names]
        for graph in graphs:
            for node in graph.findAllNodes("aten::to"):
                if str(node.schema()).startswith("aten::to.prim_Device("):
                    _ask_dispatcher(graph, node)
        return made

    return functools.wraps(original)(compiling)


def _ask_dispatcher(graph: Any, node: Any) -> None:
    """`aten::to.prim_Device`, which initialises CUDA in C++, becomes `aten::to.device`: the dtype is given."""
    value, device, dtype, non_blocking, copy = node.inputs()
    if str(device.type()) != "Device":
        return  # it may be None
    graph.setInsertPoint(node)
    if str(dtype.type()) == "NoneType":
        asked = graph.create("prim::dtype", [value], 1)
        asked.output().setType(torch._C.IntType.get())
        dtype = graph.insertNode(asked).output()
    moved = graph.create(
        "aten::to", [value, device, dtype, non_blocking, copy, graph.insertConstant(None)], 1
    )
    graph.insertNode(moved)
    moved.output().setType(node.output().type())
    node.output().replaceAllUsesWith(moved.output())
    node.destroy()


def _moves(tensor: torch.Tensor, device: torch.device | None) -> bool:
    """Whether a call from C++ asks for another simulated device.

    The CPU only inside TorchScript: elsewhere C++ reads the device off a tensor whose memory is the CPU's.
    """
    if device is None:
        return False
    return device.type == "cuda" or (device.type == "cpu" and STATE.thread.scripted > 0 and read(tensor) > 0)


def _to_device(
    self: torch.Tensor, device: Any, dtype: Any, non_blocking: Any = False, copy: Any = False, **more: Any
) -> Any:
    if _moves(self, device):
        return moves.to(self, device, dtype, non_blocking=non_blocking, copy=copy, **more)
    return torch.ops.aten.to.device._op_dk(_COMPOSITE, self, device, dtype, non_blocking, copy, **more)


def _to_layout(self: torch.Tensor, *, device: Any = None, dtype: Any = None, **more: Any) -> Any:
    if _moves(self, device):
        known = {name: more[name] for name in ("non_blocking", "copy", "memory_format") if name in more}
        return moves.to(self, device, dtype, **known)
    return torch.ops.aten.to.dtype_layout._op_dk(_COMPOSITE, self, device=device, dtype=dtype, **more)


def _with_text(original: Any) -> Any:
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        STATE.thread.refused = None
        STATE.thread.scripted += 1
        failure = None
        try:
            return original(self, *args, **kwargs)
        except RuntimeError as error:
            refused = STATE.thread.refused
            if refused is None or refused in str(error):
                raise
            failure = type(error)(f"{str(error).rstrip()} {refused}\n")
        finally:
            STATE.thread.scripted -= 1
        raise failure

    return __call__
