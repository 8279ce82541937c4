"""The simulation and the explanation against what a real device did, fixture by fixture; and the records' format.

`make cuda` on a machine with a GPU writes the records (`cuda.json` beside a fixture). Where CUDA and the
simulation are known to differ, `data/cuda_differences.json` gives the field and the reason, by fixture.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from cuda_records import differences, digest, problems, take
from fixture_cases import Case, NearMiss, cases, near_misses
from runner import Result, Runner

DATA = Path(__file__).parent / "data"
ALL: list[Case | NearMiss] = [*cases(), *near_misses()]
RECORDED = [case for case in ALL if (case.folder / "cuda.json").exists()]
KNOWN: dict[str, dict[str, str]] = json.loads((DATA / "cuda_differences.json").read_text(encoding="utf-8"))
SYNTHETIC: dict[str, Any] = json.loads((DATA / "cuda_record.json").read_text(encoding="utf-8"))
"""Written by hand in the form of a record; no device was there. For the code that compares."""


def simulated(case: Case | NearMiss, command: Runner, folder: Path) -> dict[str, Any]:
    def run(argv: list[str], cwd: Path, plain: bool = False) -> Result:
        return command.run(argv, cwd, env={"WHYDEVICE": "0"} if plain else {})

    return take(case, run, SYNTHETIC["machine"], True, folder / "run")


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case.id)
def test_simulation_does_what_the_device_did(case: Case | NearMiss, command: Runner, tmp_path: Path) -> None:
    record = json.loads((case.folder / "cuda.json").read_text(encoding="utf-8"))
    assert not problems(record) and not record["simulated"]
    assert record["fixture"] == case.id
    assert record["script"] == digest(case), "the script has changed since: run `make cuda` again"
    found = differences(record, simulated(case, command, tmp_path))
    assert {text.partition(":")[0] for text in found} == KNOWN.get(case.id, {}).keys(), found


def test_what_is_known_to_differ_was_recorded() -> None:
    assert KNOWN.keys() <= {case.id for case in RECORDED}
    assert all(reason.strip() for fields in KNOWN.values() for reason in fields.values())


def test_record_of_a_run_has_the_format(command: Runner, tmp_path: Path) -> None:
    (case,) = [case for case in ALL if case.id == SYNTHETIC["fixture"]]
    record = simulated(case, command, tmp_path)
    assert problems(record) == []
    assert record["simulated"] and record["mended"]["ran"] and record["script"] == digest(case)
    assert json.loads(json.dumps(record)) == record
    told = record["explained"]
    assert (told["family"], told["argument"], told["op"]) == ("A1", "mat1", "addmm")
    assert any(item["culprit"] and item["device"] == "cpu" for item in told["operands"])
    assert "+        inputs = inputs.to(device)" in told["fix"]["diff"]
    # The synthetic record differs where its device was made to.
    assert [text.partition(":")[0] for text in differences(SYNTHETIC, record)] == [
        "plain.line",
        "explained.culprit",
    ]


def test_near_miss_has_no_mending(command: Runner, tmp_path: Path) -> None:
    (case,) = [case for case in near_misses() if case.folder.name == "ema_right_batch_wrong"]
    record = simulated(case, command, tmp_path)
    assert problems(record) == [] and record["mended"] is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r.pop("machine"), "record has no `machine`"),
        (lambda r: r.update(more=1), "record has an unknown `more`"),
        (lambda r: r["plain"].update(line="17"), "record.plain.line is '17'"),
        (lambda r: r["plain"].update(status=True), "record.plain.status is True"),
        (
            lambda r: r["explained"]["operands"][0].pop("device"),
            "record.explained.operands[0] has no `device`",
        ),
        (lambda r: r["explained"].update(fix={"title": "x"}), "record.explained.fix has no `applicability`"),
        (lambda r: r.update(mended=[]), "record.mended is no object"),
    ],
)
def test_format_is_checked(change: Any, said: str) -> None:
    record = copy.deepcopy(SYNTHETIC)
    assert problems(record) == []
    change(record)
    assert said in problems(record)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("plain", "message", "other"), ("plain", "line", 1), ("plain", "type", "TypeError"), ("explained", "family", "B1"),
        ("explained", "argument", "mat2"), ("explained", "op", "mm"), ("explained", "culprit", "targets"), ("explained", "root", 1),
        ("explained", "cause", None), ("explained", "fix", None), ("mended", "ran", False),
    ],
)  # fmt: skip
def test_each_difference_is_found(part: str, name: str, value: Any) -> None:
    now = copy.deepcopy(SYNTHETIC)
    assert differences(SYNTHETIC, now) == []
    now[part][name] = value
    (found,) = differences(SYNTHETIC, now)
    assert found.startswith(f"{part}.{name}: the device ")


def test_spelling_is_no_difference() -> None:
    now = copy.deepcopy(SYNTHETIC)
    now["explained"]["culprit"] = f"({SYNTHETIC['explained']['culprit']})"
    now["explained"]["fix"]["title"] = "another title of the same edit"
    assert differences(SYNTHETIC, now) == []
