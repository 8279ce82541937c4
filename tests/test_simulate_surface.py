"""What scripts ask of torch.cuda and of tensors, answered by the simulation."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset, TensorDataset  # noqa: E402

import whydevice  # noqa: E402
from whydevice import simulate  # noqa: E402

OTHER_KIND = r"Expected a '{}' device type for generator but found '{}'"


@pytest.fixture(autouse=True)
def two_gpus() -> Iterator[None]:
    with whydevice.simulate_cuda(2):
        yield


def gpu(*shape: int, index: int = 0) -> Any:
    return torch.ones(*shape, device=f"cuda:{index}")


def raises(text: str, kind: type[BaseException] = RuntimeError) -> Any:
    import re

    return pytest.raises(kind, match=re.escape(text))


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
