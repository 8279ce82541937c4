"""Every fixture: it fails where it should, is explained as it should be, is mended, and then runs.

Without a GPU the scripts run under simulated CUDA; where torch.cuda.is_available() they run on CUDA. What a
device said is recorded by scripts/real_cuda.py, and test_cuda_records.py holds the simulation to it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contract import problems
from cuda_records import copied
from fixture_cases import (
    ROOT,
    Case,
    NearMiss,
    cases,
    last_traceback,
    near_misses,
    normal,
    raise_line,
    report_of,
)
from runner import Result, Runner, run_process
from sharing import group_of

CASES, NEAR_MISSES = cases(), near_misses()
SAMPLE = CASES if os.environ.get("WHYDEVICE_NIGHTLY") else CASES[::24]
"""The fixtures that are run in a real process as well: forked runs must show the same."""


@dataclass(frozen=True)
class Run:
    """A run with --json: how it ended, its explanations, and which of their claims do not hold (claims.py)."""

    result: Result
    explanations: list[dict[str, Any]]
    broken: list[str]


def device_options(case: Case | NearMiss, real_cuda: bool) -> list[str]:
    if not real_cuda:
        return [f"--simulate-cuda={case.gpus}"]
    import torch

    if torch.cuda.device_count() < case.gpus:
        pytest.skip(f"needs {case.gpus} GPUs, this machine has {torch.cuda.device_count()}")
    return []


class Runs:
    """What each fixture did, so that several tests can look at one run."""

    def __init__(self, command: Runner, real_cuda: bool, scratch: Path) -> None:
        self.command, self.real_cuda, self.scratch = command, real_cuda, scratch
        self._done: dict[str, Run] = {}

    def explained(self, case: Case | NearMiss) -> Run:
        """The script under --json. Cached."""
        if case.id not in self._done:
            options = device_options(case, self.real_cuda)
            target = self.scratch / case.id.replace("/", "__")
            folder = copied(case, target / "run")
            claims = target / "claims.jsonl"
            result = self.command.run([*options, "--json", "out.json", "script.py"], folder, claims=claims)
            out = folder / "out.json"
            found = json.loads(out.read_text())["explanations"] if out.exists() else []
            checked = (
                [json.loads(line) for line in claims.read_text().splitlines()] if claims.exists() else []
            )
            assert len(checked) >= len(found), "an explanation that was not checked"
            self._done[case.id] = Run(result, found, [claim for each in checked for claim in each])
        return self._done[case.id]


@pytest.fixture(scope="session")
def runs(command: Runner, real_cuda: bool, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(command, real_cuda, tmp_path_factory.mktemp("fixtures"))


def expected_gap(request: pytest.FixtureRequest, case: Case | NearMiss, *checks: str) -> None:
    """Mark the test as one that fails for the reason the fixture gives; once it passes, the mark must go."""
    for check in checks:
        if check in case.known_gap:
            request.applymarker(pytest.mark.xfail(reason=f"{check}: {case.known_gap[check]}", strict=True))


def grouped(found: Sequence[Case | NearMiss]) -> list[Any]:
    """Parameters by whose ids the tests of one fixture share a worker of xdist (sharing.py), where its run is cached."""
    return [pytest.param(each, id=each.id) for each in found]


each_case = pytest.mark.parametrize("case", grouped(CASES))
each_near_miss = pytest.mark.parametrize("near_miss", grouped(NEAR_MISSES))


@each_case
def test_raises_where_the_fixture_says(case: Case, runs: Runs, request: pytest.FixtureRequest) -> None:
    expected_gap(request, case, "raises")
    result = runs.explained(case).result
    assert result.status == 1, str(result)
    assert raise_line(result.stderr) == case.line, str(result)
    assert case.message in last_traceback(result.stderr), str(result)


@each_case
def test_explained_as_the_fixture_says(case: Case, runs: Runs, request: pytest.FixtureRequest) -> None:
    expected_gap(request, case, "raises", "explained")
    run = runs.explained(case)
    assert run.explanations, str(run.result)
    got = run.explanations[0]
    assert (got["cause"] or {}).get("name") in (case.cause, *case.also_true), report_of(run.result.stderr)
    said = (got["culprit"] or {}).get("expression") or ""
    if case.culprit:
        assert normal(said) in {normal(c) for c in case.culprit}, report_of(run.result.stderr)
    root = got["root"] or {}
    line = root.get("line")
    assert root.get("file") == "script.py", root
    # As shared/score.py judges: the line that the mend changes, give or take one.
    assert line is not None and any(abs(line - r) <= 1 for r in case.root_lines), (line, case.root_lines)


@pytest.mark.parametrize("case", grouped([*CASES, *NEAR_MISSES]))
def test_every_claim_holds(case: Case | NearMiss, runs: Runs) -> None:
    run = runs.explained(case)
    assert not run.broken, report_of(run.result.stderr)


@each_case
def test_json_is_the_contract(case: Case, runs: Runs) -> None:
    document = {"schema": 1, "explanations": runs.explained(case).explanations}
    assert problems(document, str(runs.scratch / case.id.replace("/", "__") / "run")) == []


@each_case
def test_report_is_the_snapshot(case: Case, runs: Runs, bless: bool, real_cuda: bool) -> None:
    snapshot = case.folder / "report.txt"
    if {"raises", "explained"} & set(case.known_gap):
        assert not snapshot.exists(), "a report that is known to be wrong is no snapshot: remove report.txt"
        pytest.skip("the report is known to be wrong: no snapshot")
    result = runs.explained(case).result
    text = report_of(result.stderr)
    assert text, str(result)
    assert sys.prefix not in text, text
    assert max(map(len, text.splitlines())) <= 80 and len(text.splitlines()) <= 40
    if real_cuda:
        pytest.skip("snapshots are of the simulated run")
    if bless:
        snapshot.write_text(text, encoding="utf-8")
    assert snapshot.exists(), f"no snapshot: pytest --bless -k '{case.id}' writes one\n{text}"
    assert text == snapshot.read_text(encoding="utf-8")


SPEAKS_OF_A_BRANCH = re.compile(r"happens only|is in the branch|runs only when|not taken")


@pytest.mark.parametrize("case", grouped([c for c in CASES if c.occasion is not None]))
def test_says_when_it_fails(case: Case, runs: Runs, request: pytest.FixtureRequest) -> None:
    expected_gap(request, case, "raises", "explained")
    run = runs.explained(case)
    said = [note for note in run.explanations[0]["notes"] if SPEAKS_OF_A_BRANCH.search(note)]
    assert len(said) == bool(case.occasion), said
    assert not said or case.occasion in said[0], said


@each_case
def test_mended_and_then_runs(
    case: Case, command: Runner, real_cuda: bool, bless: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    expected_gap(request, case, "raises", "mended")
    folder = copied(case, tmp_path / "run")
    before = (folder / "script.py").read_text()
    options = device_options(case, real_cuda)
    fixing = command.run([*options, "--fix", "--unsafe-fixes", "script.py"], folder)
    mended = (folder / "script.py").read_text()
    assert mended != before, str(fixing)
    again = command.run([*options, "script.py"], folder)
    assert again.status == 0, f"{mended}\n{again}\n{fixing}"
    snapshot = case.folder / "mended.py"
    if bless:
        snapshot.write_text(mended, encoding="utf-8")
    assert snapshot.exists(), f"no snapshot: pytest --bless -k '{case.id}' writes one\n{mended}"
    assert mended == snapshot.read_text(encoding="utf-8")


@each_case
def test_a_reading_is_noted_where_another_edit_was_possible(case: Case) -> None:
    """`mended.py` is what is written, `fixed.py` what was made by hand: where they differ, a reviewer says how."""
    mended = case.folder / "mended.py"
    if not mended.exists():
        assert not case.reading, "there is no edit to read"
        pytest.skip("no edit that helps is offered")
    texts = [path.read_text(encoding="utf-8") for path in (mended, case.folder / "fixed.py")]
    written, by_hand = (ast.dump(ast.parse(text)) for text in texts)
    assert bool(case.reading) == (written != by_hand)


BY_HAND = [c for c in CASES if c.reading or "mended" in c.known_gap or not (c.folder / "mended.py").exists()]
"""Where the mend by hand is another program than the one that is written, which test_mended_and_then_runs has run."""


@pytest.mark.parametrize("case", grouped(BY_HAND))
def test_mend_by_hand_runs(
    case: Case, command: Runner, real_cuda: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    expected_gap(request, case, "fixed")
    folder = copied(case, tmp_path / "run")
    shutil.copy(case.folder / "fixed.py", folder / "script.py")
    result = command.run([*device_options(case, real_cuda), "script.py"], folder)
    assert result.status == 0, str(result)


@each_near_miss
def test_near_miss_is_not_mistaken(near_miss: NearMiss, runs: Runs, request: pytest.FixtureRequest) -> None:
    expected_gap(request, near_miss, "explained")
    run = runs.explained(near_miss)
    names = [(e["cause"] or {}).get("name") for e in run.explanations]
    assert near_miss.near not in names, report_of(run.result.stderr)
    if near_miss.causes:
        assert len(names) == 1 and names[0] in near_miss.causes, str(run.result)
    elif near_miss.ends != "error":
        assert not names and not report_of(run.result.stderr), str(run.result)
    if near_miss.ends == "ok":
        assert run.result.status == 0, str(run.result)
    else:
        assert run.result.status == 1, str(run.result)
    if near_miss.ends not in ("ok", "error"):
        assert f"\n{near_miss.ends}: " in last_traceback(run.result.stderr), str(run.result)


@pytest.mark.parametrize("case", grouped(SAMPLE))
def test_forked_run_shows_what_a_real_process_shows(
    case: Case, runs: Runs, real_cuda: bool, tmp_path: Path
) -> None:
    folder = copied(case, tmp_path / "run")
    real = run_process([*device_options(case, real_cuda), "--json", "out.json", "script.py"], folder)
    forked = runs.explained(case)
    assert real.status == forked.result.status
    assert report_of(real.stderr) == report_of(forked.result.stderr)
    told = json.loads((folder / "out.json").read_text())["explanations"]
    assert [without_folders(one) for one in told] == [without_folders(one) for one in forked.explanations]


def without_folders(explanation: dict[str, Any]) -> str:
    """An explanation as text. A message may quote a traceback: its folders differ by run, and the frames of
    TorchScript's reach down to the program that runs the script."""
    message = re.sub(
        r"^(?:/\S+\.py|<frozen \w+>)\(\d+\): .*\n", "", explanation["error"]["message"], flags=re.MULTILINE
    )
    told = explanation | {"error": explanation["error"] | {"message": message}}
    return re.sub(r'File \\"[^"]*/(?=script\.py)', 'File \\"', json.dumps(told))


