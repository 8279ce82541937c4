"""What simulated CUDA costs, side by side in one run. Never a test: the figures are ratios of one machine.

    python tests/benchmarks/bench_simulate.py [--steps N] [--memory-steps N]

- one training step of a small Transformer (d=256, 4 layers, batch 8 x 64): plain, simulated, FakeTensorMode
- microseconds per op of `a + b` on four elements: plain, simulated, FakeTensorMode, and two empty modes
(one function mode, one dispatch mode), the least that any mode of this kind can cost
- tensors and resident memory after many simulated steps
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import whydevice


class EmptyFunctionMode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class EmptyDispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 256)
        # Made one by one: a deepcopy of fake tensors copies their mode too.
        make = lambda: nn.TransformerEncoderLayer(256, 4, 512, dropout=0.0, batch_first=True)
        self.encoder = nn.Sequential(*(make() for _ in range(4)))
        self.head = nn.Linear(256, 1000)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embed(ids)))


def training(device: str) -> Callable[[], None]:
    torch.manual_seed(0)
    model = Model().to(device) if device != "cpu" else Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    ids = torch.randint(0, 1000, (8, 64), device=device)

    def step() -> None:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        loss.backward()
        optimizer.step()

    return step


def timed(step: Callable[[], None], count: int) -> float:
    """Seconds of the fastest step: the others waited for another process."""
    step()
    step()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return min(times)


def per_op(a: torch.Tensor, b: torch.Tensor, count: int = 20_000) -> float:
    """Microseconds of one addition."""
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(count):
            a + b
        best = min(best, time.perf_counter() - begin)
    return best / count * 1e6


def resident() -> float:
    """Mebibytes, the largest so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--memory-steps", type=int, default=1000)
    options = parser.parse_args()
    a, b = torch.ones(4), torch.ones(4)
    ops = {"plain": per_op(a, b)}
    with EmptyFunctionMode(), EmptyDispatchMode():
        ops["two empty modes"] = per_op(a, b)
    steps: dict[str, list[float]] = {"plain": [], "simulated": [], "FakeTensorMode": []}
    fake = FakeTensorMode()
    # Alternating, so that a busy machine slows all alike.
    for _ in range(3):
        steps["plain"].append(timed(training("cpu"), options.steps))
        with whydevice.simulate_cuda():
            steps["simulated"].append(timed(training("cuda"), options.steps))
        with fake:
            steps["FakeTensorMode"].append(timed(training("cpu"), max(3, options.steps // 5)))
    with whydevice.simulate_cuda():
        ops["simulated"] = per_op(a.cuda(), b.cuda())
    with fake:
        ops["FakeTensorMode"] = per_op(torch.ones(4), torch.ones(4), 2000)
    print("one op (a + b)")
    for name, value in ops.items():
        print(f"  {name:16} {value:7.2f} us   {value / ops['two empty modes']:5.2f} x two empty modes")
    print("one Transformer training step")
    plain = min(steps["plain"])
    for name, values in steps.items():
        if values:
            print(f"  {name:16} {min(values) * 1000:7.1f} ms   {min(values) / plain:5.2f} x plain")
    with whydevice.simulate_cuda():
        model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        counts = []
        for index in range(options.memory_steps):
            optimizer.zero_grad()
            model(torch.randn(16, 32, device="cuda")).pow(2).mean().backward()
            optimizer.step()
            if index in (options.memory_steps // 4, options.memory_steps - 1):
                gc.collect()
                counts.append((len(gc.get_objects()), resident()))
        print(f"memory over {options.memory_steps} steps: objects {counts[0][0]} -> {counts[-1][0]}, "
              f"resident {counts[0][1]:.0f} -> {counts[-1][1]:.0f} MiB")  # fmt: skip


if __name__ == "__main__":
    main()
