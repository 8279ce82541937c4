"""An Explanation as the entry of the JSON contract (DESIGN.md, section 2), and `--json`'s document."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from ..types import Also, Culprit, Explanation, Fix, Operand, Place
from .paths import relative
from .places import source_line

SCHEMA = 1
TO_APPLY = (
    "replace each edit's range by its text, the last of a file first (lines from 1, columns from 0 in characters); "
    "or feed the diff to git apply"
)
_MOST_SOURCE = 2_000  # characters of a line: generated ones can have megabytes


def to_dict(explanation: Explanation) -> dict[str, Any]:
    """The contract's entry; `headline`, `notes`, `error.envelope` and
    `fixes[].to_apply` are extensions. Null where nothing is
    known.
    """
    error, environment, cause = explanation.error, explanation.environment, explanation.cause
    sources = explanation.sources
    return {
        "error": {
            "type": error.type,
            "message": error.message,
            "family": error.family,
            "devices": list(error.devices) or None,
            "argument": error.argument,
            "op": error.op,
            "envelope": error.envelope,
        },
        "certainty": explanation.certainty,
        "headline": explanation.headline,
        "cause": cause and {"name": cause.name, "title": cause.title, "page": cause.page},
        "culprit": explanation.culprit and _expression(explanation.culprit),
        "root": explanation.root and _place(explanation.root, sources),
        "trail": [_place(place, sources) | {"note": place.note} for place in explanation.trail],
        "operands": [_operand(operand) for operand in explanation.operands],
        "also": [_expression(also) for also in explanation.also],
        "fixes": [_fix(fix) for fix in explanation.fixes],
        "notes": list(explanation.notes),
        "environment": {
            "python": environment.python,
            "torch": environment.torch,
            "simulated": environment.simulated,
            "rank": environment.rank,
        },
    }


def as_dict(explanations: Iterable[Explanation]) -> dict[str, Any]:
    """What `--json` writes, as data."""
    return {"schema": SCHEMA, "explanations": [to_dict(one) for one in explanations]}


def document(explanations: Iterable[Explanation]) -> str:
    """What `--json` writes, as ASCII text: a name may hold what no encoding can write."""
    return json.dumps(as_dict(explanations), indent=1)


def _expression(one: Culprit | Also) -> dict[str, Any]:
    return {
        "expression": one.expression,
        "device": one.device,
        "wanted": one.wanted,
        "file": _path(one.file),
        "line": one.line,
    }


def _place(place: Place, sources: Mapping[str, str]) -> dict[str, Any]:
    source = (place.source or source_line(place, sources))[:_MOST_SOURCE]
    return {"file": _path(place.file), "line": place.line, "source": source}


def _operand(operand: Operand) -> dict[str, Any]:
    return {
        "expression": operand.expression,
        "role": operand.role,
        "kind": operand.kind,
        "device": operand.device,
        "dtype": operand.dtype,
        "shape": None if operand.shape is None else list(operand.shape),
        "file": _path(operand.file),
        "line": operand.line,
        "culprit": operand.culprit,
        "what": operand.what,
        "inferred": operand.inferred,
    }


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "title": fix.title,
        "applicability": fix.applicability,
        "edits": [
            {
                "file": relative(edit.file),
                "line": edit.line,
                "column": edit.column,
                "end_line": edit.end_line,
                "end_column": edit.end_column,
                "text": edit.text,
            }
            for edit in fix.edits
        ],
        "to_apply": TO_APPLY if fix.edits else None,
        "diff": fix.diff,
        "verified": fix.verified,
        "reason": fix.reason,
    }


def _path(file: str | None) -> str | None:
    return None if file is None else relative(file)


def write(path: str, explanations: Iterable[Explanation]) -> None:
    """Write `--json`'s document whole or not at all: ranks write one file, and a launcher may end one in the middle of
    it. Raises OSError.
    """
    text = document(explanations) + "\n"
    if os.path.exists(path) and not os.path.isfile(path):
        _write_text(path, text)  # a pipe, a terminal
        return
    real = os.path.realpath(path)
    beside = os.path.join(os.path.dirname(real), f".{os.path.basename(real)}.{os.getpid()}")
    try:
        _write_text(beside, text)
        if os.path.exists(real):
            os.chmod(beside, os.stat(real).st_mode & 0o7777)
        os.replace(beside, real)
    except OSError:
        _write_text(path, text)  # a file in a folder that takes no other one
    finally:
        if os.path.exists(beside):
            os.unlink(beside)


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
