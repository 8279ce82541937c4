"""What a fuzzer calls with any bytes: the reader of messages, and the writer of edits. A broken promise raises.

`run.py` feeds these from atheris; tests/test_fuzz.py replays the corpus, and feeds them from hypothesis.
"""

from __future__ import annotations

import ast
import os
import tempfile
import warnings
from pathlib import Path

from whydevice import messages
from whydevice.edits import (
    EditError,
    Source,
    append_method,
    insert_after,
    insert_at_suite_start,
    plan,
    unified_diff,
    wrap_call,
    write_files,
)
from whydevice.types import Edit

KINDS = ("RuntimeError", "ValueError", "TypeError", "NotImplementedError", "AssertionError")


def read_message(data: bytes) -> None:
    """Any text is read without failing, and nothing is read out of it that it does not say."""
    text = data[1:].decode("utf-8", "surrogateescape" if data[:1] == b"\x01" else "replace")
    kind = KINDS[data[0] % len(KINDS)] if data else KINDS[0]
    found = messages.read(kind, text)
    messages.frames_in_text(text)
    if found is None:
        return
    assert found.type == kind
    for device in found.devices:
        # Not every wording names it: `numpy` stands for the CPU, `NVIDIA` and a bare index for CUDA.
        index = device.partition(":")[2]
        assert not index or index in text or index == "0", (device, text)
    if found.argument is not None:
        assert found.argument in text or found.argument.isidentifier(), (found.argument, text)
    for call in (messages.inner, messages.wanted_side, messages.argument_device, messages.versions):
        call(found)
    again = messages.read(kind, text)
    assert again == found, (again, found)


def edit_source(data: bytes) -> None:
    """Edits made anywhere in any source are refused, or leave a file that parses and whose other lines are the same."""
    if len(data) < 4:
        return
    which, at, how = data[0], data[1], data[2]
    raw = data[3:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            source = Source.from_bytes("script.py", raw)
            nodes = [n for n in ast.walk(source.tree) if isinstance(n, ast.expr | ast.stmt)]
        except (EditError, RecursionError, MemoryError):
            return
        if not nodes:
            return
        node = nodes[at % len(nodes)]
        try:
            made = _edits(source, node, which)
            if not made:
                return
            new = plan(made, sources={"script.py": source})["script.py"]
        except EditError:
            return
        except RecursionError:
            return
        ast.parse(new)
        _others_stay(source.text, new, made)
        diff = unified_diff(made, "/", sources={"script.py": source})
        assert diff.startswith("--- ") or new == source.text
        if how % 4 == 0:
            _written(raw, source, new)


def _edits(source: Source, node: ast.AST, which: int) -> tuple[Edit, ...]:
    if isinstance(node, ast.expr):
        if which % 2:
            return append_method(source, node, ".to(device)")
        return wrap_call(source, node, "f")
    if which % 2 and isinstance(node, ast.For | ast.While | ast.If | ast.With | ast.FunctionDef):
        return insert_at_suite_start(source, node, "x = x.to(device)")
    assert isinstance(node, ast.stmt)
    return insert_after(source, node, "x = x.to(device)")


def _others_stay(old: str, new: str, made: tuple[Edit, ...]) -> None:
    """The lines before the first edit and after the last are what they were."""
    first = min(edit.line for edit in made)
    before = old.split("\n")[: max(first - 2, 0)] if "\r" not in old and "\x0c" not in old else []
    assert new.split("\n")[: len(before)] == before


def _written(raw: bytes, source: Source, new: str) -> None:
    """What is written is what was planned, in the file's own encoding; a file that changed meanwhile is not touched."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "script.py")
        Path(path).write_bytes(raw)
        try:
            write_files({path: new}, {path: source})
        except EditError:
            assert Path(path).read_bytes() == raw
            return
        assert Source.read(path).text == new
        Path(path).write_bytes(raw + b"#")
        try:
            write_files({path: new}, {path: source})
        except EditError:
            assert Path(path).read_bytes() == raw + b"#"
        else:
            raise AssertionError("a changed file was written over")
        assert os.listdir(folder) == ["script.py"]


TARGETS = {"messages": read_message, "edits": edit_source}
CORPUS = Path(__file__).with_name("corpus")
