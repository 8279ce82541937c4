"""What scripts ask of tensors, modules and files, answered by the simulation."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import whydevice  # noqa: E402
from simulation import gpu, raises  # noqa: E402

OTHER_KIND = r"Expected a '{}' device type for generator but found '{}'"


@pytest.fixture(autouse=True)
def two_gpus() -> Iterator[None]:
    with whydevice.simulate_cuda(2):
        yield


def test_moves() -> None:
    x = gpu(2)
    assert x.to("cuda") is x and x.cuda() is x and x.to("cuda", copy=True) is not x
    assert x.to(device="cuda:1").device.index == 1 and x.to(torch.ones(1)).device.type == "cpu"
    assert torch.ones(2).to(x).is_cuda and torch.ones(2).type_as(x).is_cuda
    assert x.double().is_cuda and x.to(torch.int8).is_cuda and x.to(1, torch.float64).dtype is torch.float64
    assert x.get_device() == 0 and torch.ones(1).get_device() == -1
    assert torch.as_tensor(x) is x and not torch.as_tensor(x, device="cpu").is_cuda
    assert torch.tensor([x[0], 2.0]).device.type == "cpu" and torch.tensor([1.0], device="cuda").is_cuda
    assert (
        x.new_zeros(2).is_cuda
        and x.new_tensor([1]).is_cuda
        and x.new(2).is_cuda
        and torch.empty_like(x).is_cuda
    )
    assert torch.zeros(2, device=1).device.index == 1
    assert x.untyped_storage().device.type == "cuda" and not x.is_cpu
    assert "device='cuda:0'" in repr(x) and "device='cuda:0'" in repr(nn.Parameter(x))


def test_silent_crossings_that_cuda_allows() -> None:
    x, y = gpu(3), torch.zeros(3)
    y.copy_(x)
    assert not y.is_cuda and y.sum() == 3
    x[0] = torch.tensor(3.0)
    x[:] = torch.ones(3)
    x[torch.tensor([True, False, True])] = 5.0
    assert x[torch.tensor([0])].is_cuda and [1, 2, 3][torch.tensor(1, device="cuda")] == 2
    assert (x * torch.tensor(2.0)).is_cuda and (torch.tensor(2.0) * x).is_cuda
    assert (
        float(x[0]) == 5 and x.tolist() == [5, 1, 5] and list(range(torch.tensor(2, device="cuda"))) == [0, 1]
    )


def test_ctc_loss_takes_targets_and_lengths_from_anywhere() -> None:
    scores = torch.randn(5, 2, 4, device="cuda").log_softmax(-1).requires_grad_()
    targets, lengths, steps = torch.tensor([1, 2, 3]), torch.tensor([2, 1]), torch.tensor([5, 5])
    for place in ("cpu", "cuda"):
        F.ctc_loss(scores, targets.cuda(), steps.to(place), lengths.to(place)).backward()
        F.ctc_loss(scores, targets.to(place), steps, lengths, reduction="sum").backward()
    nn.CTCLoss()(scores.cpu(), targets.cuda(), steps, lengths.cuda()).backward()
    nn.CTCLoss()(scores, targets.cuda(), (5, 5), (2, 1)).backward()
    assert scores.grad.is_cuda


def test_numpy() -> None:
    for use in (lambda: gpu(2).numpy(), lambda: np.array(gpu(2)), lambda: np.mean([gpu(2)])):
        with raises("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()", TypeError):
            use()
    assert gpu(2).numpy(force=True).sum() == 2
    with raises("apply_ is only implemented on CPU tensors", TypeError):
        gpu(2).apply_(lambda v: v)


def test_modules() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to(0)
    model.to("cuda:1", torch.float64)
    assert model[0].weight.dtype is torch.float64 and model[1].running_mean.device.index == 1
    assert not model.cpu()[0].weight.is_cuda and model.cuda(1)[0].weight.device.index == 1
    assert nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight.is_cuda
    with raises("Cannot copy out of meta tensor; no data!", NotImplementedError):
        nn.Linear(2, 2, device="meta").cuda()
    assert copy.deepcopy(model)[0].weight.device.index == 1


def test_save_load_pickle() -> None:
    model, file = nn.Linear(2, 3).to("cuda:1"), io.BytesIO()
    torch.save({"model": model.state_dict(), "x": gpu(2)}, file)

    def load(**options: Any) -> Any:
        file.seek(0)
        return torch.load(file, **options)

    assert load()["model"]["weight"].device.index == 1 and load()["x"].is_cuda
    assert not load(map_location="cpu")["x"].is_cuda
    assert load(map_location={"cuda:1": "cuda:0"})["model"]["weight"].device.index == 0
    assert not load(map_location=lambda storage, place: storage)["x"].is_cuda
    with (
        whydevice.simulate_cuda(1),
        raises("Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1"),
    ):
        load()
    assert pickle.loads(pickle.dumps(gpu(2, index=1))).device.index == 1
    assert copy.deepcopy(gpu(2, index=1)).device.index == 1


def test_default_device() -> None:
    torch.set_default_device("cuda")
    try:
        assert torch.zeros(2).is_cuda and torch.tensor([1.0]).is_cuda and nn.Linear(2, 2).weight.is_cuda
        assert not torch.tensor([1.0], device="cpu").is_cuda and not torch.from_numpy(np.ones(2)).is_cuda
        with raises(OTHER_KIND.format("cuda", "cpu")):
            torch.randperm(4, generator=torch.Generator(device="cpu"))
    finally:
        torch.set_default_device(None)
    with torch.device("cuda:1"):
        assert torch.ones(2).device.index == 1 and nn.LSTM(2, 3).weight_ih_l0.device.index == 1
    assert not torch.ones(2).is_cuda


def test_generators() -> None:
    generator = torch.Generator("cuda").manual_seed(3)
    x = torch.randn(3, generator=generator, device="cuda")
    assert torch.equal(x, torch.randn(3, generator=generator.manual_seed(3), device="cuda"))
    assert generator.device.type == "cuda" and isinstance(generator, torch.Generator)
    with raises(OTHER_KIND.format("cuda", "cpu")):
        torch.randn(3, generator=torch.Generator(), device="cuda")
    with raises(OTHER_KIND.format("cpu", "cuda")):
        torch.randn(3, generator=generator)
    torch.cuda.manual_seed_all(1)
    torch.cuda.set_rng_state(torch.cuda.get_rng_state())
    with torch.random.fork_rng():
        torch.rand(2, device="cuda")


def test_legacy_types() -> None:
    x = torch.cuda.FloatTensor([1, 2])
    assert x.is_cuda and x.type() == "torch.cuda.FloatTensor" and isinstance(x, torch.cuda.FloatTensor)
    assert not isinstance(torch.ones(1), torch.cuda.FloatTensor) and not isinstance(x, torch.FloatTensor)
    assert (
        torch.ones(2).type("torch.cuda.LongTensor").dtype is torch.int64
        and not x.type("torch.FloatTensor").is_cuda
    )


def test_pinned_memory() -> None:
    assert torch.ones(3).pin_memory().is_pinned() and torch.empty(3, pin_memory=True).is_pinned()
    assert not torch.ones(3).is_pinned()
    with raises("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"):
        gpu(3).pin_memory()


def test_sparse() -> None:
    indices = torch.tensor([[0, 1], [1, 0]])
    left = torch.sparse_coo_tensor(indices, torch.ones(2), (2, 2))
    moved = left.cuda()
    assert moved.is_cuda and moved.coalesce().is_cuda and moved.to_dense().is_cuda and moved._values().is_cuda
    assert (
        moved.coalesce().indices().is_cuda
        and (moved * 2).is_cuda
        and moved.t().is_cuda
        and not moved.cpu().is_cuda
    )
    assert torch.sparse.mm(moved, gpu(2, 2)).is_cuda and gpu(2, 2).to_sparse_csr().is_cuda
    with raises(
        "got mat1 is on cpu, different from other tensors on cuda:0 (when checking argument in method wrapper_SparseCUDA__addmm)"
    ):
        torch.sparse.mm(left, gpu(2, 2))
    embedding = nn.Embedding(4, 3, sparse=True).cuda()
    embedding(torch.tensor([1], device="cuda")).sum().backward()
    assert embedding.weight.grad.is_cuda and embedding.weight.grad.is_sparse
    torch.optim.SparseAdam(embedding.parameters()).step()


def test_nested() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device="cuda")
    assert nested.is_cuda and nested.to_padded_tensor(0).is_cuda
    jagged = torch.nested.nested_tensor(
        [torch.ones(2, 3), torch.ones(3, 3)], layout=torch.jagged, device="cuda"
    )
    assert jagged.is_cuda and (jagged * 2).is_cuda


def test_torchscript() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) + torch.arange(3, device=x.device)

    model, x = Model().cuda(), gpu(2, 3)
    assert torch.jit.script(model)(x).is_cuda and torch.jit.trace(model, x)(x).is_cuda
    traced = torch.jit.trace(Model(), torch.ones(2, 3)).to("cuda")
    with raises(
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    ):
        traced(x)


def test_compile_runs_eagerly(capsys: pytest.CaptureFixture[str]) -> None:
    @torch.compile(mode="max-autotune")
    def double(x: Any) -> Any:
        return x * 2

    model = nn.Linear(2, 2).cuda()
    model.compile()
    assert double(gpu(2)).is_cuda and torch.compile(model)(gpu(1, 2)).is_cuda
    assert capsys.readouterr().err.count("torch.compile is not simulated") == 1


def test_custom_operator() -> None:
    @torch.library.custom_op("whydevice_test::flip", mutates_args=())
    def flip(x: torch.Tensor) -> torch.Tensor:
        return (~x).to(torch.float32) + torch.zeros(x.shape, device=x.device)

    assert flip(gpu(2) == 1).is_cuda


def test_distributions() -> None:
    normal = torch.distributions.Normal(torch.zeros(2, device="cuda"), 1.0)
    assert normal.rsample().is_cuda and normal.log_prob(normal.sample()).is_cuda
    assert torch.distributions.Categorical(logits=torch.zeros(3, device="cuda")).sample().is_cuda


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.Tensor(2, 3),
        lambda: torch.FloatTensor(2),
        lambda: torch.range(0, 3),
        lambda: F.one_hot(torch.arange(3)).float(),
        lambda: torch.ones(2).new(3),
        lambda: torch.frombuffer(bytearray(8), dtype=torch.float32),
        lambda: torch.normal(0.0, 1.0, (3,)),
    ],
)
def test_what_is_made_on_the_cpu_does_not_pass_for_the_gpus(make: Any) -> None:
    with raises("Expected all tensors to be on the same device"):
        make() + torch.ones(make().shape, device="cuda")
