"""The table of operators: what a device did, if one was there, against the simulation; and the runner that fills it.

`make cuda-ops` on a machine with a GPU writes data/cuda_ops.jsonl. Ops known to differ are in
data/cuda_ops_differences.json, with the reason.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from cuda_ops import differences, packed, read
from scripts import script

DATA = Path(__file__).parent / "data"
RECORD = DATA / "cuda_ops.jsonl"
KNOWN: dict[str, str] = json.loads((DATA / "cuda_ops_differences.json").read_text(encoding="utf-8"))


def against_simulation(record: Path, every: int = 1) -> dict[str, list[Any]]:
    """By op, the pairs whose outcome the simulation does not have."""
    runner = script("opinfo_devices")
    header, ops = read(record)
    assert header["machine"]["gpu"] and not header["simulated"]
    found = {}
    for op in runner.op_database()[::every]:
        line = ops.get(op.full_name)
        if line is not None:
            now = [runner.row(pair, False) for pair in runner.pairs(op, header["samples"], True)]
            rows = [row for row in line["rows"] if row["raises"] != "died"]
            if differs := list(differences(rows, now)):
                found[op.full_name] = differs
    return found


@pytest.mark.skipif(not RECORD.exists(), reason="no device has filled the table yet")
def test_simulation_does_what_the_device_did() -> None:
    found = against_simulation(RECORD, every=5)
    assert not found.keys() - KNOWN.keys(), {op: found[op][0] for op in found.keys() - KNOWN.keys()}


def test_a_table_is_compared_by_outcome() -> None:
    """The sample is a simulated table with two outcomes changed by hand."""
    found = against_simulation(DATA / "cuda_ops_sample.jsonl")
    assert {op: len(pairs) for op, pairs in found.items()} == {"addmm": 1, "cumsum": 1}
    its, ours = found["addmm"][0]
    assert (its["raises"], ours["raises"]) == (None, "RuntimeError") and its["argument"] == 0


def test_packed_and_read(tmp_path: Path) -> None:
    rows = [
        {"sample": 0, "argument": None, "side": "cpu", "raises": None, "message": "", "devices": ["cuda:0"]},
        {
            "sample": 0,
            "argument": 1,
            "side": "cuda",
            "raises": "RuntimeError",
            "message": "no",
            "devices": [],
        },
        {
            "sample": 1,
            "argument": 1,
            "side": "cuda",
            "raises": "RuntimeError",
            "message": "no",
            "devices": [],
        },
    ]
    line = packed("add", rows, None)
    assert line.count('"no"') == 1, "each message once"
    file = tmp_path / "table"
    file.write_text('{"machine": {}, "samples": 1}\n' + line + "\n" + line[:20])
    header, ops = read(file)
    assert header["samples"] == 1 and ops == {"add": {"rows": rows, "died": None}}


WORKER = """\
import json, os, sys, time
mark = sys.argv[1]
for name, passed in json.load(sys.stdin):
    for number in range(passed, 3):
        pair = {"sample": number, "argument": None, "side": "cpu"}
        print(json.dumps({"begin": name, "pair": pair}), flush=True)
        if name == "crashes" and number == 1:
            os.kill(os.getpid(), 9)
        if name == "hangs" and number == 1:
            time.sleep(600)
        row = pair | {"raises": None, "message": name, "devices": []}
        poisoned = name == "poisons" and number == 1
        print(json.dumps({"row": row, "poisoned": poisoned}), flush=True)
        if poisoned:
            os._exit(75)
    print(json.dumps({"end": name}), flush=True)
    with open(mark, "a") as file:
        file.write(name + " ")
"""


def test_runner_survives_what_an_op_does_to_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = script("real_cuda_ops")
    (tmp_path / "worker.py").write_text(WORKER)
    monkeypatch.setattr(
        runner, "WORKER", [sys.executable, str(tmp_path / "worker.py"), str(tmp_path / "mark")]
    )

    class Patient(runner.Worker):
        """Waits as long as it takes, but for what is never said."""

        said: Any = None

        def next(self, patience: float) -> Any:
            hangs = self.said == {"begin": "hangs", "pair": {"sample": 1, "argument": None, "side": "cpu"}}
            self.said = super().next(0.1 if hangs else patience)
            return self.said

    monkeypatch.setattr(runner, "Worker", Patient)
    options = argparse.Namespace(minutes=60.0, samples=3, patience=600.0)
    out = tmp_path / "table"
    names = ["first", "crashes", "poisons", "hangs", "last"]
    assert runner.fill(names, out, options, True) == 5
    _, ops = read(out)
    assert list(ops) == names and all(len(line["rows"]) == 3 for line in ops.values())
    assert ops["crashes"]["died"] == "killed by signal 9" and ops["hangs"]["died"] == "killed by signal 9"
    assert [row["raises"] for row in ops["crashes"]["rows"]] == [None, "died", None]
    assert ops["first"]["died"] is None and [row["sample"] for row in ops["poisons"]["rows"]] == [0, 1, 2]


def test_a_run_out_of_time_leaves_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = script("real_cuda_ops")
    (tmp_path / "worker.py").write_text(WORKER)
    monkeypatch.setattr(
        runner, "WORKER", [sys.executable, str(tmp_path / "worker.py"), str(tmp_path / "mark")]
    )
    options = argparse.Namespace(minutes=0.0, samples=3, patience=5.0)
    assert (
        runner.fill(["first"], tmp_path / "table", options, True) == 0 and not (tmp_path / "table").exists()
    )
    out = tmp_path / "cut"
    out.write_text('{"machine": {}}\n{"op": "fir')
    runner._drop_cut_line(out)
    assert out.read_text() == '{"machine": {}}\n'


def test_known_differences_have_a_reason() -> None:
    recorded = read(RECORD)[1] if RECORD.exists() else {}
    assert KNOWN.keys() <= recorded.keys() and all(reason.strip() for reason in KNOWN.values())
