"""Beside other tools that want the same hooks: each shows what it always shows, we our block once."""

from __future__ import annotations

import importlib.util
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from processes import LIGHT, environment, run

TOOLS = {
    "rich": "from rich.traceback import install; install(width=100)",
    "sentry_sdk": "import sentry_sdk; sentry_sdk.init(transport=lambda event: None, dsn='http://a@localhost/1')",
    "better_exceptions": "import better_exceptions; better_exceptions.hook()",
    "torch.distributed": "import torch, torch.distributed as dist\n"
    "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)",
    "faulthandler": "import faulthandler; faulthandler.enable()",
}


def _run(folder: Path, text: str, **env: str) -> Any:
    (folder / "script.py").write_text(textwrap.dedent(text))
    return run("script.py", cwd=folder, env=environment(WANDB_MODE="offline", WANDB_SILENT="true", **env))


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_that_sets_the_hook_before_us_or_after(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        pytest.skip(f"{name} is not installed")
    setup = TOOLS[name]
    # Where torch itself is not in play, a stand-in saves its import.
    light = LIGHT.replace('_fake("torch")\n', "") if "torch" in name else LIGHT
    alone = _run(tmp_path, f"import json\n{setup}\n" + light + "shifted(3)\n")
    for steps in (f"import whydevice\n{setup}\n", f"{setup}\nimport whydevice\n"):
        both = _run(tmp_path, steps + light + "shifted(3)\n")
        assert both.returncode == alone.returncode == 1
        text = "\n" + both.stderr.replace("[rank0]: ", "")
        # Even where the tool drops the hook before it (rich, better_exceptions): then at exit.
        assert text.count("\nwhydevice: ") == 1, steps
        assert both.stderr.count("RuntimeError") == alone.stderr.count("RuntimeError"), steps


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("name", ["rich", "sentry_sdk", "better_exceptions", "faulthandler"])
def test_without_a_device_error_the_tool_prints_what_it_did(name: str, order: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    printed = []
    for module in ("mimetypes", "whydevice"):  # as long as one another, for rich's boxes
        steps = [f"import {module}", TOOLS[name]]
        text = "\n".join(reversed(steps) if order == "after" else steps) + "\ndef f(x):\n    1 / x\nf(0)\n"
        done = _run(tmp_path, text)
        error = re.sub("0x[0-9a-f]+", "", done.stderr.replace(module, "module"))
        printed.append((done.stdout, error, done.returncode))
    assert printed[0][1].count("ZeroDivisionError") == 1
    assert printed[0] == printed[1]


def test_wandb_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    script = """\
    import {module}
    import wandb
    wandb.init(project="p", dir=".")
    """
    rest = "import whydevice\n" + LIGHT + "shifted(3)\n"
    alone = _run(tmp_path, textwrap.dedent(script).format(module="json") + LIGHT + "shifted(3)\n")
    done = _run(tmp_path, textwrap.dedent(script).format(module="whydevice") + rest)
    ordinary = [
        _run(tmp_path, textwrap.dedent(script).format(module=module) + "1 / 0\n")
        for module in ("json", "whydevice")
    ]
    assert ordinary[0].stderr == ordinary[1].stderr.replace("import whydevice", "import json")
    assert done.stderr.count("\nwhydevice: ") == 1
    assert done.stderr.count("Traceback") == alone.stderr.count("Traceback")
    assert done.returncode == alone.returncode == 1


HYDRA = """\
import whydevice
import hydra
import torch

class Shift(torch.nn.Module):
    def forward(self, x):
        return x - torch.from_numpy(torch.empty(3, device="meta").numpy())

@hydra.main(version_base=None, config_path=None)
def main(cfg):
    Shift()(torch.ones(3))

main()
"""


def test_hydra(tmp_path: Path) -> None:
    pytest.importorskip("hydra")
    done = _run(tmp_path, HYDRA, WHYDEVICE="everywhere")
    assert "Error executing job" in done.stderr
    assert done.stderr.count("\nwhydevice: ") == 1
    assert done.returncode == 1


def test_hydra_without_a_device_error_prints_what_it_did(tmp_path: Path) -> None:
    pytest.importorskip("hydra")
    script = HYDRA.replace("import torch\n", "").replace("torch.nn.Module", "object")
    script = script.replace("Shift()(torch.ones(3))", "1 / 0")
    printed = [
        _run(tmp_path, script.replace("whydevice", module), WHYDEVICE="everywhere").stderr
        for module in ("json", "whydevice")
    ]
    assert "Error executing job" in printed[0]
    assert printed[0] == printed[1]


LIGHTNING = """\
import {module}
import logging, warnings
warnings.simplefilter("ignore")
logging.disable()
import torch
from lightning.pytorch import LightningModule, Trainer
{more}

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.mean = torch.empty(3, device="meta")

    def training_step(self, batch, i):
        return (self.fc(batch) - torch.from_numpy(self.mean.numpy())).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

trainer = Trainer(
    max_steps=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, callbacks={callbacks},
)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(4, 3)))
"""


@pytest.mark.parametrize("callback", [False, True])
def test_lightning(callback: bool, tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    more = "from whydevice.catch.lightning import WhyDevice" if callback else ""
    script = LIGHTNING.format(module="whydevice", more=more, callbacks="[WhyDevice()]" if callback else "[]")
    done = _run(tmp_path, script)
    assert ("\n" + done.stderr).count("\nwhydevice: ") == 1
    assert done.returncode == 1
    first = min(done.stderr.index("whydevice: "), done.stderr.index("Traceback"))
    assert done.stderr[first:].startswith("whydevice: ") is callback


def test_accelerate_launch(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    (tmp_path / "script.py").write_text(
        "import whydevice\nimport torch\nfrom accelerate import Accelerator\n"
        "Accelerator(cpu=True)\ntorch.empty(3, device='meta').numpy()\n"
    )
    launch = ["-m", "accelerate.commands.launch", "--cpu", "--num_processes=2", "--num_machines=1"]
    launch += ["--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0"]
    env = environment(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    done = run(*launch, "script.py", cwd=tmp_path, env=env)
    lines = [line for line in done.stderr.splitlines() if "whydevice: " in line]
    assert len([line for line in lines if "whydevice: rank" not in line]) == 1, done.stderr
    assert done.returncode == 1
