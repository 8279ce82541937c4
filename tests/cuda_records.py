"""The record of one fixture on a device: its format, how it is made from runs, and how it is compared.

`scripts/real_cuda.py` writes records, `test_cuda_records.py` holds the simulation to those that are checked
in. Standard library only: the machine with the GPU may have nothing else.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fixture_cases import Case, NearMiss, last_traceback, normal, raise_line
from runner import Result

SCHEMA = 1
Run = Callable[..., Result]
"""run(argv, folder, plain=False): `python -m whydevice ARGV`, or the script alone."""

_TEXT, _NUMBER, _WHOLE, _FLAG = (str,), (int, float), (int,), (bool,)
_NONE = (type(None),)
_ERROR = {
    "status": _WHOLE,
    "type": _TEXT + _NONE,
    "message": _TEXT + _NONE,
    "line": _WHOLE + _NONE,
    "seconds": _NUMBER,
}
_OPERAND = {"expression": _TEXT + _NONE, "role": _TEXT + _NONE, "device": _TEXT + _NONE, "culprit": _FLAG}
_FIX = {"title": _TEXT, "applicability": _TEXT, "diff": _TEXT}
FORMAT: dict[str, Any] = {
    "schema": _WHOLE,
    "fixture": _TEXT,
    "script": _TEXT,  # of its text: a record of another script is out of date
    "recorded": _TEXT,
    "simulated": _FLAG,
    "gpus": _WHOLE,
    "machine": {"python": _TEXT, "torch": _TEXT, "cuda": _TEXT + _NONE, "driver": _TEXT + _NONE, "gpu": _TEXT + _NONE},
    "plain": _ERROR,
    "explained": _ERROR | {
        "family": _TEXT + _NONE, "argument": _TEXT + _NONE, "op": _TEXT + _NONE, "cause": _TEXT + _NONE,
        "certainty": _TEXT + _NONE, "culprit": _TEXT + _NONE, "root": _WHOLE + _NONE, "operands": [_OPERAND],
        "fix": (_FIX, None),
    },
    "mended": ({"changed": _FLAG, "status": _WHOLE, "ran": _FLAG, "seconds": _NUMBER}, None),
}  # fmt: skip
"""Types by field. A pair with None: the object or null; a list: any number of its item."""


def problems(record: Any, form: Any = FORMAT, place: str = "record") -> list[str]:
    """What is wrong with the format of a record; empty when nothing is."""
    if isinstance(form, tuple) and len(form) == 2 and isinstance(form[0], dict):
        return [] if record is None else problems(record, form[0], place)
    if isinstance(form, dict):
        if not isinstance(record, dict):
            return [f"{place} is no object"]
        found = [f"{place} has no `{name}`" for name in form if name not in record]
        found += [f"{place} has an unknown `{name}`" for name in record if name not in form]
        for name in form.keys() & record.keys():
            found += problems(record[name], form[name], f"{place}.{name}")
        return found
    if isinstance(form, list):
        if not isinstance(record, list):
            return [f"{place} is no list"]
        return [p for i, item in enumerate(record) for p in problems(item, form[0], f"{place}[{i}]")]
    good = isinstance(record, form) and (not isinstance(record, bool) or bool in form)
    return [] if good else [f"{place} is {record!r}"]


def digest(case: Case | NearMiss) -> str:
    """Names the text of a fixture's script."""
    return hashlib.sha256((case.folder / "script.py").read_bytes()).hexdigest()[:16]


def copied(case: Case | NearMiss, folder: Path) -> Path:
    """The script and its libraries in a folder of their own, without the truth beside them."""
    keep_out = shutil.ignore_patterns("fixed.py", "mended.py", "report.txt", "*.json", "__pycache__")
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(case.folder, folder, ignore=keep_out))


def take(
    case: Case | NearMiss, run: Run, machine: dict[str, Any], simulated: bool, folder: Path
) -> dict[str, Any]:
    """Run one fixture plain, explained, and (when it fails) mended, and record what happened."""
    options = [f"--simulate-cuda={case.gpus}"] if simulated else []
    work = copied(case, folder)
    plain, seconds = _timed(run, [*options, "script.py"], work, plain=True)
    record: dict[str, Any] = {
        "schema": SCHEMA, "fixture": case.id, "script": digest(case), "simulated": simulated, "gpus": case.gpus,
        "recorded": datetime.date.today().isoformat(), "machine": machine, "plain": _ending(plain, seconds),
    }  # fmt: skip
    explained, seconds = _timed(run, [*options, "--json", "out.json", "script.py"], work)
    out = work / "out.json"
    told = json.loads(out.read_text(encoding="utf-8"))["explanations"] if out.exists() else []
    record["explained"] = _ending(explained, seconds) | _told(told[0] if told else {})
    record["mended"] = _mended(run, options, work) if isinstance(case, Case) else None
    return record


