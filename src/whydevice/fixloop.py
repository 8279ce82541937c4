"""`--fix` and `--diff`: write an explanation's fix; under simulation, run again until nothing is left.

`--diff` goes the same way with texts that stand in for the files, which stay as they are.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import fixreport, outcome, signals
from .mending import Applied, admissible, broke, same_place
from .options import Options
from .outcome import Outcome

if TYPE_CHECKING:
    from .source import Source
    from .types import Explanation, Fix

ROUNDS = 10
"""Runs of the script at most, the first one included."""


@dataclass(repr=False, eq=False, slots=True)
class Loop:
    """A `--fix` under simulation: what the files were, what was tried, how each run ended."""

    options: Options
    folder: str
    originals: dict[str, Source] = field(default_factory=dict)
    overlay: dict[str, bytes] = field(default_factory=dict)
    steps: list[fixreport.Step] = field(default_factory=list)
    explained: list[Explanation] = field(default_factory=list)
    rounds: int = 0
    stopped: str = ""


def loop(options: Options) -> int:
    """Run, mend, run again. Returns 0 when the script passes in the end, else its status.

    With `--diff`, which leaves the script as it is, the status of its own run.
    """
    with signals.raised(), tempfile.TemporaryDirectory(prefix="whydevice-") as folder:
        return _loop(Loop(options, folder))
    raise AssertionError  # a signal has ended us


def _loop(state: Loop) -> int:
    options = state.options
    last = _round(state)
    first = last
    try:
        while last.explanations and not state.stopped and (after := _mend(state, last)) is not None:
            last = after
    except (KeyboardInterrupt, signals.Ended) as end:
        state.stopped = "interrupted: the last edit is not verified"
        ended = end if isinstance(end, signals.Ended) else None
    else:
        ended = None
    if last is not first and last.status != 0:
        _replay(state.folder, state.rounds)
    if state.steps or last.explanations:
        diff = fixreport.whole_diff(state.originals, options.folder, lambda path: _source(state, path).text)
        fixreport.write_loop(options, state.steps, state.stopped, last, diff)
        if options.diff:
            _print(diff)
    _write_json(state, last)
    if ended is not None:
        raise ended
    return first.status if options.diff else last.status


def _round(state: Loop) -> Outcome:
    """Run the script once. The first round's output is the script's own; later ones are kept aside."""
    state.rounds += 1
    path = os.path.join(state.folder, f"outcome-{state.rounds}")
    command = [sys.executable, *subprocess._args_from_interpreter_flags(), "-m", "whydevice"]  # type: ignore[attr-defined]
    command += _arguments(state, path)
    if state.rounds == 1:
        status, interrupted = signals.run(command)
        if interrupted:
            state.stopped = "interrupted"
    else:
        with open(_log(state.folder, state.rounds), "wb") as log:
            status, interrupted = signals.run(command, stdout=subprocess.DEVNULL, stderr=log)
        if interrupted:
            raise KeyboardInterrupt
    ended = outcome.read(path)
    ended.status = status if status >= 0 else 128 - status
    state.explained += ended.explanations
    return ended


def _arguments(state: Loop, path: str) -> list[str]:
    options = state.options
    color = options.color
    if color == "auto" and sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        color = "always"
    words = [f"--simulate-cuda={options.simulate_cuda}", f"--color={color}", f"--outcome={path}"]
    if state.overlay:
        words.append(f"--overlay={_overlay(state)}")
    words += ["--trace"] * options.trace + ["--traffic"] * options.traffic
    target = ["-m", options.module] if options.module is not None else ["--", str(options.script)]
    return [*words, *target, *options.args]


def _overlay(state: Loop) -> str:
    """The file that tells a run which texts stand in for which files."""
    path = os.path.join(state.folder, f"overlay-{state.rounds}")
    with open(path, "wb") as file:
        pickle.dump(state.overlay, file)
    return path


def _log(folder: str, number: int) -> str:
    return os.path.join(folder, f"stderr-{number}")


def _replay(folder: str, number: int) -> None:
    """Show what the last run said: the script does not pass, and this is why."""
    sys.stderr.flush()
    with open(_log(folder, number), "rb") as log:
        os.write(2, log.read())


def _mend(state: Loop, ended: Outcome) -> Outcome | None:
    """Write the first fix that helps, and how the script ended with it; None when there is none."""
    from .edits import EditError

    explanation = ended.explanations[0]
    fixes = admissible(explanation, unsafe=state.options.unsafe_fixes)
    if not fixes:
        state.stopped = fixreport.nothing_admissible(explanation)
        return None
    for fix in fixes:
        if state.rounds >= ROUNDS:
            state.stopped = f"stopped after {ROUNDS} runs"
            return None
        try:
            before = _write(state, fix)
        except EditError as error:
            state.steps.append(fixreport.Step(explanation, fix, refused=str(error)))
            continue
        after = _round(state)
        applied = Applied(fix, explanation)
        if same_place(applied, ended, after):
            trouble: str | None = "the same thing fails again at the same place"
        else:
            trouble = broke(applied, ended, after)
        state.steps.append(fixreport.Step(explanation, fix, taken_back=trouble or ""))
        if trouble is None:
            return after
        _restore(state, before)
    state.stopped = "no fix that is left helps"
    return None


def _source(state: Loop, path: str) -> Source:
    """A file as the next run will see it. Raises EditError when it cannot be read."""
    from .source import Source

    data = state.overlay.get(path)
    return Source.read(path) if data is None else Source.from_bytes(path, data)


def _write(state: Loop, fix: Fix) -> dict[str, Source]:
    """Write a fix. Returns what the files were. Raises EditError when it cannot be written."""
    from .edits import plan, write_files

    before = {edit.file: _source(state, edit.file) for edit in fix.edits}
    texts = plan(fix.edits, before)
    if state.options.diff:
        state.overlay |= {path: before[path].encode(text) for path, text in texts.items()}
    else:
        with signals.held():
            write_files(texts, before)
    state.originals = before | state.originals
    return before


def _restore(state: Loop, before: dict[str, Source]) -> None:
    from .edits import write_files

    if state.options.diff:
        state.overlay |= {path: source.encode(source.text) for path, source in before.items()}
    else:
        with signals.held():
            write_files({path: source.text for path, source in before.items()})


def _print(diff: bytes) -> None:
    """Print a diff on stdout as it is, in the encodings of its files."""
    sys.__stdout__.flush()  # type: ignore[union-attr]
    os.write(sys.__stdout__.fileno(), diff)  # type: ignore[union-attr]


def _write_json(state: Loop, last: Outcome) -> None:
    """Every explanation of every round, each fix marked by whether the run after it bore it out."""
    if state.options.json is None:
        return
    from .render.json import document, write

    verdicts = {id(step.fix): not step.taken_back for step in state.steps if not step.refused}
    marked = [
        e._replace(fixes=tuple(f._replace(verified=verdicts.get(id(f), f.verified)) for f in e.fixes))
        for e in state.explained
    ]
    if state.options.json == "-":
        print(document(marked), flush=True)
    else:
        with signals.held():
            write(state.options.json, marked)


def once(options: Options, found: list[Explanation]) -> None:
    """After one run: print the fix as a diff on stdout, or write it. Says on stderr what was done."""
    from .edits import EditError, Source, diff_bytes, plan, write_files

    if not found:
        return
    explanation = found[0]
    reasons = []
    for fix in admissible(explanation, unsafe=options.unsafe_fixes):
        try:
            sources = {edit.file: Source.read(edit.file) for edit in fix.edits}
            if options.diff:
                _print(diff_bytes(fix.edits, options.folder, sources))
            else:
                texts = plan(fix.edits, sources)
                with signals.held():
                    write_files(texts, sources)
                fixreport.write_once(fix, options.folder)
            return
        except EditError as error:
            reasons.append(str(error))
    fixreport.say([reasons[0] if reasons else fixreport.nothing_admissible(explanation)])
