"""Ranks of a distributed run: one full report a node, one line by each other rank that fails.

torchrun, accelerate launch, mpirun and srun say in the environment which rank a process is. Ranks that
fail find one another by abstract Unix sockets (Linux): a name that a process holds until it ends, and no
file. Elsewhere every rank reports in full.

What is guaranteed, however slow the machine: of the ranks that fail until the one that reports has ended,
however long each is at its explanation, exactly one reports in full, and no other goes on to its end before
that report is written; for a launcher ends all ranks when one has ended. It is the lowest rank of those that
have their explanation within `PATIENCE` of the first. A rank that is told to end while it waits for a lower one reports at once.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import time
import zlib
from _thread import get_ident, start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import Any

    from ..types import Explanation

_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_LOCAL = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
_SIZE = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_JOB = ("MASTER_ADDR", "MASTER_PORT", "GROUP_RANK", "PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID")

PATIENCE = 0.5
"""Seconds that a rank gives the lower ones to fail too: it decides which rank reports, not whether one does."""
_LONGEST = 10.0
"""Seconds more that it waits for a rank that failed but does not get to its report."""
_STEP = 0.05
_LAST = 3.0
"""Seconds that a rank whose note is a line waits at its end for the one that has the report."""
_GRACE = 1.0
"""Seconds for a process to end by itself, before a signal that it got meanwhile ends it."""
_MOST = 1024

_held: dict[str, socket.socket] = {}


def number() -> int | None:
    """The rank that a launcher gave this process, if one did."""
    return _number(_RANK)


def rank() -> int | None:
    """This process's rank in a distributed run of more than one process, else None."""
    size = _number(_SIZE)
    return number() if size is None or size > 1 else None


def _number(names: tuple[str, ...]) -> int | None:
    for name in names:
        text = os.environ.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return None


def listen() -> None:
    """This rank has failed, and may be long at explaining it: be told of another's report from here on."""
    local = _number(_LOCAL)
    if rank() is not None and local is not None and sys.platform.startswith("linux"):
        if (name := f"hears-{local}") not in _held:
            _hold(name)


def write(explanation: Explanation, stream: Any, full: Callable[[], None]) -> None:
    """Write the full report, by calling `full`, or this rank's one line. May wait for other ranks."""
    local = _number(_LOCAL)
    if rank() is None or local is None or not sys.platform.startswith("linux"):
        full()
        return
    with _Signal() as told:
        reporter = _reporter(local, told)
        if reporter is None:
            full()
            # A stream without a file is somebody's buffer, and is printed later but before the end.
            _tell() if _is_file(stream) else atexit.register(_tell)
        else:
            print("\n" + line(explanation, reporter), file=stream, flush=True)


def note(explanation: Explanation) -> str:
    """What a note on the exception says: the full report, or this rank's one line.

    Whether the note is ever printed, and when, is for others to decide. So no rank waits here for another's
    report, but for `PATIENCE` at most, once; at its end a rank that has a line waits a little.
    """
    local = _number(_LOCAL)
    if rank() is None or local is None or not sys.platform.startswith("linux"):
        return str(explanation)
    first = f"failed-{local}" not in _held
    if _notes_in_full(local):
        if first:
            atexit.register(_tell)
        return str(explanation)
    if first:
        atexit.register(_wait_at_the_end)
    return line(explanation, "another rank")


def _notes_in_full(local: int) -> bool:
    if (name := f"failed-{local}") in _held:
        return "report" in _held
    if not _hold(name):
        return True
    end = time.monotonic() + PATIENCE
    while not (_is_held("report") or any(_is_held(f"failed-{lower}") for lower in range(local))):
        if local == 0 or time.monotonic() >= end:
            return _hold("report")
        time.sleep(_STEP)
    return False


def _wait_at_the_end() -> None:
    """A launcher ends all ranks when one has ended: not before the one with the report has, if it is quick."""
    end = time.monotonic() + _LAST
    while _is_held("report") and not _is_held("written") and time.monotonic() < end:
        time.sleep(_STEP)


