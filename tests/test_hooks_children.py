"""Child processes: explained where they print their error, and otherwise as without us."""

from __future__ import annotations

from pathlib import Path

import pytest

from processes import outcome, run, why

SCRIPT = """\
import {module}
import multiprocessing as mp
{torch}

def work(n):
    print("in", n, flush=True)
    {fail}

if __name__ == "__main__":
    for method in {methods}:
        child = mp.get_context(method).Process(target=work, args=(method,), name=method)
        child.start()
        child.join()
        print(method, child.exitcode, flush=True)
"""
METHODS = ("fork", "spawn", "forkserver")
MISMATCH = 'torch.ones(3) + torch.ones(3, device="meta")'


def _script(folder: Path, **names: object) -> str:
    values = {"module": "json", "torch": "", "fail": "int('x')", "methods": METHODS} | names
    (folder / "script.py").write_text(SCRIPT.format(**values))
    return "script.py"


def test_an_ordinary_error_of_a_child_is_printed_as_without_us(tmp_path: Path) -> None:
    plain = run(_script(tmp_path), cwd=tmp_path)
    assert plain.stderr.count("Traceback") == 3
    assert outcome(why("script.py", cwd=tmp_path)) == outcome(plain)
    imported = run(_script(tmp_path, module="whydevice"), cwd=tmp_path)
    assert imported.stderr.replace("import whydevice", "import json") == plain.stderr
    assert imported.stdout == plain.stdout


@pytest.mark.parametrize("cli", [False, True])
def test_each_kind_of_child_is_explained_once(cli: bool, tmp_path: Path) -> None:
    methods = METHODS if cli else ("fork", "spawn")
    module = "json" if cli else "whydevice"
    script = _script(tmp_path, torch="import torch", fail=MISMATCH, module=module, methods=methods)
    done = (why if cli else run)(script, cwd=tmp_path)
    assert done.stderr.count("\nwhydevice: ") == len(methods)
    assert done.stderr.count("Traceback") == len(methods)
    assert done.stdout == "".join(f"in {m}\n{m} 1\n" for m in methods)


def test_simulated_gpus_are_there_in_children(tmp_path: Path) -> None:
    fail = "print(torch.cuda.device_count(), flush=True)"
    script = _script(tmp_path, torch="import torch", fail=fail, methods=("fork", "spawn"))
    done = why("--simulate-cuda=3", script, cwd=tmp_path)
    assert done.stdout == "".join(f"in {m}\n3\n{m} 0\n" for m in ("fork", "spawn"))


def test_a_child_that_cannot_find_whydevice_still_starts(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing as mp, os, sys\n"
        "def work():\n    print('in')\n"
        "if __name__ == '__main__':\n"
        "    os.environ['PYTHONPATH'] = ''\n"
        "    child = mp.get_context('spawn').Process(target=work)\n"
        "    child.start(); child.join(); print(child.exitcode)\n"
    )
    assert outcome(why("script.py", cwd=tmp_path)) == ("in\n0\n", "", 0)


def test_what_frameworks_send_to_the_parent_is_explained_there_once() -> None:
    folder = Path(__file__).parent / "data" / "frameworks"
    for name in ("dataloader_worker.py", "spawned_rank.py"):
        done = why(name, cwd=folder)
        assert done.stderr.count("\nwhydevice: ") == 1, name
        assert done.returncode == 1
