"""torch.distributed: NCCL needs GPUs, so Gloo carries what its groups send, and refuses what NCCL refuses."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch

from .patching import Patches
from .runtime_patches import say_once
from .tags import read

_standing_in: weakref.WeakSet[Any] = weakref.WeakSet()
"""The groups that were asked for with NCCL, for which Gloo stands in."""

_COLLECTIVES = ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter",
                "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "send", "recv",
                "isend", "irecv", "all_gather_coalesced", "all_reduce_coalesced")  # fmt: skip


def install(patches: Patches) -> None:
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    for owner in (torch.distributed, c10d):
        patches.set(owner, "is_nccl_available", lambda: True)
        patches.wrap(owner, "get_backend", _backend)
        for name in _COLLECTIVES:
            patches.wrap(owner, name, _compared)
    patches.wrap(torch.distributed, "_verify_params_across_processes", _compared)
    patches.set(torch.cuda.nccl, "version", lambda: (2, 27, 5))
    patches.wrap(c10d, "_new_process_group_helper", _helper)
    for name in ("_get_object_coll_device", "_get_pg_default_device"):
        patches.wrap(c10d, name, _object_device)
    patches.undo_with(_standing_in.clear)


def _compared(original: Any) -> Any:
    """ProcessGroup.hpp, getBackend: a group with NCCL has no backend for tensors on the CPU."""

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        group = next((v for v in values if isinstance(v, torch.distributed.ProcessGroup)), None)
        if _standing_in and _group(group) in _standing_in and any(map(_on_cpu, values)):
            raise RuntimeError("No backend type associated with device type cpu")
        return original(*args, **kwargs)

    return collective


def _on_cpu(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_on_cpu, value))
    return isinstance(value, torch.Tensor) and read(value) == 0


def _helper(original: Any) -> Any:
    def _new_process_group_helper(
        size: Any, rank: Any, ranks: Any, backend: Any, store: Any, name: Any, *args: Any, **options: Any
    ) -> Any:
        from torch.distributed import Backend

        told = str(backend)
        wants = "nccl" in told or told == "undefined"
        if wants:
            say_once("NCCL is not simulated, Gloo carries the collectives")
            backend = Backend("gloo")
            options["backend_options"] = None
            if "device_id" in options:
                options["device_id"] = None
        made = original(size, rank, ranks, backend, store, name, *args, **options)
        if told == "nccl" and isinstance(made[0], torch.distributed.ProcessGroup):
            _standing_in.add(made[0])
        return made

    return _new_process_group_helper


def _group(group: Any) -> Any:
    from torch.distributed import distributed_c10d as c10d

    return group if group is not None else c10d._get_default_group()


def _backend(original: Any) -> Any:
    def get_backend(group: Any = None) -> Any:
        found = original(group)
        return torch.distributed.Backend("nccl") if _group(group) in _standing_in else found

    return get_backend


def _object_device(original: Any) -> Any:
    def device(group: Any = None) -> Any:
        if _group(group) in _standing_in:
            return torch.device("cuda", torch.cuda.current_device())
        return original(group)

    return device
