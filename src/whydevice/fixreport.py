"""What `--fix` did, in the report's own voice, on stderr."""

from __future__ import annotations

import difflib
import os
import sys
import textwrap
from collections.abc import Callable
from typing import NamedTuple

from .options import Options
from .outcome import Outcome
from .source import Source
from .types import Edit, Explanation, Fix


class Step(NamedTuple):
    """A fix that was tried. `taken_back` says why it was undone, `refused` why it was not even written."""

    explanation: Explanation
    fix: Fix
    taken_back: str = ""
    refused: str = ""


def say(lines: list[str]) -> None:
    """Print lines after an empty one, the first with our name before it."""
    print("\nwhydevice: " + "\n".join(lines), file=sys.stderr, flush=True)


def nothing_admissible(explanation: Explanation) -> str:
    """Why no fix of an explanation may be written."""
    reasons = [fix.reason for fix in explanation.fixes if fix.applicability == "manual" and fix.reason]
    kinds = {fix.applicability for fix in explanation.fixes if fix.edits}
    if "unsafe" in kinds:
        return "nothing written: the fix is marked unsafe; --unsafe-fixes takes it too"
    if reasons:
        return f"nothing written: {reasons[0]}"
    return "nothing written: there is no fix for this that could be written"


def write_once(fix: Fix, folder: str) -> None:
    """After one run on a real device."""
    files = sorted({_short(edit.file, folder) for edit in fix.edits})
    say([f"wrote the fix into {', '.join(files)}; not verified: run the script again"])


def write_loop(options: Options, steps: list[Step], stopped: str, last: Outcome, diff: bytes) -> None:
    """The end of a `--fix` under simulation: what was done, what holds, and the whole diff.

    With `--diff` nothing was written, and the diff is left to standard output.
    """
    folder = options.folder
    kept = [step for step in steps if not step.taken_back and not step.refused]
    gpus = f"{options.simulate_cuda} simulated GPU" + "s" * (options.simulate_cuda != 1)
    done = "the diff has" if options.diff else "wrote"
    if not kept and diff:
        lines = [f"{done} a fix that is not verified"]  # the run that would have shown it was interrupted
    else:
        lines = [_headline(kept, gpus, last, done)]
    for number, step in enumerate(kept, 1):
        lines += _step(f"{number}.", step, folder)
    for step in steps:
        if step not in kept:
            lines += _step("-", step, folder)
    if stopped:
        lines += _wrapped(stopped)
    if kept:
        lines += ["", *_verdict(gpus, last)]
    say(lines)
    if diff and not options.diff:
        print("\n" + diff.decode("utf-8", "replace"), end="", file=sys.stderr, flush=True)


def _headline(kept: list[Step], gpus: str, last: Outcome, done: str) -> str:
    if not kept:
        return "nothing mended"
    count = f"{len(kept)} fix" + "es" * (len(kept) != 1)
    if last.status == 0 and not last.explanations:
        return f"{done} {count}, and the script passes with {gpus}"
    if last.explanations:
        return f"{done} {count}; a device error is left"
    return f"{done} {count}; no device error is left, but the script still fails"


def _step(mark: str, step: Step, folder: str) -> list[str]:
    cause = f"   [{step.explanation.cause.name}]" if step.explanation.cause else ""
    root = step.explanation.root
    place = f"{_short(root.file, folder)}:{root.line}: " if root else ""
    lines = ["", *_wrapped(f"{place}{step.explanation.headline}{cause}", f"{mark} ")]
    lines += _wrapped(f"fix ({step.fix.applicability}): {step.fix.title}", "   ")
    if step.refused:
        lines += _wrapped(f"not written: {step.refused}", "   ")
    if step.taken_back:
        lines += _wrapped(f"taken back: {step.taken_back}", "   ")
    return lines


def _verdict(gpus: str, last: Outcome) -> list[str]:
    if last.explanations:
        verified = f"verified: each fix by a run with {gpus} that got past the place it mends"
    elif last.failure is not None:
        verified = f"verified: with {gpus} the script gets past these places, up to its {last.failure.type}"
    elif last.status:
        verified = f"verified: with {gpus} the script gets past these places, up to its exit {last.status}"
    else:
        verified = f"verified: the script runs to its end with {gpus}"
    return [*_wrapped(verified), *_wrapped("not verified: the run on a real GPU")]


def _wrapped(text: str, mark: str = "") -> list[str]:
    start = "  " + mark
    return textwrap.wrap(
        text, 80, initial_indent=start, subsequent_indent=" " * len(start), break_long_words=False
    )


def _short(path: str, folder: str) -> str:
    relative = os.path.relpath(path, folder)
    return path if relative.startswith(os.pardir) else relative


def whole_diff(originals: dict[str, Source], folder: str, now: Callable[[str], str]) -> bytes:
    """Everything that changed since the first round, as one diff that `git apply` takes.

    `now` gives the present text of a file, and raises EditError where it cannot be had.
    """
    from .edits import EditError, diff_bytes

    edits: list[Edit] = []
    for path, source in originals.items():
        try:
            edits += _line_edits(path, source.text, now(path))
        except EditError:
            continue
    return diff_bytes(edits, folder, originals) if edits else b""


def _line_edits(path: str, old: str, new: str) -> list[Edit]:
    before, after = _lines(old), _lines(new)
    found = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            begin, end = _position(before, i1), _position(before, i2)
            found.append(Edit(path, *begin, *end, "".join(after[j1:j2])))
    return found


def _position(lines: list[str], index: int) -> tuple[int, int]:
    """Line and column of the start of a line, or of the end of a text without a last newline."""
    if index == len(lines) and lines and not lines[-1].endswith(("\n", "\r")):
        return index, len(lines[-1])
    return index + 1, 0


def _lines(text: str) -> list[str]:
    """Lines as Python's tokenizer ends them; `str.splitlines` would split at form feeds too."""
    import io

    return list(io.StringIO(text, newline=""))
