"""Properties of every edit over generated sources: the result parses, the rest stays.

WHYDEVICE_NIGHTLY=1 takes forty times as many sources.
"""

from __future__ import annotations

import ast
import os
import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from edit_sources import block, sources
from whydevice.edits import (
    EditError,
    Source,
    add_keyword,
    append_method,
    assign_result,
    attribute_to_buffer,
    delete_method_call,
    delete_statement,
    dict_to_moduledict,
    insert_after,
    insert_at_suite_start,
    insert_before,
    list_to_modulelist,
    move_statement,
    plan,
    rename_to_like,
    replace_node,
    unified_diff,
    wrap_call,
)
from whydevice.types import Edit

X = "x = x.to(d)"
TIMES = 40 if os.environ.get("WHYDEVICE_NIGHTLY") else 1

_BY_EXPRESSION = {
    "append": lambda s, n: append_method(s, n, ".to(d)"),
    "wrap": lambda s, n: wrap_call(s, n, "W"),
    "list": list_to_modulelist,
    "dict": dict_to_moduledict,
    "replace": lambda s, n: replace_node(s, n, "q"),
}
_BY_CALL = {
    "keyword": lambda s, n: add_keyword(s, n, "device", "d"),
    "uncall": delete_method_call,
    "like": rename_to_like,
}
_BY_STATEMENT = {
    "after": lambda s, n: insert_after(s, n, X),
    "before": lambda s, n: insert_before(s, n, X),
    "start": lambda s, n: insert_at_suite_start(s, n, X),
    "delete": delete_statement,
    "assign": assign_result,
    "buffer": attribute_to_buffer,
    "up": lambda s, n: _moved(s, n, -1),
    "down": lambda s, n: _moved(s, n, 1),
}


