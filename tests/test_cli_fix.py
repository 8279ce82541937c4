"""`--fix` and `--diff`: rounds, taking back, what is written and what is said."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from fixing import fix
from whydevice.mending import edited_lines, moved_line
from whydevice.types import Edit

# Two errors, one behind the other; the second fix needs --unsafe-fixes.
TWO = """\
print("begin")
x = "cpu"
y = "cpu"
need("x", x, ["safe", 2, 4, 2, 9, '"cuda"'])
need("y", y, ["{kind}", 3, 4, 3, 9, '"cuda"'])
print("end")
"""
LEFT = TWO.format(kind="unsafe").replace('"cpu"', '"cuda"', 1)
MENDED = TWO.format(kind="safe").replace('"cpu"', '"cuda"')


def _script(folder: Path) -> str:
    return (folder / "work" / "script.py").read_text()


def test_it_mends_until_the_script_passes(tmp_path: Path) -> None:
    done = fix(tmp_path, TWO.format(kind="safe"))
    assert done.returncode == 0
    assert done.stdout == "begin\n", "the first round's output is the script's own, later rounds are silent"
    assert done.stderr.count("Traceback") == 1
    assert _script(tmp_path) == MENDED
    assert "wrote 2 fixes, and the script passes with 1 simulated GPU" in done.stderr
    assert "verified: the script runs to its end" in done.stderr
    assert "not verified: the run on a real GPU" in done.stderr
    diff = done.stderr[done.stderr.index("--- a/script.py") :]
    (tmp_path / "work" / "script.py").write_text(TWO.format(kind="safe"))
    subprocess.run(["git", "apply"], input=diff, text=True, cwd=tmp_path / "work", check=True)
    assert _script(tmp_path) == MENDED


KILL = """
import os, signal, sys
left = int(os.environ["KILL_AT"])

def note(event, args):
    global left
    if event in WATCHED and not (event == "open" and args[1] in ("r", "rb")):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

WATCHED = {"open", "os.rename", "os.remove", "os.chmod", "os.link", "tempfile.mkstemp", "tempfile.mkdtemp",
           "shutil.rmtree", "subprocess.Popen", "os.listdir", "os.mkdir"}
if "--fix" in sys.orig_argv:
    sys.addaudithook(note)
"""


def test_killed_at_any_moment_it_leaves_the_script_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill the command at each file that it opens, each rename and each run that it starts, until it comes through."""
    seen, killed = [], 0
    while True:
        monkeypatch.setenv("KILL_AT", str(killed))
        done = fix(tmp_path, TWO.format(kind="safe"), site=KILL)
        assert _script(tmp_path) in (TWO.format(kind="safe"), LEFT.replace("unsafe", "safe"), MENDED)
        seen.append(_script(tmp_path))
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
        assert killed < 500
    assert len(set(seen)) == 3 and seen[-1] == MENDED
    assert killed >= 10


def test_it_stops_where_no_fix_may_be_written(tmp_path: Path) -> None:
    done = fix(tmp_path, TWO.format(kind="unsafe"))
    assert done.returncode == 1
    assert _script(tmp_path) == LEFT
    assert "wrote 1 fix; a device error is left" in done.stderr
    assert "--unsafe-fixes takes it too" in done.stderr
    assert done.stderr.count("Traceback") == 2, "the last run's own words tell why it fails"
    done = fix(tmp_path, TWO.format(kind="unsafe"), "--simulate-cuda", "--fix", "--unsafe-fixes")
    assert done.returncode == 0


def test_a_script_without_a_device_error_is_left_alone(tmp_path: Path) -> None:
    for text, status in (("print(1)\n", 0), ("1 / 0\n", 1), ("raise SystemExit(5)\n", 5)):
        done = fix(tmp_path, text)
        assert done.returncode == status
        assert "whydevice" not in done.stderr.replace(str(tmp_path), "")
        assert _script(tmp_path) == text


