"""Texts that stand in for files: with them `--diff` runs a script as it would be, and changes nothing on disk."""

from __future__ import annotations

import io
import linecache
import os
import tokenize
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from typing import Any

_files: dict[str, bytes] = {}


def load(path: str) -> None:
    """Install what `--diff` has left in a file of its own."""
    import pickle

    with open(path, "rb") as file:
        install(pickle.load(file))


def bytes_of(path: str) -> bytes | None:
    """What stands in for a file, if anything does."""
    return _files.get(os.path.realpath(path)) if _files else None


def install(files: Mapping[str, bytes]) -> None:
    """From now on imports, the line cache and our own reading see these bytes in place of the files'."""
    for path, data in files.items():
        _files[os.path.realpath(path)] = data
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        lines = io.StringIO(data.decode(encoding), newline=None).readlines()
        # An entry without a time of change is never compared with the file.
        linecache.cache[path] = (len(data), None, lines, path)
    original = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> Any:
        path = self.get_filename(fullname)
        data = bytes_of(path)
        return original(self, fullname) if data is None else self.source_to_code(data, path)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    open_code = io.open_code

    def opened(path: str) -> Any:
        data = bytes_of(path)
        return open_code(path) if data is None else io.BytesIO(data)

    io.open_code = opened  # by which a spawned child reads the script of its parent
