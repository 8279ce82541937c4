"""Switches and fixtures that all tests share."""

from __future__ import annotations

import compileall
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from runner import SRC, Runner
from sharing import group_of

# CI judges the change, not the day's luck: it takes the same examples each time. Runs by hand look for new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless",
        action="store_true",
        help="write what the product does now into the snapshots (report.txt, mended.py)",
    )
    parser.addoption(
        "--programs",
        type=int,
        default=int(os.environ.get("WHYDEVICE_PROGRAMS", "0")),
        help="how many random programs test_programs.py takes; a nightly run takes 1000",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Compile the package once. The tests start thousands of processes, and where PYTHONDONTWRITEBYTECODE is set each
    would compile it anew, at twice the time of all else that it does. The workers of xdist start after this."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(SRC / "whydevice", quiet=2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For `--dist loadgroup`, the groups of sharing.py. Those of the mark xdist_group hold nothing together with
    pytest 9.2 and pytest-xdist 3.8, and nobody is told."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class Scheduling(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether snapshots are to be rewritten."""
    return bool(request.config.getoption("--bless"))


@pytest.fixture(scope="session")
def command() -> Iterator[Runner]:
    """Runs the command cheaply: one process a session (one a worker under xdist) that forks for each run."""
    runner = Runner()
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def real_cuda() -> bool:
    """Whether fixtures run on a real device instead of a simulated one."""
    # Asks the driver without a CUDA context, which a later fork could not use.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch

    return torch.cuda.is_available()
