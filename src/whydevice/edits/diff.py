"""Edits as a unified diff that `git apply` and `patch -p1` take."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import NamedTuple

from ..source import Source
from ..types import Edit
from .apply import Change, by_file, plan

_CONTEXT = 3


class _Block(NamedTuple):
    """Old lines `first` to `last` (excluded, from 0) become the new lines."""

    first: int
    last: int
    new: list[str]


def unified_diff(edits: Iterable[Edit], relative_to: str, sources: Mapping[str, Source] | None = None) -> str:
    """The diff of the edits, the paths relative to a folder (or to the root, for files outside of it).

    Raises EditError where `plan` does. The lines keep their own endings, so print it without newline
    translation.
    """
    return "".join(text for _, text in _diffs(list(edits), relative_to, sources))


def diff_bytes(edits: Iterable[Edit], relative_to: str, sources: Mapping[str, Source] | None = None) -> bytes:
    """The same in bytes, each file's lines in its own encoding: what `git apply` needs where that is not
    UTF-8.
    """
    return b"".join(text.encode(encoding) for encoding, text in _diffs(list(edits), relative_to, sources))


def _diffs(
    edits: list[Edit], relative_to: str, sources: Mapping[str, Source] | None
) -> list[tuple[str, str]]:
    grouped = by_file(edits, sources)
    planned = plan(edits, {source.path: source for source, _ in grouped})
    found = []
    for source, changes in grouped:
        if planned[source.path] == source.text:
            continue
        name = _name(source.path, relative_to)
        if hunks := _hunks(source, changes):
            found.append(
                (source.encoding, f"--- {_quoted('a/' + name)}\n+++ {_quoted('b/' + name)}\n{hunks}")
            )
    return sorted(found, key=lambda pair: pair[1])


def _name(path: str, relative_to: str) -> str:
    """The path as git writes it; outside of the folder, from the root: neither tool takes `..`."""
    relative = os.path.relpath(path, relative_to) if os.path.isabs(path) else os.path.normpath(path)
    if relative.split(os.sep)[0] == os.pardir:
        relative = os.path.splitdrive(os.path.abspath(path))[1].lstrip(os.sep)
    return relative.replace(os.sep, "/")


def _quoted(name: str) -> str:
    """A file name as git and GNU patch read it: C escapes for what is no plain text, a tab to end one with
    spaces.
    """
    if name.isprintable() and '"' not in name and "\\" not in name:
        return name + "\t" if " " in name else name
    escapes = {'"': '\\"', "\\": "\\\\", "\t": "\\t", "\n": "\\n"}
    parts = []
    for character in name:
        if character in escapes:
            parts.append(escapes[character])
        elif character.isprintable():
            parts.append(character)
        else:
            parts += [f"\\{byte:03o}" for byte in character.encode()]
    return '"' + "".join(parts) + '"'


def _hunks(source: Source, changes: list[Change]) -> str:
    text = "\ufeff" + source.text if source.bom else source.text
    shift = len(text) - len(source.text)
    start, end = _around(text, changes[0].start + shift, changes[-1].end + shift)
    above, shift, text = text.count("\n", 0, start), shift - start, text[start:end]
    old = _lines(text)
    blocks = _blocks(text, old, [Change(c.start + shift, c.end + shift, c.text) for c in changes])
    groups: list[list[_Block]] = []
    for block in blocks:
        if groups and block.first - groups[-1][-1].last <= 2 * _CONTEXT:
            groups[-1].append(block)
        else:
            groups.append([block])
    parts, grown = [], 0
    for group in groups:
        parts.append(_hunk(old, group, above, grown))
        grown += sum(len(block.new) - (block.last - block.first) for block in group)
    return "".join(parts)


def _around(text: str, start: int, end: int) -> tuple[int, int]:
    """The offsets of whole lines that hold a range and its context: of a long file, the rest is not looked at."""
    for _ in range(_CONTEXT + 1):
        start = text.rfind("\n", 0, start) if start > 0 else -1
    for _ in range(_CONTEXT + 1):
        end = text.find("\n", end) + 1 or len(text)
    return start + 1, end


def _blocks(text: str, old: list[str], changes: list[Change]) -> list[_Block]:
    """The changes in whole lines: those that touch the same line together, without the lines that stay the
    same.
    """
    starts = list(accumulate(map(len, old), initial=0))
    blocks: list[_Block] = []
    pending: list[Change] = []
    first = last = 0
    for change in changes:
        begin, end = _touched(old, starts, change)
        if pending and begin < last:
            pending.append(change)
            last = max(last, end)
            continue
        if pending:
            blocks.append(_block(text, old, starts, first, last, pending))
        pending, first, last = [change], begin, end
    if pending:
        blocks.append(_block(text, old, starts, first, last, pending))
    return [block for block in blocks if block.new or block.first < block.last]


def _touched(old: list[str], starts: list[int], change: Change) -> tuple[int, int]:
    """The lines (from 0, the last excluded) that hold a change's two ends."""

    def line(offset: int) -> int:
        # Behind a last line without a newline there is no further line.
        open_end = offset == starts[-1] and old and not old[-1].endswith("\n")
        return bisect_right(starts, offset) - (2 if open_end else 1)

    return line(change.start), min(len(old), line(change.end) + 1)


def _block(
    text: str, old: list[str], starts: list[int], first: int, last: int, changes: list[Change]
) -> _Block:
    parts: list[str] = []
    done = starts[first]
    for change in changes:
        parts += (text[done : change.start], change.text)
        done = max(done, change.end)
    new = _lines("".join([*parts, text[done : starts[last]]]))
    while first < last and new and new[0] == old[first]:
        first, new = first + 1, new[1:]
    while first < last and new and new[-1] == old[last - 1]:
        last, new = last - 1, new[:-1]
    return _Block(first, last, new)


def _hunk(old: list[str], group: list[_Block], above: int, grown: int) -> str:
    """A hunk; `above` lines come before the old ones, and were `grown` by the hunks before."""
    begin = max(0, group[0].first - _CONTEXT)
    end = min(len(old), group[-1].last + _CONTEXT)
    lines: list[str] = []
    at = begin
    for block in group:
        lines += [" " + line for line in old[at : block.first]]
        lines += ["-" + line for line in old[block.first : block.last]]
        lines += ["+" + line for line in block.new]
        at = block.last
    lines += [" " + line for line in old[at:end]]
    removed = end - begin
    added = sum(1 for line in lines if line[0] != "-")
    header = f"@@ -{_range(above + begin, removed)} +{_range(above + begin + grown, added)} @@\n"
    return header + "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )


def _range(first: int, count: int) -> str:
    # An empty range names the line before it.
    start = first + 1 if count else first
    return f"{start}" if count == 1 else f"{start},{count}"


def _lines(text: str) -> list[str]:
    """Lines as git and patch see them: a lone carriage return or a form feed ends none."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
