"""IPython and Jupyter: a real kernel, and the terminal in a pseudo terminal."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from processes import HANGS, NO_TORCH, environment

BAD = "import torch\ndef shifted(a):\n    return a - torch.from_numpy(torch.empty(3, device='meta').numpy())"


def _execute(folder: Path, cells: list[str], monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The outputs of each cell, run by nbclient in a kernel of this Python."""
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    for name, value in environment(JUPYTER_PLATFORM_DIRS="1").items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "", "language": "python"}
    # Its own few seconds for a kernel to start, and for the last output of a cell, pass on a busy machine.
    waits = {"timeout": HANGS, "startup_timeout": HANGS, "iopub_timeout": HANGS}
    client = nbclient.NotebookClient(
        notebook, allow_errors=True, resources={"metadata": {"path": str(folder)}}, **waits
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
    assert "cell [2], line 3" in shown["text/plain"]
    assert "ipykernel" not in shown["text/plain"]
    words = re.findall(r"[\w.]+", shown["text/plain"].splitlines()[0])
    assert all(word in shown["text/html"] for word in words)


ORDINARY = [
    "def fails(x):\n    return 1 / x",
    "fails(0)",
    "%tb",
    "raise RuntimeError('a cuda device that is not on the expected device')",
    "%run script.py",
    "%xmode Plain",
    "fails(0)",
    "raise ExceptionGroup('several', [ValueError(), KeyError(1)])",
    "not python",
    "raise SystemExit(3)",
    "fails(4)",
]


def test_a_kernel_without_a_device_error_puts_out_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.py").write_text("int('x')\n")
    plain, ours = (
        repr(_execute(tmp_path, [first, *ORDINARY], monkeypatch)[1:])
        for first in ("import json", "%load_ext whydevice")
    )
    assert re.sub(r"ipykernel_\d+", "", ours) == re.sub(r"ipykernel_\d+", "", plain)
    assert "ZeroDivisionError" in plain


CHANGES = r"ipykernel_\d+|(?:user|sys:|total:|Wall time:) [^,\\]*"
FAILING = [
    "shifted(3)",
    "%tb",
    "%%time\nshifted(3)",
    "%run -i script.py",
    "%xmode Minimal",
    "shifted(3)",
    "%tb Verbose",
    "print(type(sys.last_value).__name__)",
]


def test_a_kernel_puts_out_what_it_did_before_our_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.py").write_text("shifted(3)\n")
    printed = []
    for first in ("import json", "%load_ext whydevice"):
        outputs = _execute(tmp_path, [first, NO_TORCH, *FAILING], monkeypatch)[2:]
        kept = [[one for one in cell if one.output_type != "display_data"] for cell in outputs]
        shown = [sum(one.output_type == "display_data" for one in cell) for cell in outputs]
        printed.append((re.sub(CHANGES, "", repr(kept)), shown))
    (plain, none), (ours, shown) = printed
    assert ours == plain
    assert none == [0] * len(FAILING)
    assert shown == [1, 0, 1, 1, 0, 1, 0, 0]
    assert plain.count("'output_type': 'error'") == 6


class _Terminal:
    """IPython's terminal, in a pseudo terminal."""

    def __init__(self, folder: Path) -> None:
        self.pexpect: Any = pytest.importorskip("pexpect")
        flags = ["--simple-prompt", "--no-banner", "--no-confirm-exit", "--colors=NoColor", "-i"]
        env = environment(IPYTHONDIR=str(folder / "ipython"), TERM="dumb")
        self.child = self.pexpect.spawn(
            sys.executable,
            ["-m", "IPython", *flags],
            env=env,
            cwd=str(folder),
            encoding="utf-8",
            timeout=HANGS,
        )
        self.number = 0

    def __call__(self, text: str) -> str:
        """What a cell prints."""
        self.number += 1
        self.child.expect_exact(f"In [{self.number}]: ")
        self.child.sendline(text)
        self.child.expect_exact("\n")
        # It lies before the next prompt.
        self.child.expect(rf"(?s)(.*?)(?=In \[{self.number + 1}\]: |ipdb> )")
        return str(self.child.match.group(1))

    def leave(self) -> None:
        self.child.sendline("exit")
        self.child.expect(self.pexpect.EOF)


def test_the_terminal(tmp_path: Path) -> None:
    cell = _Terminal(tmp_path)
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
    cell.child.sendline("q")
    assert "whydevice: " in cell("%why")
    cell("whydevice.uninstall()")
    assert "whydevice: " not in cell("torch.ones(3) - torch.ones(3, device='meta')")
    cell.leave()


def test_the_terminal_without_a_device_error_prints_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("int('x')\n")
    printed = []
    for first in ("import json", "import whydevice"):
        cell = _Terminal(tmp_path)
        cell(first)
        printed.append([cell(one) for one in ORDINARY if "\n" not in one and "SystemExit" not in one])
        cell.leave()
    assert printed[0] == printed[1]
    assert any("ZeroDivisionError" in one or "NameError" in one for one in printed[0])


def test_a_fix_shows_the_cell_as_it_should_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [
        "%load_ext whydevice\nimport torch, whydevice\nwhydevice.simulate_cuda(1).__enter__()",
        "%precision 3\ndef shifted(x):\n    steps = torch.arange(3)\n    return x + steps",
        "x = torch.ones(3, device='cuda')\nshifted(x)",
    ]
    error, block = _execute(tmp_path, cells, monkeypatch)[2]
    printed = "\n".join(error.traceback)
    assert "shifted" in printed
    assert "whydevice/simulate" not in printed, "IPython prints no entry of ours"
    shown = block.data
    assert "fix (safe)" in shown["text/plain"]
    wanted = cells[1].replace("arange(3)", "arange(3, device=x.device)")
    assert wanted in shown["text/html"]
    assert "cell [2] with the fix" in shown["text/html"]
    assert "ipykernel" not in shown["text/html"]
