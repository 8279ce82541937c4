"""What torch.cuda, torch.accelerator and torch.backends answer when there are simulated GPUs."""

from __future__ import annotations

import contextlib
import time
from types import SimpleNamespace
from typing import Any

import torch

from . import errors
from .devices import index_of
from .patching import Patches
from .state import STATE

_GIB = 1024**3
TOTAL_MEMORY = 16 * _GIB
_NAME = "whydevice simulated GPU"


def install(patches: Patches) -> None:
    cuda: Any = torch.cuda
    for name, value in _CUDA.items():
        patches.set(cuda, name, value)
    for name in _ZERO:
        if hasattr(cuda, name):
            patches.set(cuda, name, lambda *args, **kwargs: 0)
    for name in _NOTHING:
        if hasattr(cuda, name):
            patches.set(cuda, name, lambda *args, **kwargs: None)
    for name in _REFUSED:
        if hasattr(cuda, name):
            patches.set(cuda, name, _refuse(f"torch.cuda.{name}"))
    for name in ("seed", "seed_all", "initial_seed", "get_rng_state", "get_rng_state_all", "set_rng_state",
                 "set_rng_state_all", "manual_seed", "manual_seed_all"):  # fmt: skip
        if hasattr(cuda, "random"):
            patches.set(cuda.random, name, getattr(cuda, name))
    patches.set(cuda, "default_generators", _Generators())
    for name, function in _CUDA_C.items():
        patches.set(torch._C, name, function)
    for owner, names in (
        (cuda.memory, ("_record_memory_history", "_snapshot", "_dump_snapshot")),
        (cuda.jiterator, ("_create_jit_fn",)),
    ):
        for name in names:
            if hasattr(owner, name):
                patches.set(owner, name, _refuse(f"{owner.__name__}.{name}"))
    for name in ("start", "stop"):
        patches.set(cuda.profiler, name, lambda: None)
    patches.set(cuda.graphs, "is_current_stream_capturing", lambda: False)
    for name, ours in (("Stream", Stream), ("Event", Event)):
        patches.set(torch, name, _generic(getattr(torch, name), ours))
    patches.set(torch.backends.cuda, "is_built", lambda: True)
    cudnn: Any = torch.backends.cudnn
    patches.set(cudnn, "is_available", lambda: True)
    patches.set(cudnn, "version", lambda: 91900)
    patches.set(cudnn, "is_acceptable", lambda tensor: False)
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is not None:
        for name, value in _ACCELERATOR.items():
            if hasattr(accelerator, name):
                patches.set(accelerator, name, value)
    for name, function in _ACCELERATOR_C.items():
        if hasattr(torch._C, name):
            patches.set(torch._C, name, function)
    if hasattr(torch, "get_device_module"):
        patches.wrap(torch, "get_device_module", _device_module)


def _device_module(original: Any) -> Any:
    def get_device_module(device: Any = None) -> Any:
        return torch.cuda if device is None else original(device)

    return get_device_module


class _Generic(type):
    """torch.Stream and torch.Event: all kinds of streams, and of events, are their instances."""

    kinds: tuple[type, ...]

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.kinds)


def _generic(real: Any, ours: Any) -> Any:
    def __new__(cls: Any, device: Any = "cuda", **options: Any) -> Any:
        if isinstance(device, real):
            return device
        kind = device if isinstance(device, int) else torch.device(device).type
        if kind != "cuda" and not isinstance(kind, int):
            return real(device, **options)
        return ours(device, **options) if ours is Stream else ours(**options)

    return _Generic(real.__name__, (), {"__new__": __new__, "kinds": (real, ours), "__module__": "torch"})


class _Figures(dict[str, Any]):
    """Statistics of memory that is not measured: every figure is there, and 0."""

    def __missing__(self, key: str) -> int:
        return 0


