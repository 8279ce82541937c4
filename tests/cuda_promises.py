"""What only a GPU can show: explaining neither waits for it nor takes its memory, and works after it has failed.

`python tests/cuda_promises.py` measures and prints JSON, with torch and whydevice alone; test_cuda_promises.py
asserts what has to hold. Each poisoned context has a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

import whydevice

_MISMATCH = """
def forward(model, batch):
    return model(batch)

failure = None
try:
    forward(torch.nn.Linear(4, 4).to("cuda") if not poisoned else model, torch.ones(2, 4))
except RuntimeError as error:
    failure = error
told = whydevice.explain(failure)
print(json.dumps({"poisoned": poisoned, "error": str(failure).splitlines()[0], "culprit": told and told.culprit and told.culprit.expression}))
"""
POISONS = {
    "device-side assert": "torch.arange(4, device='cuda')[torch.tensor([9], device='cuda')]",
    "illegal access": "torch.as_strided(torch.zeros(1, device='cuda'), (1 << 20,), (1 << 20,)).sum()",
}


def quiet() -> dict[str, Any]:
    """Explain a mismatch with waiting for the GPU made an error. Counts what explaining allocated and kept.

    Returns {"explained", "allocations", "bytes"}.
    """
    model, batch = nn.Linear(4, 4).to("cuda"), torch.ones(2, 4)
    failure: BaseException | None = None
    try:
        model(batch)
    except RuntimeError as error:
        failure = error
    assert failure is not None
    torch.cuda.synchronize()
    before = _allocated()
    torch.cuda.set_sync_debug_mode("error")
    try:
        told = whydevice.explain(failure)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    after = _allocated()
    return {"explained": told is not None, "allocations": after[0] - before[0], "bytes": after[1] - before[1]}


def _allocated() -> tuple[int, int]:
    stats = torch.cuda.memory_stats()
    return stats.get("allocation.all.allocated", 0), stats.get("allocated_bytes.all.current", 0)


def after(poison: str) -> dict[str, Any]:
    """Explain a mismatch in a process whose CUDA context was poisoned before: {"poisoned", "error", "culprit"}."""
    code = (
        "import json, torch, whydevice\n"
        "model = torch.nn.Linear(4, 4).to('cuda')\n"
        "poisoned = False\n"
        "try:\n"
        f"    {POISONS[poison]}\n"
        "    torch.cuda.synchronize()\n"
        "except RuntimeError:\n"
        "    poisoned = True\n" + _MISMATCH
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    answer: dict[str, Any] = (
        json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr[-500:]}
    )
    return answer


@contextmanager
def _everywhere() -> Iterator[None]:
    whydevice.install(everywhere=True)
    try:
        yield
    finally:
        whydevice.uninstall()


def _tracing() -> AbstractContextManager[Any]:
    from whydevice.evidence.tracing import Tracing

    return Tracing()


WAYS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "plain": nullcontext,
    "everywhere": _everywhere,
    "trace": _tracing,
}


def step_seconds(steps: int = 20, width: int = 512) -> dict[str, float]:
    """Seconds of the fastest training step of a small Transformer: plain, with `everywhere`, with `--trace`."""
    best = dict.fromkeys(WAYS, float("inf"))
    for _ in range(2):  # in turn, so that a busy machine slows all alike
        for name, way in WAYS.items():
            with way():
                step = _training(width)
                for _ in range(steps):
                    begin = time.perf_counter()
                    step()
                    torch.cuda.synchronize()
                    best[name] = min(best[name], time.perf_counter() - begin)
    return best


def _training(width: int) -> Callable[[], None]:
    layers = [nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True) for _ in range(4)]
    model = nn.Sequential(*layers).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch = torch.randn(8, 64, width, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()

    return step


def measure() -> dict[str, Any]:
    """All of it, on a GPU."""
    return {
        "torch": torch.__version__, "gpu": torch.cuda.get_device_name(0), "quiet": quiet(),
        "after": {poison: after(poison) for poison in POISONS}, "step_seconds": step_seconds(),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
