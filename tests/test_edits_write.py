"""Files written all or none, whole at any moment, with their mode, owner, links and encoding."""

from __future__ import annotations

import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from whydevice.edits import EditError, Source, plan, write, write_files
from whydevice.types import Edit


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("raw", "new"),
    [
        (b"a\n", b"b\n"),
        (b"a\r\nc", b"b\r\nc"),
        (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n"),
        (b"a  # \x0c\x1c\r'", None),
        (b"a  # coding: latin-1\n'\xe9'\n", None),
        (b"a\x0c # \x0b\n# \xc3\xa9", b"b\x0c # \x0b\n# \xc3\xa9"),
    ],
)
def test_the_bytes_that_no_edit_touches_stay(tmp_path, raw, new):
    path = tmp_path / "a.py"
    path.write_bytes(raw)
    edits = [Edit(str(path), 1, 0, 1, 1, "b")]
    if new is None:
        with pytest.raises(EditError, match=r"encoding|parse"):
            write_files(plan(edits))
        assert path.read_bytes() == raw
    else:
        source = Source.read(str(path))
        write_files(plan(edits), {str(path): source})
        assert path.read_bytes() == new
        with pytest.raises(EditError, match="has changed since"):
            write_files(plan(edits, {str(path): source}), {str(path): source})
        assert path.read_bytes() == new
    assert list(_files(tmp_path)) == ["a.py"]


def test_a_declared_encoding_stays(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"# coding: latin-1\na = '\xe9'\n")
    write_files(plan([Edit(str(path), 2, 0, 2, 1, "b")]))
    assert path.read_bytes() == b"# coding: latin-1\nb = '\xe9'\n"
    with pytest.raises(EditError, match="does not fit the encoding"):
        write_files(plan([Edit(str(path), 2, 0, 2, 1, "\u0436")]))
    assert path.read_bytes() == b"# coding: latin-1\nb = '\xe9'\n"


def test_mode_owner_and_attributes_stay(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("a\n")
    path.chmod(0o6751)
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    if root:
        os.chown(path, 12345, 54321)
        path.chmod(0o6751)
    try:
        os.setxattr(path, "user.note", b"kept")
        attributes = True
    except (OSError, AttributeError):
        attributes = False
    write_files({str(path): "b\n"})
    status = path.stat()
    assert path.read_text() == "b\n"
    assert stat.S_IMODE(status.st_mode) == 0o6751
    assert not root or (status.st_uid, status.st_gid) == (12345, 54321)
    assert not attributes or os.getxattr(path, "user.note") == b"kept"


def test_a_symbolic_link_stays_and_its_target_is_written(tmp_path):
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "a.py"
    target.write_text("a\n")
    for name, to in (("one.py", "two.py"), ("two.py", "real/a.py")):
        (tmp_path / name).symlink_to(to)
    write_files({str(tmp_path / "one.py"): "b\n"})
    assert os.readlink(tmp_path / "one.py") == "two.py"
    assert os.readlink(tmp_path / "two.py") == "real/a.py"
    assert target.read_text() == "b\n"


def test_a_text_that_stays_the_same_writes_nothing(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("a\n")
    before = path.stat()
    write_files({str(path): "a\n"})
    assert path.stat() == before


def _linked(path):
    os.link(path, path.with_name("other.py"))


def _gone(path):
    path.unlink()


def _folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_linked, "several hard links"),
        (_gone, "cannot be read"),
        (_folder, "cannot be read"),
    ],
)
def test_a_file_that_must_not_be_written_keeps_all_as_they_were(tmp_path, spoil, reason):
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text("a\n")
    spoil(tmp_path / "b.py")
    before = _files(tmp_path)
    with pytest.raises(EditError, match=reason):
        write_files({str(tmp_path / name): "b\n" for name in ("a.py", "b.py", "c.py")})
    assert _files(tmp_path) == before


def test_a_file_that_may_not_be_written_keeps_all_as_they_were(tmp_path, monkeypatch):
    """The suite may run as root, who may write all: the answer of the system is what counts."""
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("a\n")
    before = _files(tmp_path)
    monkeypatch.setattr(write.os, "access", lambda path, mode: not str(path).endswith("b.py"))
    with pytest.raises(EditError, match="is not writable"):
        write_files({str(tmp_path / name): "b\n" for name in ("a.py", "b.py")})
    assert _files(tmp_path) == before


@pytest.mark.parametrize("step", ["replace", "fsync", "chmod", "stat"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_half_way_puts_all_back(tmp_path, monkeypatch, step, error):
    paths = [tmp_path / name for name in ("a.py", "b.py", "c.py")]
    for path in paths:
        path.write_text("a\n")
    before = _files(tmp_path)
    real = getattr(os, step)
    calls = []

    def failing(*args, **kwargs):
        calls.append(args)
        if len(calls) == 2:
            raise error
        return real(*args, **kwargs)

    monkeypatch.setattr(write.os, step, failing)
    with pytest.raises((EditError, KeyboardInterrupt)):
        write_files({str(path): "b\n" for path in paths})
    monkeypatch.undo()
    assert _files(tmp_path) == before


def test_a_file_that_changes_in_between_keeps_its_change(tmp_path, monkeypatch):
    paths = [tmp_path / "a.py", tmp_path / "b.py"]
    for path in paths:
        path.write_text("a\n")
    real = os.fsync

    def meddling(descriptor):
        paths[1].write_text("somebody else\n")
        real(descriptor)

    monkeypatch.setattr(write.os, "fsync", meddling)
    with pytest.raises(EditError, match="has changed since"):
        write_files({str(path): "b\n" for path in paths})
    assert [path.read_text() for path in paths] == ["a\n", "somebody else\n"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_killed_at_any_line_leaves_each_file_whole(tmp_path):
    """Kill a child at every line of `write.py` that it runs, until it comes through."""
    old, new = b"old = 1\n" * 2000, b"new = 2\n" * 3000
    paths = [tmp_path / name for name in ("a.py", "b.py", "c.py")]
    seen = set()
    killed = 0
    while True:
        for path in paths:
            path.write_bytes(old)
        status = _killed_at(killed, {str(path): new.decode() for path in paths})
        contents = [path.read_bytes() for path in paths]
        assert all(content in (old, new) for content in contents)
        seen.add(tuple(content == new for content in contents))
        if status == 0:
            break
        assert status == -signal.SIGKILL
        killed += 1
        assert killed < 2000
    assert killed > 50
    # From all old to all new, one by one, in order.
    assert seen == {(False,) * 3, (True, False, False), (True, True, False), (True,) * 3}
    for path in tmp_path.glob(".*"):
        assert path.suffix == ".whydevice"


def _killed_at(count: int, texts: dict[str, str]) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = count

    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename != write.__file__:
            return None
        if event == "line":
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
        return trace

    try:
        sys.settrace(trace)
        write_files(texts)
        os._exit(0)
    except BaseException:
        os._exit(1)
