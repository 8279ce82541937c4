"""Ranks of a distributed run: one full report a node, by the lowest rank that fails, one line by others.

torchrun, accelerate launch, mpirun and srun say in the environment which rank a process is. Ranks that
fail find one another by abstract Unix sockets (Linux): a name that a process holds until it ends, and no
file. Elsewhere only local rank 0 is known to come first, and every rank reports in full.
"""

from __future__ import annotations

import os
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..types import Explanation

_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_LOCAL = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
_SIZE = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_JOB = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT", "SLURM_JOB_ID")

PATIENCE = 0.5
"""Seconds that a rank waits for a lower one to fail too. torchrun ends the others soon after the first."""

_held: list[socket.socket] = []


def _number(names: tuple[str, ...]) -> int | None:
    for name in names:
        text = os.environ.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return None


def rank() -> int | None:
    """This process's rank in a distributed run of more than one process, else None."""
    size = _number(_SIZE)
    return _number(_RANK) if size is None or size > 1 else None


def reports() -> bool:
    """True when this process is to report in full. May wait for `PATIENCE` seconds."""
    local = _number(_LOCAL)
    if rank() is None or local is None or not sys.platform.startswith("linux"):
        return True
    # Held until the process ends: the sign for the higher ranks.
    if (mine := _bind(local)) is not None:
        _held.append(mine)
    until = time.monotonic() + PATIENCE
    while True:
        if any(_failed(lower) for lower in range(local)):
            return False
        if local == 0 or time.monotonic() >= until:
            return True
        time.sleep(0.02)


def _address(local: int) -> bytes:
    job = "-".join(os.environ.get(name, "") for name in _JOB)
    return f"\0whydevice-{os.getuid()}-{os.getppid()}-{job}-{local}".encode()[:100]


def _bind(local: int) -> socket.socket | None:
    mine = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        mine.bind(_address(local))
    except OSError:
        # Another thread of this process has failed before.
        mine.close()
        return None
    return mine


def _failed(local: int) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_address(local))
        except OSError:
            return False
    return True


def line(explanation: Explanation) -> str:
    """The one line of a rank that does not report in full."""
    cause = f" [{explanation.cause.name}]" if explanation.cause else ""
    return f"whydevice: rank {rank()}: {explanation.headline}{cause}; a lower rank reports in full"
