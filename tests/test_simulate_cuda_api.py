"""What torch.cuda answers under simulation: devices, streams, figures, and what is not simulated."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import whydevice  # noqa: E402
from simulation import gpu, raises  # noqa: E402
from whydevice import simulate  # noqa: E402


@pytest.fixture(autouse=True)
def two_gpus() -> Iterator[None]:
    with whydevice.simulate_cuda(2):
        yield


def test_availability_and_names() -> None:
    cuda = torch.cuda
    assert cuda.is_available() and cuda.device_count() == 2 and cuda.current_device() == 0
    assert torch.accelerator.is_available() and torch.accelerator.current_accelerator().type == "cuda"
    assert cuda.get_device_properties(0).total_memory > 0 and cuda.get_device_capability() >= (7, 0)
    assert isinstance(cuda.get_device_name(1), str)
    assert cuda.memory_allocated() == 0 and cuda.mem_get_info()[1] > 0
    cuda.synchronize()
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()
    assert torch.backends.cudnn.is_available() and torch.backends.cuda.is_built()


def test_streams_and_events() -> None:
    stream, begin, end = (
        torch.cuda.Stream(),
        torch.cuda.Event(enable_timing=True),
        torch.cuda.Event(enable_timing=True),
    )
    begin.record()
    with torch.cuda.stream(stream):
        gpu(2) + 1
    torch.cuda.current_stream().wait_stream(stream)
    end.record()
    assert begin.elapsed_time(end) >= 0 and stream.query()
    with torch.cuda.nvtx.range("name"):
        pass


def test_streams_of_any_accelerator() -> None:
    stream, event = torch.Stream(device="cuda:1"), torch.Event(device="cuda")
    assert stream.device.index == 1 and isinstance(stream, torch.Stream) and isinstance(event, torch.Event)
    assert isinstance(torch.cuda.current_stream(), torch.Stream)
    stream.record_event(event).synchronize()


def test_figures_of_memory_and_switches() -> None:
    assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == 0 == torch.cuda.memory_stats().get("x", 0)
    torch.cuda.profiler.start()
    torch.cuda.profiler.stop()
    assert not torch.cuda.graphs.is_current_stream_capturing() and not torch.cuda.tunable.is_enabled()


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("torch.cuda.CUDAGraph", lambda: torch.cuda.CUDAGraph()),
        ("torch.cuda.memory._record_memory_history", lambda: torch.cuda.memory._record_memory_history()),
        ("torch.cuda.memory._snapshot", lambda: torch.cuda.memory._snapshot()),
        ("torch.cuda.jiterator._create_jit_fn", lambda: torch.cuda.jiterator._create_jit_fn("int f() {}")),
    ],
)
def test_what_is_not_simulated_says_so(name: str, use: Any) -> None:
    with raises(f"whydevice: {name} is not simulated"):
        use()


def test_current_device() -> None:
    with torch.cuda.device(1):
        assert torch.zeros(2, device="cuda").device.index == 1 and torch.zeros(2).cuda().device.index == 1
    torch.cuda.set_device(1)
    try:
        assert torch.zeros(2).to("cuda").device.index == 1
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_device()))
        thread.start()
        thread.join()
        assert seen == [0], "the current device belongs to the thread"
    finally:
        torch.cuda.set_device(0)
    assert simulate.current_device() == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.zeros(2, device="cuda:5"),
        lambda: torch.zeros(2).to(7),
        lambda: torch.zeros(2).cuda(3),
        lambda: torch.cuda.set_device(3),
        lambda: nn.Linear(2, 2).to("cuda:2"),
    ],
)
def test_invalid_ordinal(use: Any) -> None:
    with raises("CUDA error: invalid device ordinal"):
        use()
