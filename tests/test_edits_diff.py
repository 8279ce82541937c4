"""Diffs that `git apply` and `patch -p1` take, whatever the file looks like."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from processes import HANGS
from whydevice.edits import EditError, Source, diff_bytes, plan, unified_diff
from whydevice.types import Edit

TEN = "".join(f"a{n}\n" for n in range(1, 21))

# name, content, edits (line, column, end line, end column, text)
FILES = [
    ("a.py", b"a\nb\nc\n", [(2, 0, 2, 1, "B")]),
    ("a.py", b"a\nb\nc", [(3, 1, 3, 1, " + 1")]),
    ("a.py", b"a\nb\nc", [(1, 1, 1, 1, " + 1")]),
    ("a.py", b"a\nb\nc", [(3, 1, 3, 1, "\nd")]),
    ("a.py", b"a\nb\nc", [(3, 1, 3, 1, "\n")]),
    ("a.py", b"a\nb\nc", [(2, 0, 3, 0, "")]),
    ("a.py", b"a\nb\nc", [(2, 1, 3, 1, "")]),
    ("a.py", b"a", [(1, 0, 1, 1, "")]),
    ("a.py", b"a\n", [(1, 0, 2, 0, "")]),
    ("a.py", b"a\n", [(2, 0, 2, 0, "b\n")]),
    ("a.py", b"a\n", [(1, 0, 1, 0, "b\n")]),
    ("a.py", b"\n", [(1, 0, 1, 0, "b\n")]),
    ("a.py", b"a\r\nb\r\nc\r\n", [(2, 0, 2, 1, "B"), (3, 0, 3, 0, "x\r\n")]),
    ("a.py", b"a\nb\r\nc\n", [(2, 0, 2, 1, "B")]),
    ("a.py", b"a\rb\rc\r", [(2, 0, 2, 1, "B")]),
    ("a.py", b"a\n\x0cb\n'\x0b\x1c'\nc\n", [(2, 1, 2, 2, "B")]),
    ("a.py", "# é\nb = '\u2028'\n".encode(), [(2, 0, 2, 1, "B")]),
    ("a.py", b"\xef\xbb\xbfa\nb\n", [(1, 0, 1, 1, "A")]),
    ("a.py", b"\xef\xbb\xbfa\nb\n", [(1, 0, 1, 0, "x\n")]),
    ("a.py", b"# coding: latin-1\na = '\xe9'\n", [(2, 0, 2, 1, "b")]),
    ("sub/dir/a.py", b"a\n", [(1, 0, 1, 1, "b")]),
    ("with space.py", b"a\n", [(1, 0, 1, 1, "b")]),
    ("é ü.py", b"a\n", [(1, 0, 1, 1, "b")]),
    ('quo"te.py', b"a\n", [(1, 0, 1, 1, "b")]),
    ("a.py", TEN.encode(), [(1, 0, 1, 1, "b"), (8, 0, 8, 1, "b"), (9, 0, 9, 0, "x\n"), (20, 0, 21, 0, "")]),
    ("a.py", TEN.encode(), [(2, 0, 2, 0, "x\n"), (9, 0, 10, 0, ""), (17, 0, 17, 1, "b")]),
    # A line moved up, and one moved down past its neighbour.
    ("a.py", b"a\nb\nc\n", [(2, 0, 2, 0, "c\n"), (3, 0, 4, 0, "")]),
    ("a.py", b"a\nb\nc\n", [(1, 0, 2, 0, ""), (3, 0, 3, 0, "a\n")]),
    ("a.py", b"f(\n a,\n b)\n", [(2, 2, 2, 3, ""), (3, 2, 3, 2, ", c"), (2, 1, 2, 2, "a.to(d),")]),
]


def _apply(tool, folder, diff):
    commands = {"git": ["git", "apply", "-v", "-"], "patch": ["patch", "-p1", "--binary", "-F0"]}
    result = subprocess.run(commands[tool], cwd=folder, input=diff, capture_output=True, timeout=HANGS)
    assert result.returncode == 0, result.stdout + result.stderr + diff
    assert b"fuzz" not in result.stdout and b"offset" not in result.stdout


@pytest.mark.parametrize("tool", ["git", "patch"])
@pytest.mark.parametrize(("name", "content", "edits"), FILES)
def test_a_diff_applies_to_the_byte(tmp_path, tool, name, content, edits):
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    made = [Edit(str(path), *edit) for edit in edits]
    source = Source.read(str(path))
    wanted = source.encode(plan(made)[str(path)])
    _apply(tool, tmp_path, diff_bytes(made, str(tmp_path)))
    if wanted or path.exists():
        assert path.read_bytes() == wanted


@pytest.mark.parametrize("tool", ["git", "patch"])
def test_a_diff_of_several_files(tmp_path, tool):
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    for name in "ab":
        (tmp_path / f"{name}.py").write_text(f"{name}\n")
    made = [Edit(str(tmp_path / f"{name}.py"), 1, 1, 1, 1, "1") for name in "ba"]
    diff = unified_diff(made, str(tmp_path))
    assert [line for line in diff.split("\n") if line.startswith("---")] == ["--- a/a.py", "--- a/b.py"]
    _apply(tool, tmp_path, diff.encode())
    assert (tmp_path / "a.py").read_text() == "a1\n"
    assert (tmp_path / "b.py").read_text() == "b1\n"


@pytest.mark.parametrize("tool", ["git", "patch"])
def test_a_diff_of_several_files_of_several_kinds(tmp_path, tool):
    """One diff: lines that end in CRLF, no newline at the end, another encoding, subfolders."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    files = {
        "a.py": b"x = 1\r\ny = 2\r\nz = 3",
        "sub/b.py": b"\xef\xbb\xbfx = 1\ny = 2\nz = 3",
        "sub/with space/c.py": b"# coding: latin-1\nx = '\xe9'\ny = 2\n",
    }
    made = []
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        made += [Edit(str(path), 2, 0, 2, 1, "v"), Edit(str(path), 3, 5, 3, 5, " + 1")]
    sources = {edit.file: Source.read(edit.file) for edit in made}
    wanted = {path: sources[path].encode(text) for path, text in plan(made, sources).items()}
    _apply(tool, tmp_path, diff_bytes(made, str(tmp_path)))
    assert {name: (tmp_path / name).read_bytes() for name in files} == {
        name: wanted[str(tmp_path / name)] for name in files
    }
    assert all(wanted[str(tmp_path / name)] != content for name, content in files.items())


