"""The table of PyTorch's operators on a device: a compact file, how it is read, and how it is compared.

A line of JSON an op: {"op", "rows": [[sample, argument, side, raises, message, devices], ...], "messages",
"died"}. `argument` is the index of the displaced tensor, null for all on the GPU; `side` is where it was put;
`message` an index into `messages`; `devices` those of the results. `died` is null, or how the process ended
that ran the op. The first line says which machine it was: {"machine", "simulated", "recorded", "samples"}.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FIELDS = ("sample", "argument", "side", "raises", "message", "devices")
Row = dict[str, Any]


def packed(op: str, rows: Iterable[Row], died: str | None) -> str:
    """The line of an op."""
    messages: dict[str, int] = {}
    out = []
    for row in rows:
        index = messages.setdefault(row["message"], len(messages)) if row["message"] else None
        out.append([index if name == "message" else row[name] for name in FIELDS])
    line = {"op": op, "rows": out, "messages": list(messages), "died": died}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))


def read(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The header, and by op its line with the rows unpacked. A last line that was cut is left out."""
    header: dict[str, Any] = {}
    ops: dict[str, dict[str, Any]] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if "machine" in line:
            header = line
            continue
        rows = [dict(zip(FIELDS, row, strict=True)) for row in line["rows"]]
        for row in rows:
            row["message"] = "" if row["message"] is None else line["messages"][row["message"]]
        ops[line["op"]] = {"rows": rows, "died": line["died"]}
    return header, ops


# Errors that are not about devices and depend on the build: only that it raises is compared.
_DEVICE = re.compile(r"device|cuda|cpu", re.IGNORECASE)


def differences(record: Iterable[Row], now: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """The pairs whose outcome differs: raises or not, the words of a device error, the devices of the results."""
    mine = {(row["sample"], row["argument"], row["side"]): row for row in now}
    for its in record:
        own = mine.get((its["sample"], its["argument"], its["side"]))
        if own is not None and _outcome(its) != _outcome(own):
            yield its, own


def _outcome(row: Row) -> tuple[Any, ...]:
    if row["raises"] is None:
        return None, row["devices"]
    message = row["message"] if _DEVICE.search(row["message"]) else ""
    return "raises", message
