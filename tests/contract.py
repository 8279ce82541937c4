"""The JSON of DESIGN.md, section 2, to the letter: what in a document is not as the contract has it."""

from __future__ import annotations

import os
from typing import Any

STR, INT, NULL = (str,), (int,), (type(None),)
CERTAINTIES = ("certain", "likely", "possible")
KINDS = ("tensor", "parameter", "buffer", "attribute", "module", "unknown")
APPLICABILITIES = ("safe", "unsafe", "manual")
EXPRESSION = {
    "expression": STR,
    "device": STR + NULL,
    "wanted": STR + NULL,
    "file": STR + NULL,
    "line": INT + NULL,
}
KEYS: dict[str, dict[str, tuple[type, ...]]] = {
    "error": {
        "type": STR, "message": STR, "family": STR, "devices": (list, *NULL), "argument": STR + NULL,
        "op": STR + NULL,
    },
    "cause": {"name": STR, "title": STR, "page": STR},
    "culprit": EXPRESSION,
    "root": {"file": STR, "line": INT, "source": STR},
    "trail": {"file": STR, "line": INT, "source": STR, "note": STR},
    "operands": {
        "expression": STR, "role": STR + NULL, "kind": STR, "device": STR + NULL, "dtype": STR + NULL,
        "shape": (list, *NULL), "file": STR + NULL, "line": INT + NULL, "culprit": (bool,),
    },
    "also": EXPRESSION | {"device": STR, "wanted": STR, "file": STR, "line": INT},
    "fixes": {
        "title": STR, "applicability": STR, "edits": (list,), "diff": STR, "verified": (bool, *NULL),
    },
    "environment": {"python": STR, "torch": STR, "simulated": (bool,), "rank": INT + NULL},
}  # fmt: skip
EDIT = {"file": STR, "line": INT, "column": INT, "end_line": INT, "end_column": INT, "text": STR}
MAY_BE_NULL = ("cause", "culprit", "root")
LISTS = ("trail", "operands", "also", "fixes")


def problems(document: Any, folder: str) -> list[str]:
    """What in a `--json` document breaks the contract; `folder` is the run's working directory."""
    if (
        type(document) is not dict
        or document.get("schema") != 1
        or set(document) != {"schema", "explanations"}
    ):
        return ["no {schema: 1, explanations: [...]}"]
    return [one for entry in document["explanations"] for one in _entry(entry, folder)]


def _entry(entry: dict[str, Any], folder: str) -> list[str]:
    found = [f"no {key}" for key in (*KEYS, "certainty") if key not in entry]
    if found:
        return found
    if entry["certainty"] not in CERTAINTIES:
        found.append(f"certainty {entry['certainty']}")
    for key, shape in KEYS.items():
        held = entry[key]
        if held is None and key in MAY_BE_NULL:
            continue
        if (key in LISTS) != isinstance(held, list):
            found.append(f"{key} is {held!r}")
            continue
        for each in held if key in LISTS else [held]:
            found += _shaped(key, each, shape, folder)
    if found:
        return found
    found += [f"kind {row['kind']}" for row in entry["operands"] if row["kind"] not in KINDS]
    for fix in entry["fixes"]:
        if fix["applicability"] not in APPLICABILITIES:
            found.append(f"applicability {fix['applicability']}")
        for edit in fix["edits"]:
            found += _shaped("edit", edit, EDIT, folder)
            if (edit["end_line"], edit["end_column"]) < (edit["line"], edit["column"]):
                found.append("an edit that ends before it begins")
        if bool(fix["edits"]) != bool(fix["diff"]):
            found.append("edits without a diff, or a diff without edits")
    if entry["cause"] is None and entry["fixes"]:
        found.append("a fix without a cause")
    return found


def _shaped(where: str, held: Any, shape: dict[str, tuple[type, ...]], folder: str) -> list[str]:
    found = [
        f"{where}.{key} is {held.get(key, 'missing')!r}"
        for key, types in shape.items()
        if key not in held or type(held[key]) not in types
    ]
    for key in ("line", "end_line"):
        if type(held.get(key)) is int and held[key] < 1:
            found.append(f"{where}.{key} is {held[key]}")
    for key in ("column", "end_column"):
        if type(held.get(key)) is int and held[key] < 0:
            found.append(f"{where}.{key} is {held[key]}")
    file = held.get("file")
    if isinstance(file, str) and os.path.isabs(file):
        if not os.path.relpath(os.path.realpath(file), os.path.realpath(folder)).startswith(os.pardir):
            found.append(f"{where}.file is absolute, though below the working directory: {file}")
    return found
