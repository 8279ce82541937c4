"""The switch for an environment: `--enable-site` writes a .pth file, `--disable-site` removes it."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from processes import LIGHT_MISMATCH, SRC, environment


def test_a_script_that_knows_nothing_of_us_is_explained(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    python = str(tmp_path / "env" / "bin" / "python")
    script = tmp_path / "script.py"
    script.write_text(LIGHT_MISMATCH)

    def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *args], env=environment(**env), cwd=tmp_path, capture_output=True, text=True, timeout=60
        )

    assert run("-m", "whydevice", "--disable-site").stdout.startswith("nothing to do")
    plain = run("script.py", WHYDEVICE="1")
    assert "whydevice: " not in plain.stderr
    enabled = run("-m", "whydevice", "--enable-site")
    assert (enabled.returncode, enabled.stdout.startswith("wrote ")) == (0, True)
    [written] = (tmp_path / "env").rglob("whydevice.pth")
    for value in ("1", "everywhere"):
        shown = run("script.py", WHYDEVICE=value)
        assert shown.returncode == 1
        assert shown.stderr.count("\nwhydevice: ") == 1
    for off in ({}, {"WHYDEVICE": "0"}):
        assert run("script.py", **off).stderr == plain.stderr
    # Without the package the line is silent.
    gone = subprocess.run(
        [python, "-c", "print(1)"],
        env=environment(WHYDEVICE="1", PYTHONPATH=""),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (gone.stdout, gone.stderr) == ("1\n", "")
    assert run("-m", "whydevice", "--disable-site").stdout == f"removed {written}\n"
    assert not written.exists()
    assert SRC and sys.executable
