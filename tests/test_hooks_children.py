"""Child processes: explained where they print their error, and otherwise as without us."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from processes import environment, outcome, run, why

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
MISMATCH = 'torch.empty(3, device="meta").numpy()'


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


HANDED_ON = """\
import whydevice, sys, torch
import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor
from torch.utils.data import DataLoader
import torch.multiprocessing

table = torch.empty(4, 3, device="meta")

def predict(x):
    return table.numpy()[x]  # an error that is quickly raised, unlike that of an operation

class Rows:
    def __len__(self): return 2
    def __getitem__(self, i): return predict(i)

def pool(how):
    with mp.get_context(how).Pool(1) as pool: pool.map(predict, [1])

def executor(how):
    with ProcessPoolExecutor(1, mp_context=mp.get_context(how)) as pool: list(pool.map(predict, [1]))

def loader(how):
    list(DataLoader(Rows(), num_workers=1, multiprocessing_context=how))

def processes(how):
    torch.multiprocessing.start_processes(predict, nprocs=1, start_method=how)

if __name__ == "__main__":
    for call in sys.argv[2:]:
        try:
            globals()[call](sys.argv[1])
        except Exception as exc:
            sys.excepthook(type(exc), exc, exc.__traceback__)
"""


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_what_a_child_hands_on_is_explained_once_from_its_own_frames(
    how: str, everywhere: bool, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(HANDED_ON)
    calls = ["pool", "executor", "loader", "processes"]
    env = environment(OMP_NUM_THREADS="1", **({"WHYDEVICE": "everywhere"} if everywhere else {}))
    done = run("script.py", how, *calls, cwd=tmp_path, env=env)
    said = re.findall(r"^whydevice: (.*)", done.stderr, re.M)
    assert len(said) == len(calls), done.stderr
    assert all(line.startswith("`table` is on meta") for line in said)


def test_an_explanation_travels_with_a_pickled_exception(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        """\
import pickle, subprocess, sys, torch, whydevice
def fails():
    here = torch.empty(3, device="meta")
    here.numpy()
try:
    fails()
except TypeError as exc:
    whydevice.explain(exc)
    data = pickle.dumps(exc)
# Without whydevice it loads all the same.
subprocess.run([sys.executable, "-I", "-c", "import pickle, sys; print(repr(pickle.load(sys.stdin.buffer)))"],
               input=data, check=True)
copy = pickle.loads(data)
print(whydevice.explain(copy).culprit.expression)
vars(copy)["__whydevice__"] = pickle.dumps(whydevice.guard.listeners)
print(whydevice.explain(copy).culprit)
"""
    )
    done = run("script.py", cwd=tmp_path)
    first, expression, without = done.stdout.splitlines()
    assert first.startswith("TypeError(")
    assert expression == "here"
    assert without == "None", done.stderr


def test_the_text_of_our_own_block_is_not_read_again() -> None:
    from whydevice.explain import text_of

    message = "Expected all tensors to be on the same device"
    assert text_of(RuntimeError(message + "\n\nwhydevice: `x` is on cpu\n")) == message + "\n"
    assert text_of(RuntimeError(message)) == message


def test_a_replica_of_dataparallel_is_explained_from_its_own_frames(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.table = torch.ones(4)
    def forward(self, x):
        return self.fc(x) * self.table
nn.DataParallel(Net().cuda(), [0, 1])(torch.ones(4, 4).cuda())
"""
    )
    done = why("--simulate-cuda=2", "script.py", cwd=tmp_path)
    assert "Caught RuntimeError in replica 0 on device 0" in done.stderr
    assert "\nwhydevice: `self.table` is on cpu" in done.stderr
