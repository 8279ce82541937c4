"""The promises of cuda_promises.py, on a GPU; without one, that the code which measures them runs."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import cuda_promises  # noqa: E402
import whydevice  # noqa: E402

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a real CUDA device")


@pytest.mark.cuda
@on_gpu
def test_explaining_neither_waits_nor_allocates() -> None:
    assert cuda_promises.quiet() == {"explained": True, "allocations": 0, "bytes": 0}


@pytest.mark.cuda
@on_gpu
@pytest.mark.parametrize("poison", cuda_promises.POISONS)
def test_explains_after_the_context_is_poisoned(poison: str) -> None:
    told = cuda_promises.after(poison)
    assert told["poisoned"], told
    assert "Expected all tensors to be on the same device" in told["error"] and told["culprit"] == "batch"


@pytest.mark.cuda
@on_gpu
def test_what_a_training_step_pays() -> None:
    seconds = cuda_promises.step_seconds()
    # One microsecond a call of a Module (DESIGN.md); a step of this model makes forty.
    assert seconds["everywhere"] < 1.2 * seconds["plain"], seconds


def test_the_code_that_measures_runs() -> None:
    with whydevice.simulate_cuda():
        assert cuda_promises.quiet() == {"explained": True, "allocations": 0, "bytes": 0}
        seconds = cuda_promises.step_seconds(steps=1, width=16)
    assert all(0 < value < 100 for value in seconds.values())
    assert cuda_promises.WAYS.keys() == seconds.keys()
