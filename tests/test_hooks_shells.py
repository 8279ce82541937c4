"""Debuggers, and IPython shells that start after us or inside a program: all as without us, and our block once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from processes import LIGHT, NO_TORCH, environment, run


def _run(folder: Path, text: str, *flags: str, typed: str, **env: str) -> Any:
    (folder / "script.py").write_text(text)
    env = environment(TERM="dumb", IPYTHONDIR=str(folder / "ipython"), **env)
    return run(*flags, "script.py", cwd=folder, env=env, input=typed)


def _blocks(text: str) -> int:
    return len(re.findall(r"^whydevice: an explanation", text, re.M))


DEBUGGED = {
    "pdb": (("-m", "pdb", "-c", "continue"), "FAILS(3)\n", "p a\nw\nq\nq\n"),
    "pm": (("-i",), "FAILS(3)\n", "import pdb; pdb.pm()\np a\nw\nq\n"),
    "post_mortem": (
        (),
        "import pdb\ntry:\n    FAILS(3)\nexcept Exception:\n    pdb.post_mortem()\n",
        "p a\nw\nq\n",
    ),
    "breakpoint": ((), "def f(a):\n    breakpoint()\n    FAILS(a)\nf(3)\n", "p a\nc\n"),
    "breakpoint in except": (
        (),
        "try:\n    FAILS(3)\nexcept Exception:\n    breakpoint()\n    print('on')\n",
        "w\nc\n",
    ),
}


@pytest.mark.parametrize("name", DEBUGGED)
def test_a_debugger(name: str, tmp_path: Path) -> None:
    flags, script, typed = DEBUGGED[name]
    # Buffered, a shell at the end of a pipe reads also what is meant for the debugger in it.
    given = {"typed": typed, "PYTHONUNBUFFERED": "1"}
    ours, plain = (
        _run(tmp_path, f"import {module}\n" + LIGHT + script.replace("FAILS", "shifted"), *flags, **given)
        for module in ("whydevice", "json")
    )
    told = ours.stdout.replace("import whydevice", "import json")
    assert (told, ours.returncode) == (plain.stdout, plain.returncode)
    assert "(Pdb) 3" in plain.stdout or "in except" in name
    assert _blocks(ours.stderr) == (0 if "in except" in name else 1), "explained as the error surfaces"
    # An error that is not ours.
    ours, plain = (
        _run(tmp_path, f"import {module}\n" + LIGHT + script.replace("FAILS", "int"), *flags, **given)
        for module in ("whydevice", "json")
    )
    swapped = [text.replace("import whydevice", "import json") for text in (ours.stdout, ours.stderr)]
    assert [*swapped, ours.returncode] == [plain.stdout, plain.stderr, plain.returncode]


EMBEDS = """\
def inside(local):
    from IPython import embed
    embed(colors="nocolor", simple_prompt=True, display_banner=False)
    print("after", local)
inside(7)
int("x")
"""
TYPED = "local\nint('y')\n%xmode Plain\nint('z')\n%tb\n%run -i other.py\n%debug\nw\nq\nexit\n"


@pytest.mark.parametrize("order", ["before", "after"])
def test_an_embedded_shell_without_a_device_error_is_as_without_us(order: str, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("print(local)\nint('o')\n")
    printed = []
    for module in ("mimetypes", "whydevice"):
        lines = [f"import {module}\n", "import IPython\n"]
        text = "".join(lines if order == "before" else reversed(lines)) + EMBEDS
        done = _run(tmp_path, text, typed=TYPED)
        printed.append([done.stdout.replace(module, "mimetypes"), done.stderr, done.returncode])
    assert printed[0] == printed[1]
    assert printed[0][0].count("ValueError") >= 4


def test_an_embedded_shell_explains_a_device_error_and_so_does_the_program_after_it(tmp_path: Path) -> None:
    typed = "shifted(3)\n%why\n%debug\np a\nq\nint('y')\nexit\n"
    text = "import whydevice\n" + NO_TORCH + EMBEDS.replace('int("x")', "shifted(4)")
    done = _run(tmp_path, text, typed=typed)
    in_shell, after = (done.stdout + done.stderr).split("after 7")
    assert [_blocks(cell) for cell in in_shell.split("In [")[1:5]] == [1, 1, 0, 0]
    assert "ipdb> 3" in in_shell
    assert _blocks(after) == 1


def test_an_ipython_that_starts_after_us(tmp_path: Path) -> None:
    text = (
        "import whydevice\n"
        + NO_TORCH
        + (
            "import IPython\nIPython.start_ipython(\n"
            "    ['--simple-prompt', '--no-banner', '--colors=NoColor', '--no-confirm-exit'], user_ns=globals())\n"
        )
    )
    done = _run(tmp_path, text, typed="shifted(3)\nwhydevice.uninstall()\nshifted(3)\nexit\n")
    assert [_blocks(cell) for cell in done.stdout.split("In [")[1:4]] == [1, 0, 0]