def test_a_fix_that_does_not_help_is_taken_back_and_the_next_one_tried(tmp_path: Path) -> None:
    text = (
        'x = "cpu"\n'
        'need("x", x, ["safe", 1, 0, 1, 0, "z = 1\\nw = 2\\n"], ["safe", 1, 4, 1, 9, \'"cuda"\'])\n'
        "raise SystemExit(0 if x == 'cuda' else 9)\n"
    )
    done = fix(tmp_path, text)
    assert done.returncode == 0
    assert _script(tmp_path) == text.replace('"cpu"', '"cuda"', 1)
    assert "taken back: the same thing fails again at the same place" in done.stderr


@pytest.mark.parametrize(
    "bad",
    ["unknown_name", "None.cuda", '{}["k"]', "(lambda: 1 / 0)()"],
    ids=["name", "attribute", "key", "zero"],
)
def test_a_fix_that_breaks_the_script_is_taken_back(bad: str, tmp_path: Path) -> None:
    text = f'x = "cpu"\nneed("x", x, ["safe", 1, 4, 1, 9, {bad!r}])\n'
    done = fix(tmp_path, text)
    assert done.returncode == 1
    assert _script(tmp_path) == text
    assert "nothing mended" in done.stderr
    assert "on line 1 that was not there before" in done.stderr


def test_a_fix_whose_name_fails_elsewhere_is_taken_back(tmp_path: Path) -> None:
    fixed = 'w = x = "cuda"; del w'
    text = f'x = "cpu"\nneed("x", x, ["safe", 1, 0, 1, 9, {fixed!r}])\nif x == "cuda": print(w)\n'
    assert fix(tmp_path, text).returncode == 1
    assert _script(tmp_path) == text


def test_an_earlier_round_that_helped_is_kept(tmp_path: Path) -> None:
    text = (
        'x = "cpu"\ny = "cpu"\n'
        'need("x", x, ["safe", 1, 4, 1, 9, \'"cuda"\'])\n'
        'need("y", y, ["safe", 2, 4, 2, 9, "unknown"])\n'
    )
    done = fix(tmp_path, text)
    assert done.returncode == 1
    assert _script(tmp_path) == text.replace('"cpu"', '"cuda"', 1)
    assert "wrote 1 fix; a device error is left" in done.stderr


def test_an_error_of_the_scripts_own_that_comes_later_takes_nothing_back(tmp_path: Path) -> None:
    text = 'x = "cpu"\nneed("x", x, ["safe", 1, 4, 1, 9, \'"cuda"\'])\nprint(undefined)\n'
    done = fix(tmp_path, text)
    assert done.returncode == 1
    assert _script(tmp_path) == text.replace('"cpu"', '"cuda"', 1)
    assert "no device error is left, but the script still fails" in done.stderr
    assert "NameError: name 'undefined'" in done.stderr