@pytest.mark.parametrize("case", grouped(SAMPLE[::3]))
def test_forked_mending_does_what_a_real_process_does(
    case: Case, command: Runner, real_cuda: bool, tmp_path: Path
) -> None:
    words = [*device_options(case, real_cuda), "--fix", "--unsafe-fixes", "script.py"]
    folders = [copied(case, tmp_path / name / "run") for name in ("real", "forked")]
    real, forked = run_process(words, folders[0]), command.run(words, folders[1])
    assert (real.status, report_of(real.stderr)) == (forked.status, report_of(forked.stderr))
    assert (folders[0] / "script.py").read_text() == (folders[1] / "script.py").read_text()


def test_the_tests_of_a_fixture_share_a_process() -> None:
    for case in [*CASES, *NEAR_MISSES]:
        assert group_of(f"tests/test_fixtures.py::test_every_claim_holds[{case.id}]") == case.id
    assert group_of("tests/test_hooks.py::test_a[b]") == "tests/test_hooks.py::test_a[b]"


def test_every_fixture_is_whole() -> None:
    for case in CASES:
        assert case.cause == case.folder.parent.name, case.id
        assert (case.folder / "script.py").exists() and (case.folder / "fixed.py").exists(), case.id
    strays = [d for d in ROOT.glob("*/*") if d.is_dir() and not (d / "case.json").exists()]
    assert not strays
    assert len({case.folder.name for case in CASES}) == len(CASES), "two fixtures of one name"


def test_readme_shows_what_is_printed(runs: Runs, bless: bool, real_cuda: bool) -> None:
    if real_cuda:
        pytest.skip("the example is of the simulated run")
    (case,) = [case for case in CASES if case.id == "to-result-discarded/train_loop_bare_to"]
    readme = ROOT.parent / "README.md"
    head, fence, rest = readme.read_text(encoding="utf-8").partition("```text\n")
    shown, end, rest = rest.partition("```\n")
    assert fence and end
    printed = report_of(runs.explained(case).result.stderr)
    if bless:
        readme.write_text(f"{head}{fence}{printed}{end}{rest}", encoding="utf-8")
    else:
        assert shown == printed
