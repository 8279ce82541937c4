"""Entering and leaving the simulation; what it says without running anything."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.multiprocessing as _registers  # noqa: E402, F401
from torch import nn  # noqa: E402
from torch.distributed import distributed_c10d  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import whydevice  # noqa: E402
from whydevice import simulate  # noqa: E402

OWNERS: tuple[Any, ...] = (
    torch, torch.Tensor, torch.UntypedStorage, torch.cuda, torch.cuda.random, torch.cuda.nvtx, torch._C, torch._C._nn, torch._VF,
    torch.backends.cuda, torch.backends.cudnn, torch.nn.functional, torch.autograd, torch.autograd.function.Function,
    torch.autograd.function.BackwardCFunction, torch.accelerator, torch.linalg, torch.jit, threading.Thread, nn.Module,
    torch.amp.autocast_mode.autocast, torch._C.ScriptMethod, torch._C.ScriptFunction, torch.functional,
    torch.utils.dlpack, torch.jit.annotations, torch.cuda.memory, torch.cuda.nccl, torch.distributed, distributed_c10d,
    ForkingPickler._extra_reducers,
)  # fmt: skip


def contents() -> list[dict[str, Any]]:
    return [dict(owner if isinstance(owner, dict) else vars(owner)) for owner in OWNERS]


def test_everything_is_put_back() -> None:
    before = contents()
    with whydevice.simulate_cuda():
        torch.ones(2, device="cuda") + 1
        assert contents() != before
    with pytest.raises(ZeroDivisionError), whydevice.simulate_cuda(2):
        raise ZeroDivisionError
    for owner, old, new in zip(OWNERS, before, contents(), strict=True):
        changed = {key for key in old.keys() | new.keys() if old.get(key) is not new.get(key)}
        # Properties of torch's modules are made anew by attribute access, caches are filled by use.
        assert not {key for key in changed if not str(key).startswith("__")} - {"_whydevice"}, owner
    assert not torch.cuda.is_available() and simulate.active() == 0
    assert torch.ones(2).device.type == "cpu" and torch.ones(2).untyped_storage().device.type == "cpu"
    assert not hasattr(torch.ops.aten.add.Tensor, "_whydevice")
    assert not torch._C._dispatch_has_kernel_for_dispatch_key("aten::to.device", "AutogradCPU")


def test_nested_and_repeated() -> None:
    for _ in range(2):
        with whydevice.simulate_cuda(1):
            assert simulate.active() == 1
            with whydevice.simulate_cuda(3):
                assert torch.cuda.device_count() == 3 and torch.ones(1, device="cuda:2").is_cuda
            assert torch.cuda.device_count() == 1 and torch.ones(1, device="cuda").is_cuda
        assert simulate.active() == 0


def test_no_gpu_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        whydevice.simulate_cuda(0)


def test_device_of_runs_nothing() -> None:
    class Forbidden(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(func)

    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(func)

    with whydevice.simulate_cuda(2):
        x = torch.ones(4, device="cuda:1")
        view, parameter, loud = x[1:], nn.Parameter(x), x.as_subclass(Loud)
        sparse = torch.eye(2, device="cuda").to_sparse()
        left, meta = torch.ones(2), torch.ones(2, device="meta")
        with Forbidden():
            assert [simulate.device_of(t) for t in (x, view, parameter, loud)] == ["cuda:1"] * 4
            assert (simulate.device_of(left), simulate.device_of(meta), simulate.device_of(sparse)) == (
                "cpu",
                "meta",
                "cuda:0",
            )
    # The mode has gone; the storages live and still know.
    assert [simulate.device_of(t) for t in (x, view, parameter, loud)] == ["cuda:1"] * 4
    assert simulate.device_of(left) == "cpu" and simulate.device_of(sparse) == "cuda:0"


def test_device_of_what_is_no_tensor() -> None:
    assert (
        simulate.device_of(3) is None
        and simulate.device_of(None) is None
        and simulate.device_of("cuda") is None
    )


def test_package_imports_without_torch() -> None:
    code = "import sys, whydevice.simulate as s; assert s.active() == 0 and s.device_of(1) is None and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_growth() -> None:
    with whydevice.simulate_cuda():
        model = nn.Linear(8, 8).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        sizes = []
        for step in range(300):
            optimizer.zero_grad()
            model(torch.randn(4, 8, device="cuda")).sum().backward()
            optimizer.step()
            if step in (100, 299):
                gc.collect()
                sizes.append(len(gc.get_objects()))
        assert sizes[1] - sizes[0] < 50
        storage = weakref.ref(torch.ones(3, device="cuda").untyped_storage())
        assert storage() is None


def test_errors_are_not_chained() -> None:
    with whydevice.simulate_cuda():
        a, b = torch.ones(2, device="cuda"), torch.ones(2)
        for use in (lambda: a + b, lambda: a @ b, lambda: torch.cat([a, b]), lambda: a[:, None] * b):
            with pytest.raises(RuntimeError) as caught:
                use()
            assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_what_is_not_judged_is_said() -> None:
    with whydevice.simulate_cuda():
        with pytest.raises(RuntimeError):
            torch.allclose(torch.ones(2, device="cuda"), torch.ones(2))
        text = simulate.report()
    assert text is not None and "allclose: 1 call" in text
    with whydevice.simulate_cuda():
        torch.ones(2, device="cuda") + 1
    assert simulate.report() is None