def test_the_same_text_failing_further_on_is_progress(tmp_path: Path) -> None:
    fixes = "[['safe', 2, 0, 2, 0, 'x = \"cuda\"\\n'], ['safe', 5, 0, 5, 0, 'x = \"cuda\"\\n']]"
    text = f'x = "cpu"\nneed("x", x, {fixes}[0])\nx = "cpu"\nneed("x", x, {fixes}[1])\n'
    done = fix(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert _script(tmp_path).count('x = "cuda"\n') == 2


def test_a_later_turn_of_a_loop_that_fails_alike_takes_nothing_back(tmp_path: Path) -> None:
    """The same name fails in the same lines, but of another value, which the next fix mends."""
    text = (
        'a = "cpu"\nb = "cpu"\n'
        "for n, x in enumerate([a, b]):\n"
        "    need('x', x, ['safe', n + 1, 4, n + 1, 9, '\"cuda\"'])\n"
    )
    done = fix(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert _script(tmp_path) == text.replace('"cpu"', '"cuda"')


def test_the_rounds_are_bounded(tmp_path: Path) -> None:
    # Every run fails one line further down, at what the fix before it wrote.
    text = (
        "import sys\nlines = open(__file__).read().count('\\n')\n"
        'need("x%d" % lines, "cpu", ["safe", lines + 1, 0, lines + 1, 0, "# one more\\n"])\n'
    )
    done = fix(tmp_path, text)
    assert done.returncode == 1
    assert "stopped after 10 runs" in done.stderr
    assert _script(tmp_path).count("\n# one more") == 9


def test_json_holds_every_round_and_what_was_verified(tmp_path: Path) -> None:
    fix(tmp_path, TWO.format(kind="safe"), "--simulate-cuda", "--fix", "--json", "out.json")
    entries = json.loads((tmp_path / "work" / "out.json").read_text())["explanations"]
    assert [e["culprit"]["expression"] for e in entries] == ["x", "y"]
    assert [f["verified"] for e in entries for f in e["fixes"]] == [True, True]


def test_arguments_and_folder_reach_every_round(tmp_path: Path) -> None:
    text = 'import sys\nx = "cpu"\nneed("x", x, ["safe", 2, 4, 2, 9, \'"cuda"\'])\nsys.exit(len(sys.argv))\n'
    assert fix(tmp_path, text, args=("--fix", "b c")).returncode == 3


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    # The superuser may write anywhere; a file with a second name is refused to everybody.
    text = "import os\nos.link(__file__, 'second.py')\n" + TWO.format(kind="safe")
    done = fix(tmp_path, text.replace("2, 4, 2", "4, 4, 4").replace("3, 4, 3", "5, 4, 5"))
    assert done.returncode == 1
    assert "not written" in done.stderr


def test_without_simulation_one_run_is_all(tmp_path: Path) -> None:
    done = fix(tmp_path, TWO.format(kind="safe"), "--fix")
    assert done.returncode == 1
    assert _script(tmp_path) == TWO.format(kind="safe").replace('"cpu"', '"cuda"', 1)
    assert "wrote the fix into script.py; not verified: run the script again" in done.stderr
    assert done.stderr.count("Traceback") == 1


@pytest.mark.parametrize(
    "options", [("--diff",), ("--simulate-cuda", "--diff"), ("--simulate-cuda", "--diff", "--fix")]
)
def test_a_diff_is_printed_and_nothing_is_changed(options: tuple[str, ...], tmp_path: Path) -> None:
    text = "import os\n" + 'os.chdir("/")\n' + 'x = "cpu"\nneed("x", x, ["safe", 3, 4, 3, 9, \'"cuda"\'])\n'
    done = fix(tmp_path, text, *options)
    assert done.returncode == 1
    assert _script(tmp_path) == text
    assert done.stdout.startswith("--- a/script.py\n+++ b/script.py\n")
    subprocess.run(["git", "apply"], input=done.stdout, text=True, cwd=tmp_path / "work", check=True)
    assert _script(tmp_path) == text.replace('"cpu"', '"cuda"', 1)


APPLY = {"git": ["git", "apply"], "patch": ["patch", "-p1"]}


@pytest.mark.parametrize("tool", APPLY)
def test_a_simulated_diff_is_what_fix_writes_after_all_rounds(tool: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    # The second error is in a module, with another encoding, and is reached through the mended script only.
    helper = "# coding: latin-1\ny = 'cpu'  # \xe9\ndef go():\n    need('y', y, ['safe', 2, 4, 2, 9, '\"cuda\"'])\n"
    (work / "helper.py").write_text(helper, encoding="latin-1")
    text = (
        'x = "cpu"\nneed("x", x, ["safe", 1, 4, 1, 9, \'"cuda"\'])\nimport helper, sys\n'
        "helper.go()\nprint('end', open(__file__).read().count('cuda'))\nsys.exit(x != 'cuda')\n"
    )
    done = fix(tmp_path, text, "--simulate-cuda", "--diff")
    assert done.returncode == 1, "the script as it is fails"
    assert _script(tmp_path) == text
    assert (work / "helper.py").read_text(encoding="latin-1") == helper
    assert "the diff has 2 fixes, and the script passes with 1 simulated GPU" in done.stderr
    diff = done.stdout.encode("utf-8", "surrogateescape")
    subprocess.run(APPLY[tool], input=diff, cwd=work, check=True, capture_output=True)
    mended = _script(tmp_path), (work / "helper.py").read_bytes()
    assert mended[0] == text.replace('"cpu"', '"cuda"', 1)
    assert mended[1] == helper.replace("y = 'cpu'", 'y = "cuda"').encode("latin-1")
    (work / "helper.py").write_text(helper, encoding="latin-1")
    assert fix(tmp_path, text, "--simulate-cuda", "--fix").returncode == 0
    assert (_script(tmp_path), (work / "helper.py").read_bytes()) == mended


@pytest.mark.parametrize("tool", APPLY)
def test_a_simulated_diff_of_files_that_end_oddly(tool: str, tmp_path: Path) -> None:
    """A module in a folder, its lines end in CRLF; neither file has a newline at its end."""
    folder = tmp_path / "work" / "sub"
    folder.mkdir(parents=True)
    helper = "y = 'cpu'\r\ndef go():\r\n    need('y', y, ['safe', 1, 4, 1, 9, '\"cuda\"'])"
    (folder / "helper.py").write_bytes(helper.encode())
    text = "import sub.helper\nx = 'cpu'\nneed('x', x, ['safe', 2, 4, 2, 9, '\"cuda\"'])\nsub.helper.go()"
    done = fix(tmp_path, text, "--simulate-cuda", "--diff", text_mode=False)
    assert b"the diff has 2 fixes, and the script passes" in done.stderr, done.stderr
    command = [*APPLY[tool], "--binary"] if tool == "patch" else APPLY[tool]
    subprocess.run(command, input=done.stdout, cwd=tmp_path / "work", check=True, capture_output=True)
    assert (folder / "helper.py").read_bytes() == helper.replace("'cpu'", '"cuda"').encode()
    assert _script(tmp_path) == text.replace("'cpu'", '"cuda"')


def test_a_simulated_diff_reaches_spawned_children(tmp_path: Path) -> None:
    """A spawned child imports the script anew, and must see it as it is with the fixes so far."""
    text = (
        'import multiprocessing, sys\nx = "cpu"\ny = "cpu"\ndef child():\n    sys.exit(x == "cpu")\n'
        'if __name__ == "__main__":\n'
        "    need('x', x, ['safe', 2, 4, 2, 9, '\"cuda\"'])\n"
        '    one = multiprocessing.get_context("spawn").Process(target=child)\n'
        "    one.start()\n    one.join()\n    sys.exit(one.exitcode)\n"
    )
    done = fix(tmp_path, text, "--simulate-cuda", "--diff")
    assert _script(tmp_path) == text
    assert "the diff has 1 fix, and the script passes with 1 simulated GPU" in done.stderr, done.stderr


def test_a_diff_says_why_there_is_none(tmp_path: Path) -> None:
    done = fix(tmp_path, TWO.format(kind="unsafe").replace('"safe"', '"unsafe"'), "--simulate-cuda", "--diff")
    assert (done.returncode, done.stdout) == (1, "begin\n")
    assert "--unsafe-fixes takes it too" in done.stderr


def test_lines_move_with_edits_before_them() -> None:
    insert = Edit("f.py", 3, 0, 3, 0, "a\nb\n")
    assert [moved_line([insert], "f.py", n) for n in (2, 3, 4)] == [2, 5, 6]
    assert moved_line([insert], "g.py", 4) == 4
    assert {line for _, line in edited_lines([insert])} == {3, 4}
    remove = Edit("f.py", 3, 0, 5, 0, "")
    assert moved_line([remove], "f.py", 6) == 4
    replaced = Edit("f.py", 7, 4, 7, 9, "x")
    assert {line for _, line in edited_lines([insert, replaced])} == {3, 4, 9}