def _moved(source, node, by):
    for parent in ast.walk(source.tree):
        for suite in (getattr(parent, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(suite, list) and node in suite:
                goal = suite.index(node) + by
                if not 0 <= goal < len(suite):
                    return ()
                return move_statement(source, node, **{"before" if by < 0 else "after": suite[goal]})
    return ()


_ALL = _BY_EXPRESSION | _BY_CALL | _BY_STATEMENT


def _candidates(source, name):
    wanted = ast.expr if name in _BY_EXPRESSION else ast.Call if name in _BY_CALL else ast.stmt
    return [n for n in ast.walk(source.tree) if isinstance(n, wanted)]


def _attempt(source, name, node):
    """The edits and the new text, or None where the edit is refused: by its own check, never for not parsing."""
    try:
        edits = _ALL[name](source, node)
    except EditError as error:
        assert "does not parse" not in str(error)
        return None
    return edits, plan(edits, {"a.py": source}).get("a.py", source.text)


def _untouched(text, edits, new):
    """Whether the new text is the old one with exactly the edits' ranges replaced."""
    source = Source.from_text("a.py", text)
    spans = sorted(
        (source.offset(e.line, e.column), source.offset(e.end_line, e.end_column), e.text) for e in set(edits)
    )
    done, parts = 0, []
    for start, end, replacement in spans:
        parts += [text[done:start], replacement]
        done = end
    return "".join([*parts, text[done:]]) == new


@pytest.mark.parametrize("name", sorted(_ALL))
@settings(max_examples=25 * TIMES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_edit_keeps_the_rest(name, data):
    source = data.draw(sources())
    nodes = _candidates(source, name) if source is not None else []
    if not nodes:
        return
    node = data.draw(st.sampled_from(nodes))
    result = _attempt(source, name, node)
    if result is None:
        return
    edits, new = result
    assert _untouched(source.text, edits, new)
    assert all(isinstance(edit, Edit) for edit in edits)
    check = _CHECKS.get(name)
    if check is not None and edits:
        check(source, node, Source.from_text("a.py", new))
    kept = _kinds(source)
    assert kept - _kinds(Source.from_text("a.py", new)) <= _MAY_GO.get(name, set()) or name in (
        "delete",
        "uncall",
    )
    diff = unified_diff(edits, ".", {"a.py": source})
    assert bool(diff) == (new != source.text)
    after = Source.from_text("a.py", new)
    if name in _REPEATED and edits and (same := _found_again(source, node, edits, after)) is not None:
        assert _ALL[name](after, same) == ()
    # The same edits once more, found twice, are the same edits.
    assert plan((*edits, *edits), {"a.py": source}) == plan(edits, {"a.py": source})


ODDITIES = {
    "comment": "# c",
    "single quotes": "'ü'",
    "triple quotes": "'''a\\s",
    "f-string": 'f"{x}"',
    "f-string with a format": "!r:>[{]",
    "f-string of several lines": "rf'''",
    "bytes": "rb'",
    "string continued": "'a[\\\\]\\s",
    "tab": "(^|[\r\n])\t",
    "CRLF": "\r\n",
    "lone carriage return": "\r[^\n]",
    "no newline at the end": "[^\r\n]\\Z",
    "declared encoding": "coding: utf-8",
    "form feed": "\x0c",
    "call of several lines": "f[(]\\s*[\r\n]",
    "decorator": "@deco[(]",
    "several decorators": "@other",
    "line continuation": "[+] [\\\\][\r\n]",
    "trailing comma": ",\\s*[)]",
    "one-line suite": "for x in y: \\S",
    "semicolon": "; ?\\w",
    "walrus": ":=",
    "async def": "async def",
    "async for": "async for",
    "async with": "async with",
    "await": "await",
    "type comment": "# type: int",
    "docstring": "'''doc",
    "other alphabets": "é",
}


class _Complete(Exception):
    """Every oddity was seen."""


def test_every_oddity_is_generated() -> None:
    left = dict(ODDITIES)

    @settings(
        max_examples=600,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(sources())
    def draw(source):
        for name in [name for name, pattern in left.items() if source and re.search(pattern, source.text)]:
            del left[name]
        if not left:
            raise _Complete

    with pytest.raises(_Complete):
        draw()
    assert not left


_REPEATED = {"append", "wrap", "list", "dict", "keyword", "after", "before", "start"}


def _found_again(source, node, edits, after):
    """The node in the edited source, by where the edits have moved it to; None where they changed what it spans."""
    start, end = source.start(node), source.end(node)
    grown_before = grown_within = 0
    for edit in set(edits):
        first, last = source.offset(edit.line, edit.column), source.offset(edit.end_line, edit.end_column)
        growth = len(edit.text) - (last - first)
        grown_before += growth if last <= start else 0
        grown_within += growth if last > start and first < end else 0
    start, end = start + grown_before, end + grown_before + grown_within
    for other in ast.walk(after.tree):
        # A statement is known by its start alone; its end may be that of what was put in.
        alike = type(other) is type(node) and after.start(other) == start
        if alike and (isinstance(node, ast.stmt) or after.end(other) == end):
            return other
    return None


def _kinds(source):
    """The comments of a source, which no edit but a deletion may lose."""
    return {part for part in ("# c", "# (c", "# é", "# end", "# odd", "# type: int") if part in source.text}


_MAY_GO = {"list": {"# (c", "# c"}, "dict": {"# (c", "# c"}, "replace": {"# (c", "# c"}}


def _dumped(source):
    return ast.dump(source.tree)


def _check_keyword(source, node, new):
    before = sorted(_call_facts(source))
    after = sorted(_call_facts(new))
    assert sum("device" in fact for fact in after) == sum("device" in fact for fact in before) + 1
    assert len(after) == len(before)


def _call_facts(source):
    return [repr([k.arg for k in n.keywords]) for n in ast.walk(source.tree) if isinstance(n, ast.Call)]


def _check_append(source, node, new):
    wanted = ast.dump(ast.parse("q.to(d)", mode="eval").body).replace(
        ast.dump(ast.Name("q", ast.Load())), ast.dump(node)
    )
    assert _dumped(source).count(wanted) + 1 == _dumped(new).count(wanted)
    assert _dumped(new).replace(wanted, ast.dump(node)) == _dumped(source).replace(wanted, ast.dump(node))


def _check_wrap(source, node, new):
    wanted = f"Call(func=Name(id='W', ctx=Load()), args=[{ast.dump(node)}]{_TAIL})"
    assert _dumped(new).replace(wanted, ast.dump(node)) == _dumped(source)


# Python 3.13 leaves empty lists out of a dump.
_TAIL = ", keywords=[]" if "keywords" in ast.dump(ast.parse("f()")) else ""


def _check_inserted(source, node, new):
    wanted = ast.dump(ast.parse(X).body[0])
    assert _dumped(new).count(wanted) == _dumped(source).count(wanted) + 1
    assert (
        len(list(ast.walk(new.tree)))
        == len(list(ast.walk(source.tree))) + len(list(ast.walk(ast.parse(X)))) - 1
    )


def _check_moved(source, node, new):
    assert (
        sorted(map(ast.dump, ast.walk(source.tree.__class__(body=_flat(source), type_ignores=[]))))
        is not None
    )
    assert sorted(_flat_dumps(source)) == sorted(_flat_dumps(new))


def _flat(source):
    return [n for n in ast.walk(source.tree) if isinstance(n, ast.stmt)]


def _flat_dumps(source):
    """The simple statements, however they are nested."""
    return [ast.dump(n) for n in _flat(source) if not hasattr(n, "body")]


_CHECKS = {
    "keyword": _check_keyword,
    "append": _check_append,
    "wrap": _check_wrap,
    "after": _check_inserted,
    "before": _check_inserted,
    "start": _check_inserted,
    "up": _check_moved,
    "down": _check_moved,
}


_ENCODINGS = {
    "utf-8": "",
    "utf-8-sig": "",
    "latin-1": "# coding: latin-1\n",
    "cp1252": "# -*- coding: cp1252 -*-\n",
}


@pytest.mark.parametrize("encoding", _ENCODINGS)
@pytest.mark.parametrize("name", ["after", "append", "assign", "before", "delete", "keyword"])
@settings(max_examples=8 * TIMES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_bytes_around_an_edit_stay(name, encoding, data):
    """Byte order mark, declared encodings, and lines that end in several ways in one file."""
    lines = data.draw(block("", 2))
    ends = data.draw(st.lists(st.sampled_from(["\n", "\r\n"]), min_size=len(lines), max_size=len(lines)))
    text = "".join(line.replace("\n", end) + end for line, end in zip(lines, ends, strict=True))
    raw = (_ENCODINGS[encoding] + text).encode(encoding, "replace")
    source = Source.from_bytes("a.py", raw)
    try:
        nodes = _candidates(source, name)
    except EditError:
        return
    if not nodes or (result := _attempt(source, name, data.draw(st.sampled_from(nodes)))) is None:
        return
    edits, new = result
    written = source.encode(new)
    assert _untouched(source.text, edits, new)
    if not edits:
        assert written == raw
        return
    first = min(source.offset(e.line, e.column) for e in edits)
    last = max(source.offset(e.end_line, e.end_column) for e in edits)
    assert written.startswith(source.encode(source.text[:first]))
    assert written.endswith(source.text[last:].encode(source.encoding))
    assert Source.from_bytes("a.py", written).tree.body or name == "delete"
