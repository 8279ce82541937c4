"""The command line's options, read by hand: they stop at the script; a mistake is one clear line."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Any

HELP = """\
usage: python -m whydevice [OPTIONS] SCRIPT [ARGS...]
       python -m whydevice [OPTIONS] -m MODULE [ARGS...]
       python -m whydevice --explain [NAME]

Run a Python script; when it ends in a PyTorch device mismatch, say which of its
variables is on the wrong device, where it came from, and which edit mends it.

  --simulate-cuda[=N]   run with N simulated GPUs (1 when not said), on the CPU
  --traffic             with --simulate-cuda: report the copies between devices
  --fix                 write the safe fixes into the files; when simulated, run
                        again until nothing is left
  --unsafe-fixes        with --fix or --diff: also the fixes marked unsafe
  --diff                print what --fix would write as a diff; change nothing
  --trace               note the line that made or last moved a tensor; slower
  --json FILE           write the explanations to FILE (-: standard output)
  --color WHEN          auto, always or never; heeds NO_COLOR and FORCE_COLOR
  --explain [NAME]      print the page of a cause; without NAME, list the causes
  --enable-site         explain errors in every script of this environment that
                        runs with WHYDEVICE=1
  --disable-site        undo --enable-site
  --version, --help

environment: WHYDEVICE=0 turns whydevice off, WHYDEVICE=everywhere also puts the
explanation on the exception as a note, WHYDEVICE_DEBUG=1 shows our failures.
The exit status is the script's; 2 when the command line makes no sense."""


class UsageError(Exception):
    """A command line that makes no sense; the text is the line to print."""


@dataclass(repr=False, eq=False, slots=True)
class Options:
    """What was asked for, in `folder`. `explain` is None when not asked, "" for the list."""

    simulate_cuda: int | None = None
    traffic: bool = False
    fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    trace: bool = False
    json: str | None = None
    color: str = "auto"
    explain: str | None = None
    enable_site: bool = False
    disable_site: bool = False
    version: bool = False
    help: bool = False
    outcome: str | None = None
    overlay: str | None = None
    module: str | None = None
    script: str | None = None
    args: list[str] = field(default_factory=list)
    folder: str = field(default_factory=os.getcwd)


_TAKES_VALUE = ("json", "color", "outcome", "overlay")
_MAY_TAKE_VALUE = ("simulate_cuda", "explain")
_POSITIONAL = ("module", "script", "args", "folder")
_HIDDEN = ("outcome", "overlay", *_POSITIONAL)


def parse(argv: list[str]) -> Options:
    """Read the arguments after the program's name. Raises UsageError."""
    options = Options()
    rest = list(argv)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "-":
            raise UsageError("cannot run a script from standard input: name a file")
        if word == "-m" or (word.startswith("-m") and not word.startswith("--")):
            options.module = word[2:] or _next(rest, "-m needs the name of a module")
            break
        if word == "-h":
            word = "--help"
        if word == "--":
            break
        name, equals, value = word.partition("=")
        _set(options, name, value if equals else None, rest)
    if options.module is None and rest:
        options.script = rest.pop(0)
    options.args = rest
    _check(options)
    return options


def for_ranks(options: Options) -> list[str]:
    """The options with which each rank is to run where a launcher was given as what to run."""
    words = [] if options.simulate_cuda is None else [f"--simulate-cuda={options.simulate_cuda}"]
    words += ["--traffic"] * options.traffic + ["--trace"] * options.trace + [f"--color={options.color}"]
    for name in ("json", "outcome", "overlay"):
        if (value := getattr(options, name)) is not None:
            words.append(f"--{name}={value}")
    return words


def _next(rest: list[str], complaint: str) -> str:
    if not rest:
        raise UsageError(complaint)
    return rest.pop(0)


def _set(options: Options, word: str, value: str | None, rest: list[str]) -> None:
    name = word.removeprefix("--").replace("-", "_")
    known = {f.name for f in fields(Options)} - set(_POSITIONAL)
    if not word.startswith("--") or "_" in word or name not in known:
        raise UsageError(f"unknown option {word}{_similar(name, known)}")
    result: Any = True
    if name in _TAKES_VALUE:
        result = value if value is not None else _next(rest, f"{word} needs a value")
    elif name == "simulate_cuda":
        result = _count(word, value)
    elif name == "explain":
        result = value if value is not None else (rest.pop(0) if rest else "")
        if rest:
            raise UsageError("--explain takes one name")
    elif value is not None:
        raise UsageError(f"{word} takes no value")
    setattr(options, name, result)


def _similar(name: str, known: set[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known - set(_HIDDEN), 1)
    return f" (did you mean --{near[0].replace('_', '-')}?)" if near else "; --help lists them"


def _count(word: str, value: str | None) -> int:
    if value is None:
        return 1
    if not (value.isascii() and value.isdigit() and 1 <= int(value) <= 64):
        raise UsageError(f"{word} takes a number of GPUs from 1 to 64, not {value!r}")
    return int(value)


def _check(options: Options) -> None:
    alone = options.explain is not None or options.enable_site or options.disable_site
    if options.help or options.version:
        return
    if options.color not in ("auto", "always", "never"):
        raise UsageError(f"--color takes auto, always or never, not {options.color!r}")
    if options.enable_site and options.disable_site:
        raise UsageError("--enable-site and --disable-site exclude each other")
    if alone:
        if options.script is not None or options.module is not None:
            raise UsageError("--explain, --enable-site and --disable-site run no script")
        return
    if options.traffic and options.simulate_cuda is None:
        raise UsageError("--traffic needs --simulate-cuda")
    if options.unsafe_fixes and not (options.fix or options.diff):
        raise UsageError("--unsafe-fixes needs --fix or --diff")
    if options.diff and options.json == "-":
        raise UsageError("--diff and --json - both write to standard output")
    if options.script is None and options.module is None:
        raise UsageError("no script given; --help says how to call it")
