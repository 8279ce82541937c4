"""Anything at all as messages, sources, containers and frames: no crash, and no claim that is false.

2 000 examples here; WHYDEVICE_NIGHTLY=1 takes fifty times as many (and looks for new ones).
"""

from __future__ import annotations

import linecache
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from whydevice import guard
from whydevice.evidence.passive import shown_key
from whydevice.explain import explain
from whydevice.source import EditError, ScopeNode, Source
from whydevice.source.parsed import LONG

sys.path.insert(0, str(Path(__file__).with_name("fuzz")))

from targets import CORPUS, TARGETS, edit_source, read_message

NIGHTLY = bool(os.environ.get("WHYDEVICE_NIGHTLY"))
INPUTS = sorted(CORPUS.glob("*/*.bin"))


def some(examples: int) -> Any:
    """This many examples; a hundred thousand in all by night."""
    return settings(
        max_examples=examples * (50 if NIGHTLY else 1),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )


@pytest.mark.parametrize("path", INPUTS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_the_corpus_of_the_fuzzer(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


def test_the_corpus_stays_small() -> None:
    assert {path.parent.name for path in INPUTS} == set(TARGETS)
    assert sum(path.stat().st_size for path in INPUTS) < 100_000


# -- messages ------------------------------------------------------------------------------------------------------

SEEDS = [p.read_bytes() for p in INPUTS if p.parent.name == "messages"]
PIECES = st.sampled_from(
    ["cuda:0", "cpu", "cuda:17", "meta", "mat1", "argument", "(when checking", " in method wrapper_CUDA_addmm)", "\n",
     "Expected all tensors to be on the same device", "but found at least two devices, ", " and ", "!", "torch.cuda.FloatTensor",
     "Original Traceback", 'File "a.py", line 3, in f', "RuntimeError: ", "device", "Input type (", ")", "'", "99999999999999999999"]
)  # fmt: skip


@st.composite
def message(draw: Any) -> bytes:
    """A real message with pieces cut out, doubled, put in and exchanged."""
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(0, 4))):
        a = draw(st.integers(0, len(data)))
        b = draw(st.integers(a, min(len(data), a + 60)))
        filling = draw(st.one_of(PIECES.map(str.encode), st.binary(max_size=8), st.just(data[a:b] * 2)))
        data = data[:a] + filling + data[b:]
    return data


@some(1400)
@given(st.one_of(message(), st.text(max_size=80).map(lambda t: b"\x00" + t.encode("utf-8", "replace"))))
def test_messages(data: bytes) -> None:
    read_message(data)


# -- sources -------------------------------------------------------------------------------------------------------

LINES = st.sampled_from(
    ["x = y", "    x = y", "\tx = (y", "def f(a, b=1):", "class A:", "    def g(self):", "        return self.x", "@d", ")",
     "for a, b in z:", "if x:", "else:", "'''", '"""', "\\", "", "# c", "x = [\n", "]", "é = '😀'", "\x0c", "\r", "lambda: (yield)",
     "with a as b, c:", "x: int = 3", "async def h(): await x", "match x:", "    case 1: pass", "print(f'{x!r}')", "\ufeff", "\x00"]
)  # fmt: skip


@some(350)
@given(st.lists(LINES, max_size=30), st.integers(0, 255), st.integers(0, 255))
def test_sources(lines: list[str], which: int, at: int) -> None:
    text = "\n".join(lines)
    edit_source(bytes([which, at, 0 if at % 8 == 0 else 1]) + text.encode())
    try:
        source = Source.from_text("<fuzz>", text)
        tree = source.tree
    except EditError:
        return
    for number in range(0, len(lines) + 2):
        source.line(number)
        source.function_at(number, "f")
        found = source.statement_at(tree, number)
        if found is not None and not isinstance(found, ScopeNode):
            assert source.node_at(
                tree, found.lineno, found.end_lineno or 0, found.col_offset, found.end_col_offset or 0
            )
            assert source.one_line(found)


# -- containers ----------------------------------------------------------------------------------------------------


class Holder:
    """An object with attributes."""

    def __init__(self, value: object) -> None:
        self.value = value
        self.again = self


def devices() -> Any:
    return st.sampled_from(["cpu", "meta"])


def tensors() -> Any:
    shapes = st.sampled_from([(), (3,), (2, 3), (1, 3)])
    return st.builds(lambda device, shape: torch.empty(shape, device=device), devices(), shapes)


KEYS = st.one_of(
    st.sampled_from(["x", "y", "input ids", "a.b", "é", "'", "device"]),
    st.integers(-2, 5),
    st.none(),
    st.booleans(),
)
VALUES = st.recursive(
    st.one_of(
        tensors(), st.none(), st.integers(), st.text(max_size=5), st.just(torch.nn.Linear(3, 3)), st.just(int)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        inner.map(Holder),
        st.lists(inner, max_size=2).map(lambda v: [*v, v]),  # cyclic
    ),
    max_leaves=12,
)
PROGRAM = """\
import torch

def pick(things, wanted):
    found = things{way}
    return found

def step(data, extra, **named):
    x = pick(data, extra)
    y = torch.ones(3, device={device!r})
    {line}

step({data}, extra, more=extra)
"""
OPERATIONS = st.sampled_from(
    ["return x + y", "return torch.cat([x, y])", "return y.mul_(x)", "total = y - x * 2\n    return total",
     "return torch.stack([y, x])", "return [y @ v for v in (x, x)]", "y[:] = x + y\n    return y"]
)  # fmt: skip