def _refuse(what: str) -> Any:
    class Refused:
        """Stands where CUDA has something that a CPU cannot act out."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            raise RuntimeError(f"whydevice: {what} is not simulated")

    Refused.__name__ = what.rpartition(".")[2]
    return Refused


def set_device(device: Any) -> None:
    index = device if isinstance(device, int) else index_of(device)
    if index >= STATE.devices:
        raise errors.invalid_ordinal()
    if index >= 0:
        STATE.initialise()
        STATE.thread.current = index


def exchange_device(index: int) -> int:
    """The current device before `index` became it; a negative one changes nothing."""
    before = STATE.thread.current
    if index >= 0:
        set_device(index)
    return before


def current_device() -> int:
    STATE.initialise()
    return STATE.thread.current


def properties(device: Any = None) -> Any:
    STATE.initialise()
    index_of(device)
    return SimpleNamespace(
        name=_NAME, major=8, minor=0, total_memory=TOTAL_MEMORY, multi_processor_count=108, is_integrated=0,
        is_multi_gpu_board=0, max_threads_per_multi_processor=2048, max_threads_per_block=1024,
        regs_per_multiprocessor=65536, warp_size=32, gcnArchName="", shared_memory_per_block=49152,
        shared_memory_per_block_optin=166912, shared_memory_per_multiprocessor=167936, L2_cache_size=41943040,
        uuid="00000000-0000-0000-0000-000000000000",
    )  # fmt: skip


class Stream:
    """A stream does nothing here: every op is done when it returns."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        STATE.initialise()
        self.device = torch.device("cuda", index_of(device))
        self.device_index = self.device.index
        self.device_type = 1
        self.stream_id = self.cuda_stream = kwargs.get("stream_id", 0)
        self.priority = priority

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def record_event(self, event: Any = None) -> Any:
        event = Event() if event is None else event
        event.record(self)
        return event

    def synchronize(self) -> None: ...

    def wait_event(self, event: Any) -> None: ...

    def wait_stream(self, stream: Any) -> None: ...

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *args: Any) -> None: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device and self.stream_id == other.stream_id

    def __hash__(self) -> int:
        return hash((self.stream_id, self.device))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream=0x{self.cuda_stream:x}>"


class Event:
    """An event remembers when it was recorded."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **_: Any
    ) -> None:
        self.enable_timing = enable_timing
        self._time = 0.0

    def record(self, stream: Any = None) -> None:
        self._time = time.perf_counter()

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds between two records, of the CPU's work."""
        return float(end_event._time - self._time) * 1000

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...

    def wait(self, stream: Any = None) -> None: ...


@contextlib.contextmanager
def stream_context(stream: Any) -> Any:
    yield stream


def _rng_state(device: Any = "cuda") -> torch.Tensor:
    """Simulated GPUs draw from the CPU's generator, so that a run has the CPU's numbers."""
    return torch.get_rng_state()


def _set_rng_state(state: torch.Tensor, device: Any = "cuda") -> None:
    torch.set_rng_state(state)


def _set_rng_states(states: Any) -> None:
    for state in states:
        _set_rng_state(state)


def _seed() -> None:
    torch.default_generator.seed()


def _manual_seed(seed: int) -> None:
    torch.default_generator.manual_seed(int(seed))


class _Generators:
    """torch.cuda.default_generators: simulated GPUs draw from the CPU's."""

    def __len__(self) -> int:
        return STATE.devices

    def __getitem__(self, index: int) -> Any:
        if not -STATE.devices <= index < STATE.devices:
            raise IndexError("tuple index out of range")
        return torch.default_generator


def _memory_stats(device: Any = None) -> dict[str, Any]:
    return _Figures()


def _is_available() -> bool:
    return STATE.devices > 0


