"""Each row of the message catalogue is provoked under simulation with its text, or it is said why it is not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import test_simulate_messages
import test_simulate_ranks

ROWS: dict[str, dict[str, Any]] = {
    row["id"]: row
    for row in map(
        json.loads,
        (Path(__file__).parent / "data" / "messages.jsonl").read_text(encoding="utf-8").splitlines(),
    )
}
PROVOKED = {name: text for name, text, *_ in test_simulate_messages.CASES + test_simulate_ranks.CASES}
# Provoked by a test of its own.
ELSEWHERE = {
    "M13.1": "test_simulate_surface.py: a forked DataLoader worker touches the GPU",
    "T1.1": "test_simulate_surface.py: the same worker, and DataParallel's replicas",
}
# Provoked, in words that are not the row's: pattern of ids, and why.
OTHER_WORDS = {
    r"G2\.1": "linalg.eigvals.out has a generated wrapper, which compares first; the composite functions say it",
    r"G4\.1|G5\.1|G10\.1|I3\.1|P1\.18": "the row was recorded with meta in the GPU's place",
    r"L2\.1": "the row has one GPU, the tests two",
    r"J2\.2": "the row is the template; a generator prints its index",
    r"K3\.4": "storages have no dtype in 2.x, and the class is named",
    r"M14\.1": "torchvision's operator; here one of PyTorch's own",
    r"I1\.1": "the root of a backward has no node to name; test_custom_function_is_named has the name",
    r"N18\.1": "the names of the parameters are the script's",
    r"G9\.2": "the sentence ends with the index, without a full stop, in the source",
}
# Not provoked: pattern of ids, and why.
BY_WRAPPER = "the generated wrapper compares first, and raises A1"
OLDER = "worded so before torch 2.8"
NOT_CUDA = "another backend than CUDA"
META = "raised by meta or fake tensors, no GPU takes part"
NOT_PROVOKED = {
    r"A1\.4[56]|B1\.[456]|E1\.[34]|F4\.2|G7\.1|J2\.3|O8\.1|L1\.2|L4\.1|L5\.1|M1\.2|M2\.[12]": NOT_CUDA,
    r"A[2-5]\..*|B2\.2|B3\..*|C.*|E1\.2|E10\.[12]|I1\.3|I2\..*|I5\..*|K2\..*|M5\.1|M6\.2|M7\.2|O1\.2|O3\.2|O4\..*": OLDER,
    r"B1\.7": "FakeTensor's words, or a message cut off",
    r"B6\.1": "the outputs of max and min are compared where they are resized (G11)",
    r"E1\.7": "dtypes that differ, on one device",
    r"E11\.1|E12\..*|F5\.4|F6\..*|F8\.1|O6\.1|P1\.[1-6]|P1\.10|P1\.11|P1\.14|P1\.15": BY_WRAPPER,
    r"P1\.8": "the kernel for the CPU is never chosen where a tensor is on a GPU",
    r"P1\.12|P1\.19|I8\.1": "an internal function, given tensors that its caller placed itself",
    r"G13\.1": "the operator that says it is not known (messages.md)",
    r"E3\.5|E4\.2|E6\.[23]|E7\.2|F5\.[1-3]|F7\.2|G3\.1|G9\.1|G11\.1|G12\.1|G14\.1|H(?!10\.[12]).*|I1\.2|I7\.1|K1\.[234]|K3\.3|P1\.13": META,
    r"J2\.1": "randperm on CUDA compares kinds of devices (J1) since torch 1.9",
    r"L1\.1|M1\.1|M2\.3|M3\.1|M4\.1|M10\.1|M11\.1|M15\.1": "there is no GPU: in the simulation there is one",
    r"M6\.1": "an assertion inside a CUDA build",
    r"M16\.1": "an error of the hardware",
    r"N8\.1|N9\.1|N10\.1|N23\.1": "raised inside NCCL's or TensorPipe's C++, which Gloo stands in for",
    r"N11\.1|N16\..*|N19\.1|N20\.1|N21\.1": "an assertion on FSDP's own state: what a script does ends in another row before",
    r"N1\.2": "the same sentence as N1.1 for other devices",
    r"[DQRS].*": "MPS, vendors' backends and libraries: raised by their own code",
    r"T.*": "an envelope: the inner sentence has a row of its own",
}


def reasons(name: str) -> list[str]:
    return [why for pattern, why in NOT_PROVOKED.items() if re.fullmatch(pattern, name)]


@pytest.mark.parametrize("name", ROWS)
def test_row_is_provoked_or_the_reason_said(name: str) -> None:
    provoked = name in PROVOKED or name in ELSEWHERE
    assert provoked or reasons(name), f"{name} is not provoked: {ROWS[name]['message']}"


def test_no_reason_for_what_is_provoked() -> None:
    for pattern in NOT_PROVOKED:
        matching = {name for name in ROWS if re.fullmatch(pattern, name)}
        assert matching, f"{pattern} matches no row"
        assert not matching & PROVOKED.keys(), (pattern, matching & PROVOKED.keys())


@pytest.mark.parametrize("name", [name for name in PROVOKED if name in ROWS])
def test_the_words_are_the_rows(name: str) -> None:
    text, row = PROVOKED[name].strip(), ROWS[name]["message"]
    same = text in row or row in text
    assert same or any(re.fullmatch(pattern, name) for pattern in OTHER_WORDS), row