@some(150)
@given(VALUES, devices(), OPERATIONS, st.sampled_from(["[0]", "['k']", ".value", "[0]['k']", "[0].value"]))
@example([1], "meta", "return x + y", "[0]")
def test_containers(extra: object, device: str, line: str, way: str) -> None:
    tensor = torch.ones(3, device="meta" if device == "cpu" else "cpu")
    data: Any = tensor
    for part in reversed(way.replace("]", "] ").replace(".value", " .value ").split()):
        data = (
            [data, extra]
            if part == "[0]"
            else {"k": data, "other": extra}
            if part == "['k']"
            else Holder(data)
        )
    text = PROGRAM.format(way=way, device=device, line=line, data="data")
    exc, _ = failing(text, {"data": data, "extra": extra})
    if exc is None:
        return
    found = explain(exc)
    assert found is not None
    str(found), found.to_dict(), found._repr_html_()
    check_claims(found, exc)


def failing(text: str, given_names: dict[str, Any]) -> tuple[BaseException | None, dict[str, Any]]:
    path = f"<fuzz {hash(text)}>"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    space: dict[str, Any] = {"__name__": "program", **given_names}
    try:
        exec(compile(text, path, "exec"), space)
    except RuntimeError as exc:
        return (exc if guard.suspect(exc) else None), space
    except (TypeError, IndexError, KeyError, AttributeError, NotImplementedError):
        return None, space
    return None, space


def check_claims(found: Any, exc: BaseException) -> None:
    """What is said of an expression of the failing frame is so: evaluated there, it has that device and shape."""
    trace = exc.__traceback__
    frames = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    own = next(f for f in reversed(frames) if f.f_code.co_filename.startswith("<fuzz"))
    claims = [(o.expression, o.device, o.shape) for o in found.operands if not o.inferred]
    if found.culprit is not None:
        claims.append((found.culprit.expression, found.culprit.device, None))
    for expression, device, shape in claims:
        try:
            value = eval(expression, own.f_globals, dict(own.f_locals))
        except Exception:
            continue
        if isinstance(value, torch.Tensor):
            assert str(value.device) == device, (expression, device)
            assert shape is None or tuple(value.shape) == shape, (expression, shape)


# -- frames --------------------------------------------------------------------------------------------------------

CHANGES = st.lists(
    st.tuples(st.integers(0, 14), st.one_of(st.none(), LINES, st.text(max_size=20))), max_size=6
)


@some(100)
@given(CHANGES, st.integers(0, 40), st.booleans(), OPERATIONS, st.sampled_from(["", "file", "function"]))
def test_frames_whose_source_is_another_by_now(
    changes: list[tuple[int, str | None]], depth: int, lost: bool, line: str, long: str
) -> None:
    """A file that was edited, cut short or deleted since it was loaded, under a stack of any depth; also a long
    file, and a long function."""
    text = PROGRAM.format(way="[0]", device="meta", line=line, data="[torch.ones(3)]")
    text = text.replace("    found = things[0]\n", f"    found = deep(things, {depth})\n")
    text = "def deep(v, n):\n    return deep(v, n - 1) if n > 0 else v[0]\n\n" + text
    text = text.replace("    return found", f"    return found if {depth} % 3 else next(g for g in [found])")
    if long == "function":
        text = text.replace("    x = pick", "    extra.get(0)\n" * LONG + "    x = pick")
    before = {"": len(text), "file": 0, "function": text.count("\n", 0, text.find("    extra"))}[long]
    text = "\n" * (LONG if long == "file" else 0) + text
    exc, _ = failing(text, {"extra": {}})
    if exc is None:
        return
    trace = exc.__traceback__
    assert trace is not None and trace.tb_next is not None
    path = trace.tb_next.tb_frame.f_code.co_filename
    lines = text.splitlines(keepends=True)
    for number, new in changes:
        number += LONG if number >= before else 0
        if number < len(lines):
            lines[number : number + 1] = [] if new is None else [new + "\n"]
    if lost:
        linecache.cache.pop(path, None)
    else:
        linecache.cache[path] = (len(text), None, lines, path)
    found = explain(exc)
    assert found is not None
    shown = str(found)
    found.to_dict()
    check_claims(found, exc)
    if not lost and lines == text.splitlines(keepends=True):
        assert "has changed" not in shown and "cannot be read" not in shown, shown


@given(st.one_of(KEYS, st.text(), st.binary(), st.floats()))
@settings(max_examples=100, database=None)
def test_keys_never_show_more_than_a_name(key: object) -> None:
    shown = shown_key(key)
    assert shown == "[...]" or (shown.isascii() and shown.isprintable() and len(shown) <= 44)
