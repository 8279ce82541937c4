"""New texts into their files: all or none, and each file whole at any moment.

A file is never opened for writing. Its new text goes into a file beside it, with the same owner and mode,
which then takes its name in one step (`os.replace`). A process killed in between leaves old or new files,
never a half one.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

from ..source import EditError, Source


class _Target(NamedTuple):
    """A file to be replaced: where it really lies, what is in it now, and the bytes to come."""

    path: str
    old: bytes
    new: bytes
    status: os.stat_result


def write_files(texts: Mapping[str, str], sources: Mapping[str, Source] | None = None) -> None:
    """Write the texts into the files, each in its own encoding, keeping mode, owner and symbolic links.

    `sources` holds what the texts were made from: a file that differs from it by now is not touched. Raises
    EditError, with every file as it was, when one of them cannot be written.
    """
    targets = [_target(path, text, (sources or {}).get(path)) for path, text in texts.items()]
    targets = [target for target in targets if target.old != target.new]
    prepared: list[tuple[_Target, str]] = []
    try:
        for target in targets:
            prepared.append((target, _beside(target, target.new)))
        _replace_all(prepared)
    finally:
        for _, temporary in prepared:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _target(path: str, text: str, source: Source | None) -> _Target:
    """Look at a file before anything is written. Raises EditError when it must not or cannot be replaced."""
    real = os.path.realpath(path)
    current = Source.read(real)
    try:
        status = os.stat(real)
    except OSError as error:
        raise EditError(f"{path} cannot be read: {error.strerror}") from None
    if source is not None and source.raw is not None and source.raw != current.raw:
        raise EditError(f"{path} has changed since it was read")
    if source is not None and source.raw is None and source.text != current.text:
        raise EditError(f"{path} has changed since it was read")
    if not stat.S_ISREG(status.st_mode):
        raise EditError(f"{path} is not a regular file")
    if not os.access(real, os.W_OK):
        raise EditError(f"{path} is not writable")
    if status.st_nlink > 1:
        raise EditError(f"{path} has several hard links, which replacing it would part")
    return _Target(real, current.raw or b"", current.encode(text), status)


def _beside(target: _Target, data: bytes) -> str:
    """A new file in the same folder with the data, and the target's owner, mode and extended attributes."""
    folder, name = os.path.split(target.path)
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", suffix=".whydevice", dir=folder)
    except OSError as error:
        raise EditError(f"{folder} cannot be written to: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            _dress(temporary, target)
            os.fsync(file.fileno())
    except OSError as error:
        os.unlink(temporary)
        raise EditError(f"{target.path} cannot be written: {error.strerror}") from None
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def _dress(temporary: str, target: _Target) -> None:
    """Owner first: changing it clears the set-user bits of the mode. Raises OSError when the owner cannot be
    kept.
    """
    status = target.status
    if hasattr(os, "chown"):
        made = os.stat(temporary)
        if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
            os.chown(temporary, status.st_uid, status.st_gid)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(target.path):
                os.setxattr(temporary, name, os.getxattr(target.path, name))
    os.chmod(temporary, stat.S_IMODE(status.st_mode))


def _replace_all(prepared: list[tuple[_Target, str]]) -> None:
    """Give every file its new text, or, when one fails, every file its old one back."""
    done: list[_Target] = []
    try:
        for target, temporary in prepared:
            with open(target.path, "rb") as file:
                if file.read() != target.old:
                    raise EditError(f"{target.path} has changed since it was read")
            done.append(target)
            os.replace(temporary, target.path)
    except BaseException as error:
        for target in done:
            _put_back(target)
        if isinstance(error, OSError):
            raise EditError(f"a file cannot be replaced: {error.strerror}") from None
        raise


def _put_back(target: _Target) -> None:
    """Restore a file that has its new text; one that somebody else has written since stays as it is."""
    with contextlib.suppress(OSError, EditError):
        with open(target.path, "rb") as file:
            if file.read() != target.new:
                return
        os.replace(_beside(target, target.old), target.path)
