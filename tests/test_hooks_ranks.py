"""Ranks: one full report a node, one line for each other, torchrun's own files and statuses untouched."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from processes import LIGHT, environment, run

SCRIPT = """\
import {module}, os, sys, time
from whydevice.catch import ranks
if not sys.argv[1:]:
    ranks.PATIENCE = 60  # all fail: a loaded machine may start them far apart, and the first is to be waited for
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

def all_have_failed():
    # Rank 0 ends when all have failed: a loaded machine may take one of them seconds to print its traceback.
    open("ended-" + os.environ["LOCAL_RANK"], "w").close()
    while os.environ["LOCAL_RANK"] == "0" and not all(os.path.exists("ended-" + rank) for rank in "0123"):
        time.sleep(0.05)

if not sys.argv[1:]:
    import atexit
    atexit.register(all_have_failed)

@record
def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if str(rank) in sys.argv[1:]:
        time.sleep(60)
    torch.ones(3) + torch.ones(3, device="meta")

if __name__ == "__main__":
    main()
"""


def _torchrun(folder: Path, *args: str, module: str = "whydevice", **env: str) -> Any:
    (folder / "script.py").write_text(SCRIPT.replace("{module}", module))
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
    return run(*launcher, "script.py", *args, cwd=folder, env=environment(OMP_NUM_THREADS="1", **env))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ranks find each other by abstract sockets")
def test_the_lowest_failing_rank_reports_for_the_node(tmp_path: Path) -> None:
    error_file = tmp_path / "error.json"
    done = _torchrun(tmp_path, TORCHELASTIC_ERROR_FILE=str(error_file))
    said = re.findall(r"^\[rank(\d)\]: whydevice: (rank \d)?", done.stderr, re.M)
    assert [rank for rank, other in said if not other] == ["0"]
    assert all(other == f"rank {rank}" for rank, other in said if other)
    assert done.returncode == 1
    assert "ChildFailedError" in done.stderr


def test_a_lower_rank_that_does_not_fail_is_not_waited_for(tmp_path: Path) -> None:
    # Only rank 1 fails: once a rank has ended, torchrun ends the others, whatever they were waiting for.
    done = _torchrun(tmp_path, "0", "2", "3")
    full = re.findall(r"^\[rank(\d)\]: whydevice: (?!rank)", done.stderr, re.M)
    assert full == ["1"]


def test_the_error_file_of_record_is_as_without_us(tmp_path: Path) -> None:
    files = []
    for module in ("json", "whydevice"):
        (tmp_path / "single.py").write_text(
            f"import {module}\nimport torch\n"
            "from torch.distributed.elastic.multiprocessing.errors import record\n"
            "@record\ndef main():\n    torch.ones(3) + torch.ones(3, device='meta')\n"
            "main()\n"
        )
        path = tmp_path / f"{module}.json"
        env = environment(TORCHELASTIC_ERROR_FILE=str(path), RANK="0", LOCAL_RANK="0", WORLD_SIZE="2")
        done = run("single.py", cwd=tmp_path, env=env)
        assert done.returncode == 1
        message = json.loads(path.read_text())["message"]
        files.append((message["message"], message["extraInfo"]["py_callstack"].replace(module, "module")))
    assert files[0] == files[1]
    assert "\nwhydevice: " in done.stderr


def test_the_rank_is_read_from_each_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    from whydevice import guard
    from whydevice.catch import ranks

    for name in (*ranks._RANK, *ranks._LOCAL, *ranks._SIZE):
        monkeypatch.delenv(name, raising=False)
    assert guard._LAUNCHED == ranks._RANK
    assert ranks.rank() is None
    for rank, size in zip(ranks._RANK, ranks._SIZE, strict=True):
        with monkeypatch.context() as context:
            context.setenv(rank, "3")
            context.setenv(size, "8")
            assert ranks.rank() == 3
            context.setenv(size, "1")
            assert ranks.rank() is None


def test_the_data_of_an_explanation_have_the_rank_of_each_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    from whydevice.catch import ranks
    from whydevice.compose import environment as composed

    for name in (*ranks._RANK, *ranks._LOCAL, *ranks._SIZE):
        monkeypatch.delenv(name, raising=False)
    assert composed().rank is None
    for name in ranks._RANK:
        with monkeypatch.context() as context:
            context.setenv(name, "3")
            assert composed().rank == 3


# What ranks do when they fail, without torch: processes that start at once and fail when they are told to.
RANK = (
    LIGHT.replace("import sys", "import os, sys, time", 1)
    + """\