def line(explanation: Explanation, reporter: str) -> str:
    """The one line of a rank that does not report in full."""
    from ..render.tree import clean

    cause = f" [{explanation.cause.name}]" if explanation.cause else ""
    return clean(f"whydevice: rank {rank()}: {explanation.headline}{cause}; {reporter} reports in full")


def _reporter(local: int, told: _Signal) -> str | None:
    """The rank whose full report is written, in words; None when it is for this process to report."""
    if (name := f"failed-{local}") in _held:
        # Another error of this rank, perhaps in another thread.
        return None if "report" in _held else "another rank"
    if not _hold(name):
        return None  # Two processes that take themselves for one rank are no ranks of one run.
    listen()
    ear = _held.get(f"hears-{local}", _held[name])
    began = time.monotonic()
    while not _is_held("written"):
        late = time.monotonic() - began
        lower = any(_is_held(f"failed-{other}") for other in range(local))
        enough = bool(told) or late >= PATIENCE + _LONGEST
        mine = enough or (not lower and (local == 0 or late >= PATIENCE))
        claimed = mine and _hold("report")
        # What a reporter has told stays readable when it has ended, and its names are free again.
        if (said := _heard(ear, 0 if claimed else _STEP)) is not None:
            if claimed:
                _held.pop("report").close()
            return f"rank {said}"
        if claimed:
            return None
        if enough:
            break
    said = _heard(ear, _STEP)
    return "another rank" if said is None else f"rank {said}"


def _tell() -> None:
    """Tell the ranks that wait, and those that fail later, that the report is written."""
    if "report" in _held and _hold("written"):
        for other in range(min(_number(_SIZE) or _MOST, _MOST)):
            try:
                _held["written"].sendto(str(rank()).encode(), socket.MSG_DONTWAIT, _address(f"hears-{other}"))
            except OSError:
                continue  # it has not failed


def _heard(mine: socket.socket, seconds: float) -> str | None:
    """The rank that says that it has reported, if one says so within `seconds`."""
    mine.settimeout(seconds)
    try:
        return mine.recv(20).decode("ascii")
    except (OSError, UnicodeDecodeError):
        return None


def _address(name: str) -> bytes:
    # A run without an identity of its own is known by the process that started its ranks.
    job = "-".join(filter(None, map(os.environ.get, _JOB))) or str(os.getppid())
    return f"\0whydevice-{os.getuid()}-{name}-{zlib.crc32(job.encode()):08x}".encode()


def _hold(name: str) -> bool:
    """Take a name for as long as this process lives. False when it is taken."""
    mine = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        mine.bind(_address(name))
    except OSError:
        mine.close()
        return False
    _held[name] = mine
    return True


def _is_held(name: str) -> bool:
    """True when this process or another one holds the name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_address(name))
        except OSError:
            return False
    return True


def _is_file(stream: Any) -> bool:
    try:
        return bool(stream.fileno() >= 0)
    except (AttributeError, OSError, ValueError):
        return False


class _Signal:
    """True once SIGTERM has told the process to end, while it waits here for other ranks.

    Without us it would have printed its error and ended by then. So the signal takes effect only if the
    process is still there a little later. Only where the signal would simply end the process, and in the
    main thread, which alone can say.
    """

    def __init__(self) -> None:
        self.seen = self.ours = False

    def __bool__(self) -> bool:
        return self.seen

    def _handler(self, number: int, frame: FrameType | None) -> None:
        self.seen = True

    def __enter__(self) -> _Signal:
        threading = sys.modules.get("threading")
        main = threading is None or threading.main_thread().ident == get_ident()
        if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._handler)
            self.ours = True
        return self

    def __exit__(
        self, type_: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self.seen:
            start_new_thread(_end, ())


def _end() -> None:
    time.sleep(_GRACE)
    os.kill(os.getpid(), signal.SIGTERM)
