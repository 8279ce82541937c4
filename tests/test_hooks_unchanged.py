"""No device error: what is printed is byte for byte what it is without whydevice, and so is the exit status.

The same script runs twice; only what the interpreter imports at its start differs (`sitecustomize`, which
child processes and ranks import too). Here are the tools that start processes or wrap errors in much of
their own; rich, sentry, wandb, better_exceptions and Hydra are in test_hooks_others.py, unittest and
asyncio in test_hooks.py, pytest in test_pytest_plugin.py, IPython and Jupyter in test_notebook.py and
test_hooks_shells.py.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from processes import SRC, environment, run

RANKS = """\
import os, sys, time
import torch, torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    dist.init_process_group("gloo")
    total = torch.ones(2)
    dist.all_reduce(total)
    print(f"total {total}\\n", end="", flush=True)
    if dist.get_rank() == 1:
        raise RuntimeError("the cuda device of this rank is on the expected device")
    time.sleep(600)  # until the launcher ends it

main()
"""
LOADER = """\
import sys, torch
from torch.utils.data import DataLoader

class Rows:
    def __len__(self): return 6
    def __getitem__(self, i):
        if i >= int(sys.argv[1]):
            raise IndexError(f"row {i} on the cpu")
        return torch.full((2,), float(i))

for batch in DataLoader(Rows(), batch_size=2, num_workers=1):
    print(batch)
"""
LIGHTNING = """\
import logging, sys, warnings
warnings.simplefilter("ignore")
import torch
from lightning.pytorch import LightningModule, Trainer

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    def training_step(self, batch, i):
        if i == 1:
            raise ValueError("expected all of them on the device")
        return self.fc(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

trainer = Trainer(max_steps=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(4, 3)))
"""
ACCELERATE = """\
from accelerate import Accelerator
print(Accelerator(cpu=True).device, flush=True)
raise RuntimeError("not on the expected device")
"""
LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
ACCELERATE_LAUNCH = ["-m", "accelerate.commands.launch", "--cpu", "--num_processes=1", "--num_machines=1"]
ACCELERATE_LAUNCH += ["--mixed_precision=no", "--dynamo_backend=no"]
TOOLS: dict[str, tuple[str, str, list[str], list[str], int]] = {
    "torchrun": ("torch", RANKS, LAUNCH, [], 1),
    "DataLoader": ("torch", LOADER, [], ["4"], 1),
    "DataLoader without an error": ("torch", LOADER, [], ["6"], 0),
    "Lightning": ("lightning", LIGHTNING, [], [], 1),
    "accelerate launch": ("accelerate", ACCELERATE, ACCELERATE_LAUNCH, [], 1),
}
CHANGES = (
    r"\[W?E?I?\d* ?\d\d:\d\d:\d\d\.\d+ [^\]]*\]",  # the logs of C++
    r"[WE]\d{4} \d\d:\d\d:\d\d\.\d+ \d+",
    r"\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d",
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.\d]*",
    r"pid: \d+|PID \d+|process \d+|0x[0-9a-f]+|localhost:\d+|:\d{5}\b",
    r"/tmp/torchelastic_\w+/[\w-]+",
)
"""Times, the numbers of processes and ports, and folders of chance names."""


def _outcome(folder: Path, name: str, installed: bool) -> Any:
    _, text, flags, args, _ = TOOLS[name]
    site = folder / ("with" if installed else "without")
    site.mkdir()
    (site / "sitecustomize.py").write_text("import whydevice\n" if installed else "import warnings\n")
    (folder / "script.py").write_text(text)
    env = environment(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", HF_HOME=str(folder / "hf"))
    env["PYTHONPATH"] = os.pathsep.join([str(site), SRC])
    done = run(*flags, "script.py", *args, cwd=folder, env=env)
    out, err = done.stdout, done.stderr
    for change in CHANGES:
        out, err = re.sub(change, "*", out), re.sub(change, "*", err)
    # Ranks print at once: their lines come in any order.
    return (sorted(out.splitlines()), sorted(err.splitlines())) if flags else (out, err), done.returncode


@pytest.mark.parametrize("name", TOOLS)
def test_the_output_is_what_it_was(name: str, tmp_path: Path) -> None:
    pytest.importorskip(TOOLS[name][0])
    plain, ours = (_outcome(tmp_path, name, installed) for installed in (False, True))
    assert plain[1] == TOOLS[name][4], plain
    assert ours == plain
