"""Random programs with one planted device mistake: the explanation names it, or says that it is not sure.

The usual run takes a sample; `--programs N` (or WHYDEVICE_PROGRAMS=N) takes the programs 0 to N-1, as the nightly
run does with 1000. `-k "[17]"` runs the one of seed 17, and its text is printed with the failure.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import claims
import programs
from whydevice.types import Explanation

SAMPLE = 40
"""Programs in the usual run."""
SURE = 0.6
"""The share that has to be explained as `certain`: unsure of everything would be no answer either."""

seen: list[Explanation] = []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--programs") or SAMPLE))


@pytest.fixture(scope="module", autouse=True)
def simulated() -> Iterator[None]:
    import whydevice

    with whydevice.simulate_cuda():
        yield


def explained(source: str, path: Path) -> tuple[BaseException | None, Explanation | None]:
    """How a program fails, if it does, and the explanation of that."""
    path.write_text(source)
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path), "print": lambda *_: None}
    names["__module__"] = "__main__"
    module = type(sys)("program")
    module.__dict__.update(names)
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except Exception as exc:
        # Not guard.explain, which turns a failure of ours into one line: here it is a failed test.
        from whydevice import guard

        return exc, guard._pipeline(exc)
    return None, None


def normal(expression: str) -> str:
    return ast.unparse(ast.parse(expression, mode="eval"))


def test_program_is_explained(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    planted = programs.program(seed)
    exc, said = explained(planted.source, tmp_path / "program.py")
    about = f"seed {seed}: {' '.join(planted.plan)}\n{planted.source}\n{exc!r}\n{said}"
    assert exc is not None and said is not None, about
    seen.append(said)
    assert claims.broken(exc, said) == [], about
    if said.certainty == "possible":
        return
    assert said.culprit is not None and normal(said.culprit.expression) in planted.culprit, about
    if said.certainty == "certain":
        assert said.root is not None and said.root.line in planted.way, about
        _mended(said, tmp_path, about)


def _mended(said: Explanation, folder: Path, about: str) -> None:
    """Where the explanation is certain, the edits of its fix let the program run to its end."""
    from whydevice import edits

    (fix,) = said.fixes[:1] or [None]
    if fix is None or not fix.edits:
        return
    (text,) = edits.plan(fix.edits).values()
    exc, _ = explained(text, folder / "mended.py")
    assert exc is None, f"{about}\nthe mended program fails with {exc!r}\n{text}"


def test_most_are_certain(request: pytest.FixtureRequest) -> None:
    if len(seen) < SAMPLE:
        pytest.skip("the programs ran elsewhere")
    certain = sum(each.certainty == "certain" for each in seen)
    assert certain / len(seen) >= SURE, f"{certain} of {len(seen)}"