def _timed(run: Run, argv: list[str], folder: Path, **options: Any) -> tuple[Result, float]:
    begin = time.perf_counter()
    result = run(argv, folder, **options)
    return result, round(time.perf_counter() - begin, 2)


def _ending(result: Result, seconds: float) -> dict[str, Any]:
    """How a run ended. Of the message the first line, and of one that quotes a traceback the error which that ends
    in: the lines between differ from build to build."""
    text = last_traceback(result.stderr)
    said = [line for line in text.splitlines()[1:] if line and not line.startswith(" ")]
    kind, _, message = (said[0] if said else "").partition(": ")
    inner = [line for line in said[1:] if re.match(r"\w+(Error|Exception): ", line)]
    message = " ".join([message, *inner[-1:]])
    return {
        "status": result.status, "type": kind.rpartition(".")[2] or None, "message": message.strip() or None,
        "line": raise_line(result.stderr), "seconds": seconds,
    }  # fmt: skip


def _told(explanation: dict[str, Any]) -> dict[str, Any]:
    error, fixes = explanation.get("error") or {}, explanation.get("fixes") or []
    operands = [{name: item[name] for name in _OPERAND} for item in explanation.get("operands", [])]
    return {
        "family": error.get("family"), "argument": error.get("argument"), "op": error.get("op"),
        "cause": (explanation.get("cause") or {}).get("name"), "certainty": explanation.get("certainty"),
        "culprit": (explanation.get("culprit") or {}).get("expression"),
        "root": (explanation.get("root") or {}).get("line"), "operands": operands,
        "fix": {name: fixes[0][name] for name in _FIX} if fixes else None,
    }  # fmt: skip


def _mended(run: Run, options: list[str], work: Path) -> dict[str, Any]:
    """On a real device `--fix` writes one round of edits; the script is run, and mended, until nothing changes."""
    begin = time.perf_counter()
    first = (work / "script.py").read_text(encoding="utf-8")
    for _ in range(8):
        before = (work / "script.py").read_text(encoding="utf-8")
        run([*options, "--fix", "--unsafe-fixes", "script.py"], work)
        if (work / "script.py").read_text(encoding="utf-8") == before:
            break
    result = run([*options, "script.py"], work, plain=True)
    return {
        "changed": (work / "script.py").read_text(encoding="utf-8") != first, "status": result.status,
        "ran": result.status == 0, "seconds": round(time.perf_counter() - begin, 2),
    }  # fmt: skip


_COMPARED = {
    "plain": ("status", "type", "message", "line"),
    "explained": ("status", "family", "argument", "op", "cause", "culprit", "root", "fix"),
    "mended": ("changed", "ran"),
}


def differences(record: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Where a run differs from the record of a device: the raise, its argument, the culprit, the fix."""
    found = []
    for part, names in _COMPARED.items():
        mine, its = now[part] or {}, record[part] or {}
        for name in names:
            if _comparable(name, its.get(name)) != _comparable(name, mine.get(name)):
                found.append(f"{part}.{name}: the device {its.get(name)!r}, now {mine.get(name)!r}")
    return found


def _comparable(name: str, value: Any) -> Any:
    if name == "culprit" and value is not None:
        return normal(value)
    return (value or {}).get("diff") if name == "fix" else value


def machine() -> dict[str, Any]:
    """Versions and the GPU, as torch and the driver tell them."""
    import subprocess

    import torch

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    driver = None
    if gpu is not None and (smi := shutil.which("nvidia-smi")):
        asked = [smi, "--query-gpu=driver_version", "--format=csv,noheader"]
        answer = subprocess.run(asked, capture_output=True, text=True).stdout.split()
        driver = answer[0] if answer else None
    return {
        "python": ".".join(map(str, sys.version_info[:3])), "torch": torch.__version__,
        "cuda": torch.version.cuda, "driver": driver, "gpu": gpu,
    }  # fmt: skip
