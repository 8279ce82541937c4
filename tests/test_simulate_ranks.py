"""torch.distributed under simulation: Gloo carries NCCL's groups, and each row of the catalogue that one rank provokes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

import whydevice  # noqa: E402
from processes import HANGS, SRC  # noqa: E402

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="a torch without torch.distributed")


def c(*shape: int) -> Any:
    return torch.ones(shape)


def g(*shape: int, index: int = 0) -> Any:
    return torch.ones(shape, device=f"cuda:{index}")


def _sharded(module: nn.Module, **options: Any) -> Any:
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(module, **options)


def _moved_back() -> None:
    model = _sharded(nn.Linear(2, 2), device_id=0)
    model.cpu()
    model(g(2, 2))


def _offloaded() -> None:
    from torch.distributed.fsdp import CPUOffload

    model = _sharded(nn.Linear(2, 2), device_id=0, cpu_offload=CPUOffload(True))
    model.cuda()
    model(g(2, 2))


def _on_meta() -> None:
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(nn.Linear(2, 2, bias=False, device="meta"))
    fully_shard(model)
    model(g(2, 2))


def _shard_elsewhere() -> None:
    from torch.distributed._shard.sharded_tensor import Shard, ShardedTensor, ShardMetadata

    ShardedTensor._init_from_local_shards([Shard(c(2), ShardMetadata([0], [2], "rank:0/cuda:0"))], 2)


DDP = nn.parallel.DistributedDataParallel
CASES: list[tuple[str, str, type[BaseException], Callable[[], Any]]] = [
    ("E10.3", "SyncBatchNorm expected input tensor to be on GPU or XPU or privateuseone", ValueError, lambda: nn.SyncBatchNorm(2)(c(4, 2))),
    ("N5.1", "DistributedDataParallel's input module must be on the same type of devices, but input module parameters locate in {'cpu', 'cuda'}.",
     ValueError, lambda: DDP(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).cuda()))),
    ("N6.1", "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU modules or CPU modules, "
     "but got device_ids [0], output_device 0, and module parameters {device(type='cpu')}.", ValueError,
     lambda: DDP(nn.Linear(2, 2), device_ids=[0], output_device=0)),
    ("N7.1", "No backend type associated with device type cpu", RuntimeError, lambda: dist.all_reduce(c(2))),
    ("N12.1", "FSDP only supports single device modules but got params on {device(type='cuda', index=0), device(type='cuda', index=1)}", RuntimeError,
     lambda: _sharded(nn.Sequential(nn.Linear(2, 2).cuda(0), nn.Linear(2, 2).cuda(1)))),
    ("N13.1", "To support a module with both CPU and GPU params, please pass in device_id argument.", RuntimeError,
     lambda: _sharded(nn.Sequential(nn.Linear(2, 2).cuda(), nn.Linear(2, 2)))),
    ("N14.1", "An FSDP-managed module unexpectedly has parameters on cpu. Make sure to move the module to cuda:0 before training.", RuntimeError,
     _moved_back),
    ("N15.1", "An FSDP-managed module with parameter CPU offloading enabled has parameters on cuda:0. Make sure to not move the module from CPU "
     "when offloading parameters.", RuntimeError, _offloaded),
    ("N17.1", "The module has CPU parameters or buffers when `sync_module_states=True`, which requires them to be on GPU. Please specify the "
     "`device_id` argument or move the module to GPU before passing it to FSDP.", ValueError, lambda: _sharded(nn.Linear(2, 2), sync_module_states=True)),
    ("N18.1", "FSDP parameters should be materialized from meta device before training, but the following were still on meta device: ", RuntimeError,
     _on_meta),
    ("N24.1", "Local shard tensor device does not match with local Shard's placement! Found local shard tensor device: cpu, local shard metadata "
     "placement device: cuda:0", ValueError, _shard_elsewhere),
]  # fmt: skip


@pytest.fixture
def rank() -> Iterator[None]:
    """The only rank of a group with NCCL, on two GPUs."""
    with whydevice.simulate_cuda(2):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()


def _ordered(text: str) -> str:
    """The text with each set that it prints in the order of its words: a set's own differs by the seed of hashes."""
    return re.sub(r"\{([^}]*)\}", lambda found: f"{{{', '.join(sorted(found[1].split(', ')))}}}", text)


@pytest.mark.parametrize(("name", "text", "kind", "provoke"), CASES, ids=[case[0] for case in CASES])
def test_message(rank: None, name: str, text: str, kind: type[BaseException], provoke: Any) -> None:
    with pytest.raises(kind) as caught:
        provoke()
    assert _ordered(text) in _ordered(str(caught.value))


def test_what_one_rank_can_do(rank: None) -> None:
    assert dist.get_backend() == "nccl"
    model = DDP(nn.Linear(2, 2).cuda(), device_ids=[0])
    model(c(3, 2)).sum().backward()
    assert model.module.weight.grad.is_cuda, "the input is moved, as DistributedDataParallel does it"
    total = g(2)
    dist.all_reduce(total)
    dist.barrier(device_ids=[0])
    objects = [None]
    dist.all_gather_object(objects, {"rank": 0})
    assert total.is_cuda and objects == [{"rank": 0}]
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        DDP(nn.Linear(2, 2))


@pytest.mark.parametrize("wrap", ["one", "two"])
def test_sharded_training_steps(rank: None, wrap: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 2)).cuda()
    if wrap == "one":
        model = _sharded(model)
    else:
        from torch.distributed.fsdp import fully_shard

        fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        loss = model(g(2, 2)).pow(2).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert loss.is_cuda and losses[1] < losses[0]


SPAWNED = """\
import torch, torch.distributed as dist, torch.multiprocessing as mp

def work(rank, world, path, queue):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="file://" + path, rank=rank, world_size=world)
    total = torch.ones(2, device="cuda") * (rank + 1)
    dist.all_reduce(total)
    shared = queue.get()
    shared += total.to(shared.device)
    print(rank, total.device, total.tolist(), shared.device)
    dist.destroy_process_group()

if __name__ == "__main__":
    import sys
    torch.multiprocessing.set_sharing_strategy("file_system")
    tensor, queue = torch.zeros(2, device="cuda:1"), mp.get_context("spawn").SimpleQueue()
    for _ in range(2):
        queue.put(tensor)
    mp.spawn(work, (2, sys.argv[1], queue), nprocs=2)
    print(tensor)
"""


def test_spawned_ranks_are_simulated_and_share_memory(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SPAWNED)
    done = subprocess.run(
        [sys.executable, "-m", "whydevice", "--simulate-cuda=2", "script.py", str(tmp_path / "store")],
        cwd=tmp_path, env={"PYTHONPATH": SRC, "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=HANGS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert lines[:2] == [f"{rank} cuda:{rank} [3.0, 3.0] cuda:1" for rank in (0, 1)]
    assert lines[2] == "tensor([6., 6.], device='cuda:1')"
