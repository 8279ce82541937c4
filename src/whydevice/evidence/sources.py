"""The source files read for one explanation: found on disk, else through the line cache, and never executed."""

from __future__ import annotations

import linecache
import os
import zipimport
from importlib.machinery import ModuleSpec, SourceFileLoader

from ..patterns import pattern
from ..source import COMPREHENSIONS, EditError, FunctionNode, ScopeNode, Source, TooLong
from .bounds import cut
from .libraries import is_library
from .passive import exactly, lookup

__all__ = ["COMPREHENSIONS", "FunctionNode", "ScopeNode", "Source", "Sources", "is_cell", "is_regular_file"]

MOST_LIBRARY_LINES = 100
"""Lines of a library's file that is parsed whole: of a longer one, only the functions that are looked at."""


class Sources:
    """The files read for one explanation. Nothing is kept between explanations."""

    def __init__(self) -> None:
        self._files: dict[str, Source | None] = {}
        self.builders: dict[type, set[str]] = {}  # see building.py

    def release(self) -> None:
        """Let go of all that was live, so that frames and tensors die with the error and not at some later gc."""
        for source in self._files.values():
            if source is not None:
                if source.unread is not None:
                    cut(source.unread)
                for scope in source.scopes:
                    scope.release()
                source.scopes = []
        self._files, self.builders = {}, {}

    def users(self) -> list[Source]:
        """The files of the user's own that were read so far."""
        return [source for path, source in self._files.items() if source is not None and not is_library(path)]

    def get(self, path: str, module_globals: dict[str, object] | None = None) -> Source | None:
        """The file, or None when its text cannot be had or is no Python."""
        if path not in self._files:
            self._files[path] = _read(path, module_globals)
        return self._files[path]


def _read(path: str, module_globals: dict[str, object] | None) -> Source | None:
    """A file as it is on disk; a cell, or a module in an archive, as the line cache has it."""
    try:
        if is_regular_file(path):
            source = Source.read(path)
        else:
            lines = _cached(path, module_globals)
            # Anybody may have put anything there.
            text = "".join(lines) if type(lines) is list and all(type(line) is str for line in lines) else ""
            if not text:
                return None
            source = Source.from_text(path, text)
        if is_library(path):
            source.most_whole = MOST_LIBRARY_LINES
        if not source.long:
            source.tree  # noqa: B018  whether it parses
    except TooLong as refused:
        cut(str(refused))
        return None
    except EditError:
        return None
    return source


def _cached(path: str, module_globals: dict[str, object] | None) -> list[str]:
    """The lines of what is no regular file, as the line cache has them."""
    if not path.startswith("<") and (os.path.exists(path) or "\0" in path):
        # A pipe, a device, a folder: the line cache would wait for it, if it has not read it before. At a name that no
        # file can have it fails.
        entry = linecache.cache.get(path)
        return entry[2] if entry is not None and len(entry) == 4 else []
    return linecache.getlines(path, _loaded_by(module_globals))


def _loaded_by(module_globals: dict[str, object] | None) -> dict[str, object] | None:
    """What the line cache needs to ask a module's loader for its source: of Python's own loaders, no other's code runs."""
    loader = lookup(module_globals, "__loader__")
    name, spec = lookup(module_globals, "__name__"), lookup(module_globals, "__spec__")
    if not exactly(loader, zipimport.zipimporter, SourceFileLoader) or not exactly(name, str):
        return None
    known: dict[str, object] = {"__name__": name, "__loader__": loader}
    return {**known, "__spec__": spec} if exactly(spec, ModuleSpec) else known


# How IPython, ipykernel and Colab name the code of a cell.
_CELL = pattern(r"<ipython-input-\d|.*[/\\]ipykernel_\d+[/\\]\d+\.py\Z|.*[/\\]ipython-input-\d[\w-]*\.py\Z")


def is_regular_file(path: str) -> bool:
    """Whether the code came from a file (not a cell, not `exec`, not a zip)."""
    return not path.startswith("<") and os.path.isfile(path)


def is_cell(path: str) -> bool:
    """Whether the code came from a notebook's cell: there is no file to write, but a text to show."""
    return _CELL.match(path) is not None and not os.path.exists(path)
