"""The fixtures as data: what a folder under fixtures/ says about itself, and how a run of it is read."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1] / "fixtures"
GAPS = ("raises", "explained", "mended", "fixed")


@dataclass(frozen=True)
class Case:
    """One failing script and the truth about it, as `case.json` has it.

    `reading` is what a reviewer says of the edit that is written where it is not the one made by hand.
    `also_true` are further causes that a reader would accept as the truth. `known_gap` says, by check, why
    the product is not right on this fixture yet. `occasion` is what a note says of the branch that this run took;
    empty where no note may speak of one, None where the fixture does not ask.
    """

    folder: Path
    cause: str
    also_true: tuple[str, ...]
    line: int
    message: str
    culprit: tuple[str, ...]
    root_lines: tuple[int, ...]
    gpus: int
    known_gap: dict[str, str] = field(default_factory=dict)
    reading: str = ""
    occasion: str | None = None

    @property
    def id(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"


@dataclass(frozen=True)
class NearMiss:
    """A script that looks like the cause `near`, and is not.

    It ends `ok`, with an exception of the type `ends`, or (`error`) with a device error of one of
    `causes`; with any or none where that is empty.
    """

    folder: Path
    near: str
    ends: str
    causes: tuple[str, ...]
    gpus: int
    known_gap: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"near-miss/{self.folder.name}"


def _read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text())
    unknown = set(data.get("known_gap", {})) - set(GAPS)
    assert not unknown, f"{path}: known_gap names {unknown}, the checks are {GAPS}"
    return data


def cases() -> list[Case]:
    """All failing scripts, in the order of their names."""
    found = []
    for path in sorted(ROOT.glob("*/*/case.json")):
        if path.parent.parent.name == "near-miss":
            continue
        data = _read(path)
        found.append(
            Case(
                folder=path.parent,
                cause=data["cause"],
                also_true=tuple(data.get("also_true", ())),
                line=data["raises"]["line"],
                message=data["raises"]["message_contains"],
                culprit=tuple(data["culprit"]),
                root_lines=tuple(data["root_lines"]),
                gpus=data["gpus"],
                known_gap=data.get("known_gap", {}),
                reading=data.get("reading", ""),
                occasion=data.get("occasion"),
            )
        )
    return found


def near_misses() -> list[NearMiss]:
    """All scripts that must not be mistaken for the cause they resemble."""
    found = []
    for path in sorted(ROOT.glob("near-miss/*/case.json")):
        data = _read(path)
        causes = [data["cause"], *data.get("also_true", ())] if "cause" in data else []
        gap = data.get("known_gap", {})
        found.append(NearMiss(path.parent, data["near"], data["ends"], tuple(causes), data["gpus"], gap))
    return found


def normal(expression: str) -> str:
    """The expression as `ast` would write it, so that spacing and quotes do not count."""
    try:
        return ast.unparse(ast.parse(expression.strip(), mode="eval"))
    except SyntaxError:
        return expression.strip()


_RANK = re.compile(r"^\[rank\d+\]: ?", re.MULTILINE)
"""What init_process_group's hook puts before every line of an uncaught error."""


def report_of(stderr: str) -> str:
    """What whydevice printed: from the headline to the end."""
    stderr = _RANK.sub("", stderr)
    found = re.search(r"^whydevice: ", stderr, re.MULTILINE)
    return stderr[found.start() :].rstrip("\n") + "\n" if found else ""


def last_traceback(stderr: str) -> str:
    """The last traceback that the interpreter printed, with its message; empty when it printed none."""
    stderr = _RANK.sub("", stderr)
    found = re.search(r"^whydevice: ", stderr, re.MULTILINE)
    text = stderr[: found.start()] if found else stderr
    head = "Traceback (most recent call last):\n"
    starts = [m.start() for m in re.finditer("^" + re.escape(head), text, re.MULTILINE)]
    return text[starts[-1] :] if starts else ""


def raise_line(stderr: str, script: str = "script.py") -> int | None:
    """The line of the innermost frame of `script` in the last traceback.

    Only the interpreter's own frames count, not those that a message quotes from another process.
    """
    line = None
    for text in last_traceback(stderr).splitlines()[1:]:
        if not text.startswith(" "):
            break
        found = re.match(rf'  File ".*?{re.escape(script)}", line (\d+)', text)
        if found:
            line = int(found[1])
    return line
