"""Ranks: one full report a node, one line for each other, torchrun's own files and statuses untouched."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from processes import environment, run

SCRIPT = """\
import {module}, os, sys, time
from whydevice.catch import ranks
if not sys.argv[1:]:
    ranks.PATIENCE = 60  # all fail: a loaded machine may start them far apart, and the first is to be waited for
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

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
    (folder / "script.py").write_text(SCRIPT.format(module=module))
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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ranks find each other by abstract sockets")
def test_a_rank_leaves_the_report_to_any_lower_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    from whydevice.catch import ranks

    monkeypatch.setenv("WORLD_SIZE", "4")
    for local, first in ((1, True), (2, False), (3, False)):
        monkeypatch.setenv("RANK", str(local))
        monkeypatch.setenv("LOCAL_RANK", str(local))
        assert ranks.reports() is first
    for held in ranks._held:
        held.close()
    ranks._held.clear()


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
    from whydevice.catch import ranks

    for name in (*ranks._RANK, *ranks._LOCAL, *ranks._SIZE):
        monkeypatch.delenv(name, raising=False)
    assert ranks.rank() is None
    assert ranks.reports()
    for rank, size in zip(ranks._RANK, ranks._SIZE, strict=True):
        with monkeypatch.context() as context:
            context.setenv(rank, "3")
            context.setenv(size, "8")
            assert ranks.rank() == 3
            context.setenv(size, "1")
            assert ranks.rank() is None
