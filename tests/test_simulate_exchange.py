"""Devices where C++ or another library asks for them: torch.device, TorchScript, DLPack, fake tensors."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import whydevice  # noqa: E402

REAL_DEVICE = torch.device


@pytest.fixture(autouse=True)
def two_gpus() -> Iterator[None]:
    with whydevice.simulate_cuda(2):
        yield


def gpu(*shape: int, index: int = 0) -> Any:
    return torch.ones(*shape, device=f"cuda:{index}")


def test_a_bare_index_is_a_gpu() -> None:
    assert str(torch.device(1)) == "cuda:1" and torch.zeros(2, device=torch.device(0)).is_cuda
    with torch.device(1):
        assert torch.zeros(2).device.index == 1
    torch.set_default_device(1)
    try:
        assert torch.zeros(2).device.index == 1
    finally:
        torch.set_default_device(None)
    with pytest.raises(RuntimeError, match="Device index must not be negative"):
        torch.device(-2)


def test_devices_stay_what_they_are() -> None:
    device = torch.device("cuda", 1)
    assert (
        isinstance(device, torch.device) and isinstance(device, REAL_DEVICE) and type(device) is REAL_DEVICE
    )
    assert torch.device == REAL_DEVICE and {REAL_DEVICE: 1}[torch.device] == 1
    assert issubclass(type(device), torch.device) and not isinstance("cuda", torch.device)
    assert pickle.loads(pickle.dumps(device)) == copy.deepcopy(device) == device
    file = io.BytesIO()
    torch.save({"device": device}, file)
    file.seek(0)
    assert torch.load(file)["device"] == device


def moved(x: torch.Tensor, to: torch.device) -> torch.Tensor:
    return x.to(to) + torch.zeros(2, device=to)


def back(x: torch.Tensor) -> torch.Tensor:
    return x.cpu() + x.cuda().to("cpu", torch.float64)


class Mover(nn.Module):
    def forward(self, x: torch.Tensor, other: REAL_DEVICE) -> torch.Tensor:
        here = torch.device("cuda")
        return moved(x, other).to(here, non_blocking=True) + x.to("cuda")


def test_torchscript_moves() -> None:
    assert torch.jit.script(moved)(torch.ones(2), torch.device("cuda:1")).device.index == 1
    assert not torch.jit.script(back)(gpu(2)).is_cuda
    scripted = torch.jit.script(Mover())
    assert scripted(torch.ones(2), torch.device("cuda:1")).device.index == 0
    file = io.BytesIO()
    torch.jit.save(scripted, file)
    file.seek(0)
    assert torch.jit.load(file)(torch.ones(2), torch.device("cuda:1")).is_cuda
    x = torch.ones(2, requires_grad=True)
    torch.jit.script(moved)(x, torch.device("cuda:1")).sum().backward()
    assert not x.grad.is_cuda


def test_traced_moves() -> None:
    class Back(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).to("cpu", torch.float64) + x.to(device="cpu", dtype=torch.float64)

    traced = torch.jit.trace(Back(2, 2).cuda(), gpu(1, 2))
    assert not traced(gpu(1, 2)).is_cuda


def test_torchscript_refuses() -> None:
    @torch.jit.script
    def left(x: torch.Tensor) -> torch.Tensor:
        return x.to("cuda") + x

    with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cpu!"):
        left(torch.ones(2))


def test_dlpack_keeps_the_device() -> None:
    x = gpu(2)
    shared = torch.from_dlpack(x)
    shared += 1
    assert shared.is_cuda and x.tolist() == [2, 2]
    assert torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)).is_cuda
    assert not torch.from_dlpack(x, device="cpu").is_cuda and not torch.from_dlpack(torch.ones(2)).is_cuda
    assert x.__dlpack_device__() == (2, 0) and torch.ones(2).__dlpack_device__()[0] == 1
    assert not torch.from_dlpack(np.ones(2)).is_cuda and np.from_dlpack(torch.ones(2)).sum() == 2
    with pytest.raises(RuntimeError, match="Unsupported device in DLTensor"):
        np.from_dlpack(x)


def test_shared_memory() -> None:
    x = gpu(2)
    assert x.is_shared() and x.share_memory_() is x and not torch.ones(2).is_shared()


def test_fake_tensors_have_the_device_they_ask_for() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        x = torch.empty(2, 2, device="cuda")
        assert x.device.type == "cuda" and (x @ x).device.type == "cuda" and x.detach().device.type == "cuda"
        assert torch.empty(2).device.type == "cpu"
    with mode:
        assert (x + 1).device.type == "cuda"


def test_kernels_that_only_a_gpu_has_are_named() -> None:
    with pytest.raises(
        RuntimeError, match="whydevice: aten::_cslt_compress needs a real GPU and is not simulated"
    ):
        torch.sparse.to_sparse_semi_structured(gpu(64, 64).half())