import whydevice
from whydevice.catch import ranks
class Explanation:
    headline, cause = "an explanation", None
    def __radd__(self, text): return text + self.headline
    def __str__(self): return "\\nwhydevice: an explanation\\n"
_fake("whydevice.explain", explain=lambda exc: Explanation())
ranks.PATIENCE = float(sys.argv[1])
if len(sys.argv) > 2:
    write = sys.modules["whydevice.render.terminal"].write
    def slowly(*args):
        print("writing", flush=True)
        sys.stdin.read(1)
        write(*args)
    _fake("whydevice.render.terminal", write=slowly)
print("ready", flush=True)
sys.stdin.read(1)
shifted(3)
"""
)
LINGERS = """\
try:
    shifted(3)
except RuntimeError as exc:
    sys.excepthook(type(exc), exc, exc.__traceback__)
"""


class _Rank:
    """A process that is a rank of a run of eight."""

    def __init__(self, folder: Path, rank: int, patience: float, *, slow: bool = False) -> None:
        if not (folder / "rank.py").exists():
            (folder / "rank.py").write_text(RANK)
        env = environment(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="8", MASTER_PORT=str(folder))
        self.process = subprocess.Popen(
            [sys.executable, "rank.py", str(patience), *["slow"] * slow],
            cwd=folder, env=env, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("x")
        self.process.stdin.flush()

    def traceback(self) -> None:
        """Wait until the traceback was printed: from then on the rank waits for its turn."""
        assert self.process.stderr is not None
        while not self.process.stderr.readline().startswith("RuntimeError"):
            pass

    def said(self) -> str:
        """The line that it said in the end."""
        assert self.process.stderr is not None
        [line] = [line for line in self.process.stderr if line.startswith("whydevice: ")]
        return line.removeprefix("whydevice: ").strip()

    def ends(self) -> int:
        self.process.communicate()
        return self.process.returncode


FULL = "an explanation"
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="ranks find each other by abstract sockets"
)


def _started(folder: Path, patience: float, *numbers: int, slow: int = -1) -> list[_Rank]:
    ranks = [_Rank(folder, number, patience, slow=number == slow) for number in numbers]
    assert [rank.says() for rank in ranks] == ["ready"] * len(ranks)
    return ranks


def _wait_for_name(name: str) -> None:
    end = time.monotonic() + 60
    while name not in Path("/proc/net/unix").read_text():
        assert time.monotonic() < end, f"no process took the name {name}"


@linux
@pytest.mark.parametrize("patience", [0, 0.01, 60])
def test_whenever_they_fail_exactly_one_reports(patience: float, tmp_path: Path) -> None:
    # None ends before all have failed and said what they say.
    (tmp_path / "rank.py").write_text(
        RANK.replace("shifted(3)\n", LINGERS + "os.close(2)\nsys.stdin.read(1)\nsys.exit(1)\n")
    )
    ranks = _started(tmp_path, patience, 3, 0, 2, 1)
    for rank in ranks:
        rank.go()
    said = [rank.said() for rank in ranks]
    assert [rank.ends() for rank in ranks] == [1] * 4
    assert said.count(FULL) == 1, said
    if patience == 60:
        assert said[1] == FULL
        assert re.fullmatch(r"rank 3: an explanation; (rank 0|another rank) reports in full", said[0])


@linux
def test_no_rank_ends_before_the_report_is_written(tmp_path: Path) -> None:
    first, second, reporter = _started(tmp_path, 60, 2, 1, 0, slow=0)
    for rank in (first, second, reporter):
        rank.go()
    assert reporter.says() == "writing"
    first.traceback()
    second.traceback()
    assert first.process.poll() is second.process.poll() is None
    reporter.go()
    assert reporter.said() == FULL
    for rank in (first, second):
        assert rank.said().endswith("reports in full")


@linux
def test_a_rank_that_is_told_to_end_while_it_waits_reports_at_once(tmp_path: Path) -> None:
    [rank] = _started(tmp_path, 60, 3)
    rank.go()
    rank.traceback()
    _wait_for_name("failed-3")  # it takes its name a moment later
    rank.process.terminate()
    assert rank.said() == FULL
    assert rank.ends() == 1


@linux
def test_a_rank_that_was_long_at_its_explanation_hears_of_a_report_written_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(
        RANK.replace(
            "explain=lambda exc: Explanation()",
            "explain=lambda exc: (os.environ['RANK'] == '0' or sys.stdin.read(1)) and Explanation()",
        )
    )
    reporter, slow = _started(tmp_path, 0.01, 0, 2)
    slow.go()
    slow.traceback()
    _wait_for_name("hears-2")  # from then on it explains
    reporter.go()
    assert reporter.said() == FULL
    assert reporter.ends() == 1
    slow.go()
    assert slow.said() == "rank 2: an explanation; rank 0 reports in full"


@linux
def test_when_the_reporter_is_killed_another_rank_reports(tmp_path: Path) -> None:
    other, reporter = _started(tmp_path, 0.01, 2, 1, slow=1)
    reporter.go()
    assert reporter.says() == "writing"
    other.go()
    other.traceback()
    reporter.process.kill()
    assert other.said() == FULL
    assert (other.ends(), reporter.ends()) == (1, -signal.SIGKILL)


@linux
def test_a_rank_reports_all_its_errors_or_none(tmp_path: Path) -> None:
    # Two threads of one rank fail; the other rank learns of one report.
    script = RANK.replace(
        "shifted(3)\n",
        "import threading\nfor _ in 'ab':\n"
        "    t = threading.Thread(target=shifted, args=(3,)); t.start(); t.join()\n",
    )
    (tmp_path / "script.py").write_text(script)
    env = environment(RANK="0", LOCAL_RANK="0", WORLD_SIZE="2", MASTER_PORT=str(tmp_path))
    done = run("script.py", "0", cwd=tmp_path, env=env, input="x")
    assert done.stderr.count("\nwhydevice: an explanation\n") == 2


LAUNCHERS = {
    "torchrun": ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT"),
    "Open MPI": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "PMIX_NAMESPACE",
    ),
    "MPICH": ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MASTER_PORT"),
    "Slurm": ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_JOB_ID"),
}


class _Launched(_Rank):
    """A rank with the variables that are given."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "rank.py", "60"], cwd=folder, env=environment(**env), text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


