"""The wall between the steps: a package imports only from those that come before it (DESIGN.md, section 3)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes import HANGS

SRC = Path(__file__).resolve().parents[1] / "src"
FILES = sorted((SRC / "whydevice").rglob("*.py"))

MAY = {
    "source": {"types", "patterns"},
    "types": {"render"},  # the methods of Explanation print it; the import waits for the call
    "messages": {"types", "patterns"},
    "evidence": {"types", "patterns", "messages", "source", "catch"},
    "edits": {"types", "patterns", "source"},
    "causes": {"types", "patterns", "messages", "evidence", "edits", "source"},
    "certainty": {"types", "causes", "evidence"},
    "propose": {"types", "causes", "edits", "evidence", "source", "verify"},
    "compose": {"types", "catch", "causes", "evidence", "edits", "source", "propose"},
    "following": {"types", "causes", "evidence"},
    "occasion": {"types", "causes", "certainty", "evidence"},
    "explain": {
        "types",
        "messages",
        "evidence",
        "causes",
        "edits",
        "certainty",
        "compose",
        "following",
        "occasion",
        "source",
        "catch",
    },
    "render": {"types"},
    "simulate": set(),
    "guard": {"types", "catch", "explain", "render"},
}
"""What each step may import. The others (the hooks, the command line, the writing of fixes) hold the steps together."""
NO_TORCH = (
    "source",
    "types",
    "messages",
    "edits",
    "causes",
    "certainty",
    "compose",
    "following",
    "occasion",
    "render",
    "guard",
    "catch",
    "cli",
)


def step_of(path: Path) -> str:
    return path.relative_to(SRC / "whydevice").parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[str, int, bool]]:
    """(module, line, whether the import waits for a call) of each import of a file, `whydevice...` for our own."""
    package = ["whydevice", *path.relative_to(SRC / "whydevice").parts[:-1]]
    tree = ast.parse(path.read_text())
    waiting = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield name, node.lineno, id(node) in waiting


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_nothing_from_its_right(path: Path) -> None:
    step = step_of(path)
    if step not in MAY:
        pytest.skip("not one of the steps")
    ours = [(n.split(".")[1], line) for n, line, _ in imported(path) if n.startswith("whydevice.")]
    known = {step_of(each) for each in FILES}
    wrong = [(name, line) for name, line in ours if name in known and name not in MAY[step] | {step}]
    assert not wrong, f"{path}: {step} imports {wrong}"


@pytest.mark.parametrize("path", [p for p in FILES if step_of(p) in NO_TORCH], ids=lambda p: p.stem)
def test_torch_waits_until_there_is_an_error(path: Path) -> None:
    early = [(n, line) for n, line, waits in imported(path) if n.split(".")[0] == "torch" and not waits]
    assert not early


def test_every_step_is_there() -> None:
    assert set(MAY) <= {step_of(path) for path in FILES}


@pytest.mark.parametrize("name", ["whydevice", *sorted(f"whydevice.{p.parent.name}.{p.stem}" for p in FILES if p.parent.name == "render" and p.stem != "__init__")])  # fmt: skip
def test_loads_neither_torch_nor_rich(name: str) -> None:
    heavy = "[n for n in ('torch', 'rich', 'stack_data', 'numpy') if n in sys.modules]"
    code = f"import sys; sys.path.insert(0, {str(SRC)!r}); import {name}; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANGS)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_loads_nothing_of_the_standard_library_that_takes_time() -> None:
    code = (
        f"import os, sys; sys.path.insert(0, {str(SRC)!r}); before = set(sys.modules); import whydevice;"
        "print([n for n in sorted(set(sys.modules) - before) if not n.startswith('whydevice')])"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=HANGS)
    loaded = set(ast.literal_eval(done.stdout))
    # Built into the interpreter, but for the first, which takes a fifth of a millisecond.
    assert loaded <= {"__future__", "atexit", "itertools"}, done.stderr