def test_a_diff_is_as_small_as_it_can_be():
    text = "a\nb\nc\nd\ne\nf\ng\n"
    sources = {"x.py": Source.from_text("x.py", text)}
    moved = [Edit("x.py", 2, 0, 2, 0, "e\n"), Edit("x.py", 5, 0, 6, 0, "")]
    assert unified_diff(moved, ".", sources) == (
        "--- a/x.py\n+++ b/x.py\n@@ -1,7 +1,7 @@\n a\n+e\n b\n c\n d\n-e\n f\n g\n"
    )
    assert unified_diff([], ".") == ""
    assert unified_diff([Edit("x.py", 1, 0, 1, 1, "a")], ".", sources) == ""


def test_a_file_outside_of_the_folder_is_named_from_the_root(tmp_path):
    (tmp_path / "a.py").write_text("a\n")
    (tmp_path / "sub").mkdir()
    diff = unified_diff([Edit(str(tmp_path / "a.py"), 1, 0, 1, 1, "b")], str(tmp_path / "sub"))
    assert diff.startswith(f"--- a{tmp_path}/a.py\n")


def test_a_diff_of_edits_that_cannot_be_made_is_refused():
    sources = {"x.py": Source.from_text("x.py", "a\n")}
    with pytest.raises(EditError, match="would not parse"):
        unified_diff([Edit("x.py", 1, 0, 1, 1, "(")], ".", sources)


def test_a_diff_of_a_long_file_holds_its_changes_only():
    sources = {"x.py": Source.from_text("x.py", "a = 1\n" * 30_000)}
    diff = unified_diff([Edit("x.py", n, 4, n, 5, "2") for n in range(1, 30_000, 1000)], ".", sources)
    assert diff.count("@@ -") == diff.count("-a = 1") == diff.count("+a = 2") == 30
    assert "tree" not in sources["x.py"].__dict__
