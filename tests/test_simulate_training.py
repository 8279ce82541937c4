"""What a training run asks of the simulation: autocast, optimizers, gradients, replicas, loaders, threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset, TensorDataset  # noqa: E402

import whydevice  # noqa: E402
from simulation import gpu, raises  # noqa: E402


@pytest.fixture(autouse=True)
def two_gpus() -> Iterator[None]:
    with whydevice.simulate_cuda(2):
        yield


def test_autocast_and_scaler() -> None:
    x, y = torch.randn(3, 3, device="cuda"), torch.randn(3, 3)
    with torch.autocast("cuda"):
        assert (x @ x).dtype is torch.float16 and (y @ y).dtype is torch.float32
        assert (x @ x).softmax(-1).dtype is torch.float32 and F.layer_norm(x @ x, (3,)).dtype is torch.float32
        assert F.cross_entropy(x @ x, torch.tensor([0, 1, 2], device="cuda")).dtype is torch.float32
        with torch.autocast("cuda", enabled=False):
            assert (x @ x).dtype is torch.float32
        with raises("unsafe to autocast"):
            F.binary_cross_entropy(x.sigmoid(), x.sigmoid())
    assert (x @ x).dtype is torch.float32 and not torch.is_autocast_enabled("cpu")
    model, scaler = nn.Linear(4, 4).cuda(), torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.weight.detach().clone()
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(torch.randn(2, 4, device="cuda")).float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert not torch.equal(before, model.weight)


def test_autocast_promotes_to_the_widest() -> None:
    low, full = torch.ones(3, device="cuda", dtype=torch.float16), torch.ones(3, device="cuda")
    index = torch.tensor([0, 1, 2], device="cuda")
    with torch.autocast("cuda"):
        for use in (
            lambda a, b: torch.dot(a, b), lambda a, b: a.dot(b), lambda a, b: torch.atan2(a, b),
            lambda a, b: torch.addcmul(a, b, b, value=2), lambda a, b: torch.cross(a, b, dim=0),
            lambda a, b: torch.tensordot(a, b, 1), lambda a, b: a.scatter_add(0, index, b),
            lambda a, b: torch.index_put(a, (index,), b), lambda a, b: F.bilinear(a[None], a[None], b[None, None].expand(1, 3, 3)),
            lambda a, b: F.grid_sample(a.expand(1, 1, 3, 3), b[:2].expand(1, 1, 1, 2), align_corners=False),
        ):  # fmt: skip
            assert use(low, full).dtype is use(full, low).dtype is torch.float32
            assert use(low, low).dtype is torch.float16 and use(full, full).dtype is torch.float32
        with raises("Unexpected floating ScalarType in at::autocast::prioritize"):
            torch.dot(low, full.bfloat16())
    with raises("same dtype"):
        torch.dot(low, full)


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Adamax", "Adadelta", "RAdam"]
)
@pytest.mark.parametrize("foreach", [None, False, True])
def test_optimizers(name: str, foreach: bool | None) -> None:
    model = nn.Linear(2, 2).cuda()
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1, foreach=foreach)
    for _ in range(2):
        model(gpu(1, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert all(
        t.is_cuda for t in optimizer.state[model.weight].values() if isinstance(t, torch.Tensor) and t.dim()
    )


def test_fused_and_capturable() -> None:
    for options in ({"fused": True}, {"capturable": True}):
        model = nn.Linear(2, 2).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), **options)
        model(gpu(1, 2)).sum().backward()
        optimizer.step()
        assert optimizer.state[model.weight]["step"].is_cuda


def test_optimizer_state_left_behind() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    model.cuda()
    optimizer.zero_grad()
    model(gpu(1, 2)).sum().backward()
    with raises(
        "Tensors of the same index must be on the same device and the same dtype except `step` tensors"
    ):
        optimizer.step()
    restored = torch.optim.Adam(model.parameters())
    restored.load_state_dict(optimizer.state_dict())
    state = restored.state[model.weight]
    assert state["exp_avg"].is_cuda and not state["step"].is_cuda


def test_gradients_follow_their_inputs() -> None:
    x = torch.ones(3, device="cuda", requires_grad=True)
    number = torch.tensor(2.0, requires_grad=True)
    (number.exp() * x).sum().backward()
    assert not number.grad.is_cuda and x.grad.is_cuda
    left = torch.ones(3, requires_grad=True)
    (left.pow(2).mean() * x.sum()).backward()
    assert not left.grad.is_cuda
    across = torch.ones(2, device="cuda:0", requires_grad=True)
    (across.to("cuda:1") * 2).to("cuda:0").sum().backward()
    assert across.grad.device.index == 0
    (gradient,) = torch.autograd.grad((x**2).sum(), x, create_graph=True)
    gradient.sum().backward()
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(g.device.type))
    (x * 2).sum().backward()
    assert seen == ["cuda"]


def test_checkpointing_and_hooks() -> None:
    from torch.utils.checkpoint import checkpoint

    model, x = nn.Linear(2, 2).cuda(), torch.ones(1, 2, device="cuda", requires_grad=True)
    for reentrant in (True, False):
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    model.register_full_backward_hook(lambda module, inputs, outputs: None)
    model(x).sum().backward()
    assert x.grad.is_cuda


def test_inference_mode_names_the_inner_op() -> None:
    model = nn.Linear(3, 4).cuda()
    with torch.inference_mode():
        assert model(gpu(2, 3)).is_cuda
        with raises(
            "got mat1 is on cpu, different from other tensors on cuda:0 (when checking argument in method wrapper_CUDA_addmm)"
        ):
            model(torch.ones(2, 3))


def test_functorch() -> None:
    x = torch.randn(3, 4, device="cuda")
    assert (
        torch.func.vmap(lambda row: row * 2)(x).is_cuda and torch.func.grad(lambda v: (v**2).sum())(x).is_cuda
    )
    assert (
        torch.func.jvp(lambda v: v * 2, (x,), (x,))[1].is_cuda
        and torch.func.jacrev(lambda v: v**2)(x[0]).is_cuda
    )
    with raises("cuda:0 and cpu!"):
        torch.func.vmap(lambda row: row + torch.ones(4))(x)


def test_data_parallel() -> None:
    model = nn.DataParallel(nn.Linear(2, 3).cuda())
    out = model(gpu(4, 2))
    assert out.shape == (4, 3) and out.device.index == 0
    out.sum().backward()
    assert model.module.weight.grad.is_cuda
    with raises(
        "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: cpu"
    ):
        nn.DataParallel(nn.Linear(2, 3))(torch.ones(4, 2))


class OnGpu(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return torch.ones(2, device="cuda")


@pytest.mark.parametrize("pin", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader(workers: int, pin: bool) -> None:
    gpu(1)
    for (batch,) in DataLoader(
        TensorDataset(torch.randn(8, 2)), 4, num_workers=workers, pin_memory=pin, shuffle=True
    ):
        assert not batch.is_cuda and batch.is_pinned() == pin
        assert (batch.cuda(non_blocking=True) + gpu(2)).is_cuda


def test_forked_worker_must_not_touch_the_gpu() -> None:
    gpu(1)
    with raises(
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"
    ):
        list(DataLoader(OnGpu(), 2, num_workers=1))


def test_threads_are_simulated() -> None:
    found: list[str] = []

    def work() -> None:
        try:
            gpu(2) + torch.ones(2)
        except RuntimeError as error:
            found.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    ]