_CUDA: dict[str, Any] = {
    "is_available": _is_available,
    "device_count": lambda: STATE.devices,
    "is_initialized": lambda: STATE.initialised_by is not None and not STATE.in_bad_fork(),
    "init": STATE.initialise,
    "_lazy_init": STATE.initialise,
    "_lazy_call": lambda callable, **kwargs: callable(),
    "_is_in_bad_fork": STATE.in_bad_fork,
    "current_device": current_device,
    "set_device": set_device,
    "_exchange_device": exchange_device,
    "_maybe_exchange_device": exchange_device,
    "get_device_name": lambda device=None: properties(device).name,
    "get_device_capability": lambda device=None: (8, 0),
    "get_device_properties": properties,
    "can_device_access_peer": lambda device, peer: True,
    "is_bf16_supported": lambda including_emulation=True: True,
    "is_current_stream_capturing": lambda: False,
    "is_tf32_supported": lambda: True,
    "get_arch_list": lambda: ["sm_80"],
    "get_gencode_flags": lambda: "-gencode compute=compute_80,code=sm_80",
    "mem_get_info": lambda device=None: (TOTAL_MEMORY, TOTAL_MEMORY),
    "memory_stats": _memory_stats,
    "memory_summary": lambda device=None, abbreviated=False: (
        "whydevice: memory of simulated GPUs is not measured"
    ),
    "memory_snapshot": lambda *args, **kwargs: [],
    "list_gpu_processes": lambda device=None: "whydevice: a simulated GPU has no processes",
    "get_sync_debug_mode": lambda: 0,
    "Stream": Stream,
    "ExternalStream": _refuse("torch.cuda.ExternalStream"),
    "Event": Event,
    "StreamContext": stream_context,
    "stream": stream_context,
    "current_stream": lambda device=None: Stream(device),
    "default_stream": lambda device=None: Stream(device),
    "manual_seed": _manual_seed,
    "manual_seed_all": _manual_seed,
    "seed": _seed,
    "seed_all": _seed,
    "initial_seed": lambda: torch.default_generator.initial_seed(),
    "get_rng_state": _rng_state,
    "get_rng_state_all": lambda: [_rng_state() for _ in range(STATE.devices)],
    "set_rng_state": _set_rng_state,
    "set_rng_state_all": _set_rng_states,
}
_ZERO = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached",
         "max_memory_cached", "memory_usage", "utilization", "temperature", "power_draw", "clock_rate",
         "device_memory_used")  # fmt: skip
_NOTHING = ("synchronize", "empty_cache", "ipc_collect", "reset_peak_memory_stats", "reset_max_memory_allocated",
            "reset_max_memory_cached", "reset_accumulated_memory_stats", "set_sync_debug_mode", "set_stream",
            "set_per_process_memory_fraction", "_sleep")  # fmt: skip
_REFUSED = ("CUDAGraph", "graph", "make_graphed_callables", "graph_pool_handle", "cudart", "CUDAPluggableAllocator",
            "caching_allocator_alloc", "MemPool")  # fmt: skip
_CUDA_C: dict[str, Any] = {
    "_cuda_getCurrentRawStream": lambda device: 0,
    "_cuda_isCurrentStreamCapturing": lambda: False,
    "_cuda_tunableop_is_enabled": lambda: False,
    "_cuda_tunableop_enable": lambda value: None,
}
_ACCELERATOR_C: dict[str, Any] = {
    "_accelerator_exchangeDevice": exchange_device,
    "_accelerator_maybeExchangeDevice": exchange_device,
    "_accelerator_getDeviceIndex": current_device,
    "_accelerator_setDeviceIndex": set_device,
    "_accelerator_deviceCount": lambda: STATE.devices,
    "_accelerator_getAccelerator": lambda: torch.device("cuda"),
    "_accelerator_synchronizeDevice": lambda device: None,
    "_accelerator_getStream": lambda device: Stream(device),
    "_accelerator_setStream": lambda stream: None,
}
_ACCELERATOR: dict[str, Any] = {
    "is_available": _is_available,
    "device_count": lambda: STATE.devices,
    "current_accelerator": lambda check_available=False: torch.device("cuda"),
    "current_device_index": current_device,
    "current_device_idx": current_device,
    "set_device_index": set_device,
    "set_device_idx": set_device,
    "current_stream": lambda device=None: Stream(device),
    "set_stream": lambda stream: None,
    "synchronize": lambda device=None: None,
    "empty_cache": lambda: None,
    "memory_allocated": lambda device=None: 0,
    "max_memory_allocated": lambda device=None: 0,
    "memory_reserved": lambda device=None: 0,
    "max_memory_reserved": lambda device=None: 0,
    "memory_stats": _memory_stats,
    "reset_peak_memory_stats": lambda device=None: None,
    "reset_accumulated_memory_stats": lambda device=None: None,
    "get_memory_info": lambda device=None: (TOTAL_MEMORY, TOTAL_MEMORY),
}
