"""`traffic=True`: what crosses, or makes the host wait, by the user's line."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import whydevice  # noqa: E402
from whydevice import simulate  # noqa: E402


def test_waits_are_counted_by_line() -> None:
    with whydevice.simulate_cuda(traffic=True):
        x = torch.ones(4).to("cuda")
        for _ in range(3):
            x.sum().item()
        x[x > 0]
        torch.ones(4).pin_memory().to("cuda", non_blocking=True)
        x.cpu()
        str(x)
    text = simulate.traffic_report()
    assert text is not None
    lines = text.splitlines()
    assert lines[0] == "whydevice: traffic between host and GPU, by line"
    assert "3 x a value read on the host" in lines[1] and "test_simulate_traffic.py:" in lines[1]
    assert "1 x a copy from cpu to cuda:0, the host waits" in text
    assert "1 x indexing by a mask" in text and "1 x a copy from cuda:0 to cpu, the host waits" in text
    assert any(line.endswith("1 x a copy from cpu to cuda:0") for line in lines), "non_blocking does not wait"
    assert "a tensor printed" in text


def test_nothing_is_counted_unless_asked() -> None:
    with whydevice.simulate_cuda():
        torch.ones(4).cuda().sum().item()
    assert simulate.traffic_report() is None
