"""The causes, one file each, in the order in which they are asked.

A cause's module has `NAME` (the problem, never the remedy), `TITLE`, its page as docstring, and
`find(evidence) -> Finding | None`. Modules whose names start with an underscore are what several causes share.

A module is loaded when its turn comes: half of the time of a first error would be the loading of causes that are
never reached, or that this error cannot have.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from ..evidence.host import reads_host
from ..types import Cause

if TYPE_CHECKING:
    from ..evidence.collect import Evidence

ORDER = (
    "offloaded_weight_read",
    "dataparallel_device",
    "ddp_device_ids",
    "meta_not_filled",
    "cuda_in_worker",
    "offload_hooks_missing",
    "object_keeps_device",
    "traced_on_cpu",
    "generator_on_other_device",
    "loss_on_last_gpu",
    "moved_after_dispatch",
    "autograd_device",
    "block_split_over_gpus",
    "cache_on_one_gpu",
    "cpu_only_argument",
    "numpy_from_cuda",
    "library_default_device",
    "library_fault",
    "split_model_in_library",
    "results_on_several_gpus",
    "optimizer_state_on_cpu",
    "to_result_discarded",
    "gpu_index_hard_coded",
    "two_gpus",
    "modules_in_dict",
    "modules_in_list",
    "container_partly_moved",
    "shadow_copy_before_move",
    "captured_before_move",
    "stale_cache",
    "buffer_alias",
    "buffer_overwritten",
    "tensor_from_parameters_in_init",
    "tensor_attribute_not_buffer",
    "default_device",
    "stray_cpu_call",
    "loss_weight_on_cpu",
    "module_moved_too_late",
    "module_added_after_move",
    "cpu_table_indexed_by_cuda",
    "module_created_after_move",
    "metric_state_on_cpu",
    "module_not_moved",
    "accumulator_on_cpu",
    "silent_copy_to_cpu",
    "tensor_in_plain_object",
    "batch_not_moved",
    "device_argument_is_cpu",
    "tensor_without_device",
    "input_not_moved",
)
"""The more special ones come before those that fit many errors."""


def _between_gpus(evidence: Evidence) -> bool:
    return all(d is not None and d.startswith("cuda") for d in (evidence.wanted, evidence.wrong_device))


def _names_two_gpus(evidence: Evidence) -> bool:
    return len({d for d in evidence.error.devices if d.startswith("cuda")}) > 1


def _of_family(*families: str) -> Callable[[Evidence], bool]:
    return lambda evidence: evidence.error.family.startswith(families)


def _concerns_meta(evidence: Evidence) -> bool:
    wrong = evidence.wrong
    return "meta" in (evidence.wrong_device, wrong.device if wrong is not None else None)


def _reads_host(evidence: Evidence) -> bool:
    return reads_host(evidence.error)


def _off_the_first_gpu(evidence: Evidence) -> bool:
    return evidence.error.family == "N1" or _between_gpus(evidence)


def _from_loader(evidence: Evidence) -> bool:
    return evidence.root is not None and evidence.root.kind == "loader"


ONLY: dict[str, Callable[[Evidence], bool]] = {
    "dataparallel_device": _off_the_first_gpu,
    "ddp_device_ids": _of_family("N6"),
    "meta_not_filled": _concerns_meta,
    "cuda_in_worker": lambda evidence: "re-initialize CUDA" in evidence.error.message,
    "generator_on_other_device": _of_family("J"),
    "loss_on_last_gpu": _names_two_gpus,
    "block_split_over_gpus": _between_gpus,
    "cache_on_one_gpu": _between_gpus,
    "numpy_from_cuda": _reads_host,
    "split_model_in_library": _between_gpus,
    "gpu_index_hard_coded": _between_gpus,
    "two_gpus": _between_gpus,
    "cpu_table_indexed_by_cuda": _of_family("F1"),
    "batch_not_moved": _from_loader,
}
"""What an error must be for these to be asked at all."""


def asked(evidence: Evidence) -> Iterator[ModuleType]:
    """The modules of the causes that an error can have, in order, each loaded when it is asked for."""
    for name in ORDER:
        if name not in ONLY or ONLY[name](evidence):
            yield _module(name)


def modules() -> tuple[ModuleType, ...]:
    """The modules of all causes, in order."""
    return tuple(map(_module, ORDER))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


def cause_of(module: ModuleType) -> Cause:
    """The published data of a cause module."""
    return Cause(module.NAME, module.TITLE, (module.__doc__ or "").strip())


def all_causes() -> list[Cause]:
    """Every cause, by name."""
    return sorted((cause_of(m) for m in modules()), key=lambda c: c.name)


def by_name(name: str) -> Cause | None:
    """The cause with this name, or None."""
    return next((c for c in all_causes() if c.name == name), None)
