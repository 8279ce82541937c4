"""The pytest plugin: a failing test whose error is a device error gets a section with the explanation.

`--simulate-cuda[=N]` runs the whole suite with simulated GPUs, `@pytest.mark.simulate_cuda(N)` one test.
`-p no:whydevice` turns the plugin off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .. import guard


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("whydevice", "PyTorch devices")
    group.addoption(
        "--simulate-cuda",
        nargs="?",
        type=int,
        const=1,
        default=None,
        metavar="N",
        help="run the tests with N simulated GPUs (1 when not said; the value needs the `=`)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "simulate_cuda(devices=1): run the test with simulated GPUs")
    devices = config.getoption("simulate_cuda")
    if devices is None or _only_distributes(config):
        return
    if devices < 1:
        raise pytest.UsageError(f"--simulate-cuda takes a number of GPUs from 1 up, not {devices}")
    from ..simulate import simulate_cuda

    # For the collection too: modules of tests make tensors when they are imported.
    simulation = simulate_cuda(devices)
    simulation.__enter__()
    config.add_cleanup(lambda: simulation.__exit__(None, None, None))


def _only_distributes(config: pytest.Config) -> bool:
    """True in the process of pytest-xdist that hands the tests to its workers."""
    return not hasattr(config, "workerinput") and getattr(config.option, "dist", "no") != "no"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    marker = item.get_closest_marker("simulate_cuda")
    if marker is None:
        yield
        return
    from ..simulate import simulate_cuda

    with simulate_cuda(*marker.args, **marker.kwargs):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    if call.excinfo is not None:
        guard.tidy(call.excinfo.value)
    outcome: Any = yield
    if call.excinfo is None:
        return
    report = outcome.get_result()
    if report.outcome == "failed":
        guard.show(call.excinfo.value, lambda explanation: _add(report, str(explanation)))


def _add(report: pytest.TestReport, text: str) -> None:
    text = text.strip("\n")
    section = getattr(report.longrepr, "addsection", None)
    if section is not None:
        section("whydevice", text, "-")
    else:
        report.sections.append(("whydevice", text))
