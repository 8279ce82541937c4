"""The options, and one clear line with exit status 2 for each command line that makes no sense."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from processes import MISMATCH, environment, why
from whydevice.options import UsageError, parse
from whydevice.render import json as document


def test_options_end_at_the_script() -> None:
    options = parse(["--simulate-cuda", "--fix", "--json", "a.json", "train.py", "--fix", "--lr=3", "-m"])
    assert (options.simulate_cuda, options.fix, options.json) == (1, True, "a.json")
    assert (options.script, options.module) == ("train.py", None)
    assert options.args == ["--fix", "--lr=3", "-m"]
    assert parse(["--simulate-cuda=4", "-m", "pkg.train", "x"]).args == ["x"]
    assert parse(["-mpkg", "x"]).module == "pkg"
    assert parse(["--simulate-cuda", "2"]).script == "2"
    assert parse(["--", "--odd.py"]).script == "--odd.py"
    assert parse(["--explain"]).explain == ""
    assert parse(["--explain", "some-cause"]).explain == "some-cause"
    assert parse(["--json=-", "--color=never", "s.py"]).json == "-"


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--unknown", "s.py"],
        ["-x", "s.py"],
        ["-"],
        ["--simulate_cuda", "s.py"],
        ["--simulate-cuda=0", "s.py"],
        ["--simulate-cuda=two", "s.py"],
        ["--simulate-cuda=", "s.py"],
        ["--simulate-cuda=-1", "s.py"],
        ["--fix=yes", "s.py"],
        ["--color=blue", "s.py"],
        ["--color"],
        ["--json"],
        ["-m"],
        ["--traffic", "s.py"],
        ["--unsafe-fixes", "s.py"],
        ["--diff", "--json", "-", "s.py"],
        ["--explain", "a", "b"],
        ["--enable-site", "s.py"],
        ["--enable-site", "--disable-site"],
        ["--script=s.py"],
        ["--args=s.py"],
        ["--module", "s"],
    ],
)
def test_a_command_line_that_makes_no_sense(argv: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse(argv)
    assert "\n" not in str(caught.value)


def _one_line(process: Any) -> str:
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr.startswith("whydevice: ")
    assert process.stderr.count("\n") == 1
    return str(process.stderr)


def test_what_cannot_be_run(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "picture.py").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe")
    (tmp_path / "bytes.py").write_bytes(bytes(range(128, 256)))
    (tmp_path / "ran.py").write_text("open('ran', 'w')")
    assert "does not exist" in _one_line(why("missing.py", cwd=tmp_path))
    assert "directory" in _one_line(why("folder", cwd=tmp_path))
    assert "not Python" in _one_line(why("picture.py", cwd=tmp_path))
    assert "not Python" in _one_line(why("bytes.py", cwd=tmp_path))
    assert "No module named" in _one_line(why("-m", "no.such.module", cwd=tmp_path))
    assert "no_such_module" in _one_line(why("-m", "no_such_module", cwd=tmp_path))
    assert "--simulate-cuda=2" in _one_line(why("--simulate-cuda", "2", "ran.py", cwd=tmp_path))
    assert "did you mean --fix" in _one_line(why("--fxi", "ran.py", cwd=tmp_path))
    assert "cannot write" in _one_line(why("--json", "no/such/out.json", "ran.py", cwd=tmp_path))
    assert "cannot write" in _one_line(why("--json", "folder", "ran.py", cwd=tmp_path))
    assert _one_line(why("--json", "out.json", "missing.py", cwd=tmp_path))
    assert _one_line(why("--fix", "--simulate-cuda", "missing.py", cwd=tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["bytes.py", "folder", "picture.py", "ran.py"]


def test_version_and_help(tmp_path: Path) -> None:
    import whydevice

    assert why("--version", cwd=tmp_path).stdout == f"whydevice {whydevice.__version__}\n"
    text = why("--help", cwd=tmp_path).stdout
    assert text.startswith("usage: python -m whydevice")
    assert max(map(len, text.splitlines())) <= 80
    for option in ("--simulate-cuda", "--fix", "--unsafe-fixes", "--diff", "--trace", "--json", "--color"):
        assert option in text


def test_json_of_a_run_without_and_with_a_device_error(tmp_path: Path) -> None:
    (tmp_path / "fine.py").write_text("import os\nos.mkdir('sub')\nos.chdir('sub')\nprint('out')\n")
    done = why("--json", "fine.json", "fine.py", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "", 0)
    assert json.loads((tmp_path / "fine.json").read_text()) == {"schema": 1, "explanations": []}
    (tmp_path / "bad.py").write_text(MISMATCH)
    done = why("--json", "-", "bad.py", cwd=tmp_path)
    assert done.returncode == 1
    entries = json.loads(done.stdout)["explanations"]
    assert [entry["error"]["type"] for entry in entries] == ["TypeError"]


def test_json_is_whole_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A rank may be ended by its launcher while it writes the file that all ranks write.
    path = tmp_path / "out.json"
    document.write(str(path), [])
    path.chmod(0o600)
    whole, seen = path.read_text(), []

    def write(name: str, text: str) -> None:
        seen.append(path.read_text())
        Path(name).write_text(text[:5])
        seen.append(path.read_text())
        Path(name).write_text(text)

    monkeypatch.setattr(document, "_write_text", write)
    document.write(str(path), [])
    assert seen == [whole, whole]
    assert (path.read_text(), path.stat().st_mode & 0o777) == (whole, 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_json_is_there_though_the_process_ends_hard(tmp_path: Path) -> None:
    (tmp_path / "hard.py").write_text(
        "import os, threading\nimport torch\n"
        "def f(): torch.empty(3, device='meta').numpy()\n"
        "t = threading.Thread(target=f); t.start(); t.join()\n"
        "os._exit(3)\n"
    )
    done = why("--json", "out.json", "hard.py", cwd=tmp_path)
    assert done.returncode == 3
    assert len(json.loads((tmp_path / "out.json").read_text())["explanations"]) == 1


def test_the_environment_turns_it_off(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(MISMATCH)
    done = why("--json", "out.json", "bad.py", cwd=tmp_path, env=environment(WHYDEVICE="0"))
    assert done.returncode == 1
    assert "whydevice" not in done.stderr
    assert json.loads((tmp_path / "out.json").read_text())["explanations"] == []


def test_pages(tmp_path: Path) -> None:
    listing = why("--explain", cwd=tmp_path)
    assert listing.returncode == 0
    assert "batch-not-moved" in listing.stdout
    assert ".to(" in why("--explain", "batch-not-moved", cwd=tmp_path).stdout
    assert "nearest is batch-not-moved" in _one_line(why("--explain", "batch-not-move", cwd=tmp_path))
