"""The pytest plugin, in real pytest runs."""

from __future__ import annotations

import os
import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

from processes import LIGHT, SRC, environment, run

TESTS = """\
import pytest
import torch

def shifted(a):
    return a + torch.from_numpy(torch.empty(3, device="meta").numpy())

def test_bad():
    shifted(torch.ones(3))

def test_zero():
    1 / 0

def test_fine():
    pass

@pytest.mark.simulate_cuda(2)
def test_two():
    assert torch.cuda.device_count() == 2
    x = torch.ones(3, device="cuda:1")
    assert str(x.device) == "cuda:1"

def test_none():
    assert not torch.cuda.is_available()
"""


def _pytest(folder: Path, *options: str, text: str = TESTS, plugin: bool = True) -> Any:
    (folder / "test_it.py").write_text(textwrap.dedent(text))
    ours = ["-p", "whydevice.catch.pytest_plugin"] if plugin else []
    flags = ["-p", "no:cacheprovider", "-p", "no:whydevice", *ours, "-q", "--color=no"]
    env = environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="")
    return run("-m", "pytest", *flags, *options, cwd=folder, env=env)


def _sections(text: str) -> int:
    return len(re.findall(r"^-+ whydevice -+\nwhydevice: ", text, re.M))


@pytest.mark.parametrize("options", [(), ("--tb=short", "--show-capture=no"), ("--tb=native", "-n1")])
def test_a_device_error_gets_a_section(options: tuple[str, ...], tmp_path: Path) -> None:
    if "-n1" in options:
        pytest.importorskip("xdist")
    done = _pytest(tmp_path, *options)
    assert _sections(done.stdout) == 1
    section = done.stdout.index(" whydevice -")
    assert done.stdout.index("test_bad") < section < done.stdout.index("_ test_zero _")
    assert "2 failed, 3 passed" in done.stdout
    assert done.returncode == 1


def test_without_a_device_error_the_output_is_as_without_the_plugin(tmp_path: Path) -> None:
    text = "import torch\ndef test_a(): 1 / 0\ndef test_b(): torch.ones(3) @ torch.ones(4)\n"
    outputs = [_pytest(tmp_path, text=text, plugin=on).stdout for on in (True, False)]
    plain, ours = (re.sub(r"in [\d.]+s", "", text) for text in outputs)
    assert ours == plain


def test_the_whole_suite_with_simulated_gpus(tmp_path: Path) -> None:
    text = """\
    import torch
    weight = torch.ones(3, device="cuda")
    def test_mixed():
        torch.ones(3) + weight
    def test_count():
        assert torch.cuda.device_count() == 2
    """
    done = _pytest(tmp_path, "--simulate-cuda=2", text=text)
    assert "1 failed, 1 passed" in done.stdout
    assert _sections(done.stdout) == 1
    assert "whydevice/simulate" not in done.stdout, "our frames do not show"
    assert "takes a number of GPUs" in _pytest(tmp_path, "--simulate-cuda=0", text=text).stderr


def test_the_entry_point_and_the_option_that_turns_it_off(tmp_path: Path) -> None:
    # As an installed package has it: the name is that of `-p no:whydevice`.
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["pytest11"]
    installed = tmp_path / "site" / "whydevice_of_this_tree-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Name: whydevice-of-this-tree\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(
        "[pytest11]\n" + "".join(f"{name} = {module}\n" for name, module in points.items())
    )
    (tmp_path / "test_it.py").write_text(LIGHT + "def test_bad(): shifted(3)\n")
    env = environment(PYTHONPATH=os.pathsep.join([str(tmp_path / "site"), SRC]))
    for options, sections in (((), 1), (("-p", "no:whydevice"), 0)):
        flags = ["-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--color=no", *options]
        done = run("-m", "pytest", *flags, "test_it.py", cwd=tmp_path, env=env)
        assert "1 failed" in done.stdout, done.stdout + done.stderr
        assert done.stdout.count("an explanation") == sections
