"""A launcher run by our command line: its ranks get the options, and all else that it shows stays."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from processes import environment, run, why
from whydevice.catch import launchers

LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
OURS = ["-m", "whydevice", "--simulate-cuda=4"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (("-u", "train.py", "--lr", "-m"), ["-u", *OURS, "--", "train.py", "--lr", "-m"]),
        (["-u", "-m", "train", "a"], ["-u", *OURS, "-m", "train", "a"]),
        (["-X", "dev", "-Wignore", "train.py"], ["-X", "dev", "-Wignore", *OURS, "--", "train.py"]),
    ],
)
def test_a_python_script_or_module_gets_our_command_line(given: Any, wanted: list[str]) -> None:
    command = (sys.executable, *given) if isinstance(given, tuple) else [sys.executable, *given]
    assert launchers.command(command, OURS[2:]) == [sys.executable, *wanted]


@pytest.mark.parametrize(
    "given",
    [
        [sys.executable, "-c", "print(1)"],
        [sys.executable, "-Im", "train"],
        [sys.executable, "-E", "train.py"],
        [sys.executable, "-u", "-m", "whydevice", "train.py"],
        [sys.executable, "-"],
        [sys.executable],
        ["/elsewhere/python", "train.py"],
        ["nvidia-smi", "train.py"],
        "python train.py",
        [],
        [Path("train.py")],
    ],
)
def test_other_commands_are_left_alone(given: Any) -> None:
    assert launchers.command(given, OURS[2:]) is None


def test_what_is_a_launcher() -> None:
    assert launchers.is_launcher("torch.distributed.run", None)
    assert launchers.is_launcher(None, "/usr/bin/torchrun")
    assert not launchers.is_launcher(None, "torchrun.py")
    assert not launchers.is_launcher("train", None)


RANK = """\
import atexit, os, sys, time
from whydevice.catch import ranks
ranks.PATIENCE = 60  # all fail: a loaded machine may start them far apart, and the first is to be waited for
import torch
from torch.distributed.elastic.multiprocessing.errors import record

ENDED = [f"ended-{number}" for number in range(int(os.environ["LOCAL_WORLD_SIZE"]))]

@atexit.register
def all_have_failed():
    # Rank 0 ends when all have failed: a loaded machine may take one of them seconds to print its traceback.
    open(ENDED[int(os.environ["LOCAL_RANK"])], "w").close()
    while os.environ["LOCAL_RANK"] == "0" and not all(map(os.path.exists, ENDED)):
        time.sleep(0.05)

@record
def main():
    index = int(os.environ["LOCAL_RANK"])
    assert torch.cuda.device_count() == 4 and sys.argv == ["script.py", "--lr", "1"]
    weight = torch.ones(3, device=f"cuda:{index}")
    steps = torch.ones(3)
    steps * weight

main()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ranks find each other by abstract sockets")
@pytest.mark.parametrize("inside", [False, True])
def test_torchrun_with_simulated_gpus(inside: bool, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(RANK)
    options = ["--simulate-cuda=4", "--json=out.json"]
    command = [*LAUNCH, "-m", "whydevice", *options] if inside else ["-m", "whydevice", *options, *LAUNCH]
    env = environment(OMP_NUM_THREADS="1", TORCHELASTIC_ERROR_FILE=str(tmp_path / "error.json"))
    done = run(*command, "script.py", "--lr", "1", cwd=tmp_path, env=env)
    assert done.returncode == 1
    said = re.findall(r"^whydevice: (rank \d)?", done.stderr, re.M)
    assert said.count("") == 1, done.stderr
    assert len(said) <= 4, "a launcher's own error is not explained"
    assert re.search(r"^whydevice: `steps` is on cpu, but `weight` is on cuda:0", done.stderr, re.M)
    assert ("script.py FAILED" in done.stderr) is not inside
    # The error file tells what the script did, without an entry of ours.
    message = json.loads((tmp_path / "error.json").read_text())["message"]
    assert "same device" in message["message"]
    assert "whydevice" not in message["extraInfo"]["py_callstack"]
    [explanation] = json.loads((tmp_path / "out.json").read_text())["explanations"]
    assert explanation["culprit"]["expression"] == "steps"
    assert explanation["environment"]["rank"] in range(4)


def test_the_fix_loop_under_a_launcher(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(RANK)
    launch = [*LAUNCH[:-1], "--nproc-per-node=1"]
    command = ["--simulate-cuda=4", "--fix", *launch, "script.py", "--lr", "1"]
    done = why(*command, cwd=tmp_path, env=environment(OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stderr
    assert "torch.ones(3, device=weight.device)" in (tmp_path / "script.py").read_text()
    refused = why("--fix", *LAUNCH, "script.py", cwd=tmp_path)
    assert (refused.returncode, refused.stderr) == (
        2,
        "whydevice: under a launcher --fix and --diff need --simulate-cuda\n",
    )


@pytest.mark.parametrize("option", ["--fix", "--diff"])
def test_a_rank_writes_no_source(option: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('ran')\n")
    ranked = environment(RANK="1", LOCAL_RANK="1", WORLD_SIZE="2")
    done = why(option, "--simulate-cuda", "script.py", cwd=tmp_path, env=ranked)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "whydevice: in a rank there is no --fix or --diff: give them before the launcher"
    )
    alone = environment(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
    assert why(option, "--simulate-cuda", "script.py", cwd=tmp_path, env=alone).returncode == 0
