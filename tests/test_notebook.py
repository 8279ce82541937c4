"""IPython and Jupyter: a real kernel, and the terminal in a pseudo terminal."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from processes import environment

BAD = "import torch\ndef shifted(a):\n    return a - torch.ones(3, device='meta')"


def _execute(folder: Path, cells: list[str], monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The outputs of each cell, run by nbclient in a kernel of this Python."""
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    for name, value in environment(JUPYTER_PLATFORM_DIRS="1").items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "", "language": "python"}
    client = nbclient.NotebookClient(
        notebook, allow_errors=True, timeout=120, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return [cell.outputs for cell in notebook.cells]


def _kinds(outputs: list[Any]) -> list[str]:
    return [output.output_type for output in outputs]


def test_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "script.py").write_text("shifted(torch.ones(3))\n")
    cells = {
        "load": "%load_ext whydevice",
        "define": BAD,
        "bad": "shifted(torch.ones(3))",
        "other": "1 / 0",
        "nothing": "%why",
        "timed": "%%time\nshifted(torch.ones(3))",
        "run": "%run -i script.py",
        "why": "%why",
        "tb": "%tb",
        "xmode": "%xmode Minimal",
        "twice": "%load_ext whydevice\nshifted(torch.ones(3))",
        "unload": "%unload_ext whydevice",
        "after": "shifted(torch.ones(3))",
        "imported": "import whydevice; whydevice.install()\nshifted(torch.ones(3))",
    }
    outputs = dict(zip(cells, _execute(tmp_path, list(cells.values()), monkeypatch), strict=True))
    for name in ("load", "define", "xmode", "unload"):
        assert "error" not in _kinds(outputs[name]), name
    for name in ("bad", "run", "twice", "imported"):
        assert _kinds(outputs[name])[-2:] == ["error", "display_data"], name
        assert _kinds(outputs[name]).count("display_data") == 1, name
    assert sorted(_kinds(outputs["timed"])) == ["display_data", "error", "stream"]
    assert _kinds(outputs["timed"])[-1] == "display_data"
    for name in ("other", "tb", "after"):
        assert _kinds(outputs[name]) == ["error"], name
    assert "not a device error" in outputs["nothing"][0].text
    [again] = outputs["why"]
    assert again.data["text/plain"] == outputs["run"][1].data["text/plain"]

    shown = outputs["bad"][1].data
    assert shown["text/plain"].lstrip("\n").startswith("whydevice: ")
    assert "cell [2]" in shown["text/plain"]
    assert "ipykernel" not in shown["text/plain"]
    words = re.findall(r"[\w.]+", shown["text/plain"].splitlines()[0])
    assert all(word in shown["text/html"] for word in words)


def test_the_terminal(tmp_path: Path) -> None:
    pexpect = pytest.importorskip("pexpect")
    flags = ["--simple-prompt", "--no-banner", "--no-confirm-exit", "--colors=NoColor", "-i"]
    env = environment(IPYTHONDIR=str(tmp_path / "ipython"), TERM="dumb")
    child = pexpect.spawn(
        sys.executable, ["-m", "IPython", *flags], env=env, cwd=str(tmp_path), encoding="utf-8", timeout=60
    )
    number = 0

    def cell(text: str) -> str:
        nonlocal number
        number += 1
        child.expect_exact(f"In [{number}]: ")
        child.sendline(text)
        child.expect_exact("\n")
        # What the cell printed lies before the next prompt.
        child.expect(rf"(?s)(.*?)(?=In \[{number + 1}\]: |ipdb> )")
        return str(child.match.group(1))

    cell("import whydevice, torch")
    text = cell("torch.ones(3) + torch.ones(3, device='meta')")
    assert text.index("RuntimeError") < text.index("whydevice: ")
    assert text.count("whydevice: ") == 1
    assert "cell [2]" in text
    assert "whydevice" not in cell("1 / 0")
    assert "not a device error" in cell("%why")
    assert "whydevice: " not in cell("%tb")
    cell("torch.ones(3) - torch.ones(3, device='meta')")
    debugging = cell("%debug")
    assert "check_same_device" in debugging or "raise RuntimeError" in debugging
    child.sendline("q")
    assert "whydevice: " in cell("%why")
    child.sendline("exit")
    child.expect(pexpect.EOF)


def test_a_fix_shows_the_cell_as_it_should_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [
        "%load_ext whydevice\nimport torch, whydevice\nwhydevice.simulate_cuda(1).__enter__()",
        "%precision 3\ndef shifted(x):\n    steps = torch.arange(3)\n    return x + steps",
        "x = torch.ones(3, device='cuda')\nshifted(x)",
    ]
    shown = _execute(tmp_path, cells, monkeypatch)[2][-1].data
    assert "fix (safe)" in shown["text/plain"]
    wanted = cells[1].replace("arange(3)", "arange(3, device=x.device)")
    assert wanted in shown["text/html"]
    assert "cell [2] with the fix" in shown["text/html"]
    assert "ipykernel" not in shown["text/html"]