@linux
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_ranks_of_each_launcher_report_once(launcher: str, tmp_path: Path) -> None:
    # None ends before both have said what they say.
    (tmp_path / "rank.py").write_text(
        RANK.replace("shifted(3)\n", LINGERS + "os.close(2)\nsys.stdin.read(1)\n")
    )
    rank, local, size, job = LAUNCHERS[launcher]
    second, first = (
        _Launched(tmp_path, **{rank: str(number + 4), local: str(number), size: "8", job: str(tmp_path)})
        for number in (1, 0)
    )
    for process in (second, first):
        assert process.says() == "ready"
        process.go()
    assert first.said() == FULL
    assert re.fullmatch(r"rank 5: an explanation; (rank 4|another rank) reports in full", second.said())
    assert (first.ends(), second.ends()) == (0, 0)


NOTES = """\
try:
    shifted(3)
except RuntimeError as exc:
    import traceback
    print(traceback.format_exc().splitlines()[-1], flush=True)
sys.stdin.read(1)
"""


@linux
def test_a_note_waits_for_no_report(tmp_path: Path) -> None:
    # The error is caught, and all ranks go on: a line is said while the rank with the report still runs.
    (tmp_path / "rank.py").write_text(RANK.replace("shifted(3)\n", NOTES))
    ranks = []
    for number in (0, 2, 1):
        env = {
            "RANK": str(number),
            "LOCAL_RANK": str(number),
            "WORLD_SIZE": "3",
            "MASTER_PORT": str(tmp_path),
        }
        ranks.append(_Launched(tmp_path, WHYDEVICE="everywhere", **env))
        assert ranks[-1].says() == "ready"
        ranks[-1].go()
        own = "" if number == 0 else f"rank {number}: "
        said = FULL if number == 0 else f"{FULL}; another rank reports in full"
        assert ranks[-1].says() == f"whydevice: {own}{said}"
    for rank in ranks:
        assert rank.ends() == 0


@linux
def test_mpirun(tmp_path: Path) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    wait = "open(os.environ['OMPI_COMM_WORLD_RANK'], 'w').close()\n"
    wait += "while not all(map(os.path.exists, '012')): time.sleep(0.01)\nsys.exit(1)\n"
    (tmp_path / "script.py").write_text(RANK.replace("sys.stdin.read(1)\nshifted(3)\n", LINGERS + wait))
    command = [*"mpirun --allow-run-as-root --oversubscribe -n 3".split(), sys.executable, "script.py", "60"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )
    said = re.findall(r"^whydevice: (.*)", done.stderr, re.M)
    assert said.count(FULL) == 1, done.stderr
    assert done.returncode == 1
