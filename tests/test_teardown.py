"""Modules that were moved to the CPU on the way out: the frames' variables are believed, and the report says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import claims
from runner import Runner
from whydevice.types import Explanation

torch = pytest.importorskip("torch")
SAID = "The modules have been moved since it failed"


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.weight = torch.nn.Parameter(torch.ones(4, 4))
        self.table = torch.ones(4)


class Input(Net):
    def forward(self, x: Any) -> Any:
        noise = torch.rand(3, 4)
        return self.fc(noise)


class Attribute(Net):
    def forward(self, x: Any) -> Any:
        return self.fc(x) + self.table


class Parameter(Net):
    def forward(self, x: Any) -> Any:
        noise = torch.rand(3, 4)
        return torch.mm(noise, self.weight)


class Activation(Net):
    def forward(self, x: Any) -> Any:
        hidden = self.fc(x)
        noise = torch.rand(3, 4)
        return hidden * noise


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    import whydevice

    with whydevice.simulate_cuda():
        yield


def failure(net: Net, back: str | None) -> tuple[BaseException, Explanation]:
    """How a runner fails that moves the module to `back` before anyone sees the error."""
    from whydevice import guard

    net.to("cuda")
    try:
        try:
            net(torch.ones(3, 4, device="cuda"))
        finally:
            if back is not None:
                net.to(back)
    except RuntimeError as exc:
        said = guard._pipeline(exc)
        assert said is not None
        return exc, said
    raise AssertionError("nothing failed")


@pytest.mark.parametrize(
    "kind, culprit",
    [(Input, "noise"), (Attribute, "self.table"), (Parameter, "noise"), (Activation, "noise")],
)
def test_variables_are_believed(kind: type[Net], culprit: str) -> None:
    exc, said = failure(kind(), "cpu")
    assert said.culprit is not None and said.culprit.expression == culprit, said
    assert (said.culprit.device, said.culprit.wanted) == ("cpu", "cuda:0")
    assert not any(row.device == "cpu" and row.kind in ("module", "parameter") for row in said.operands), said
    assert claims.broken(exc, said) == []


@pytest.mark.parametrize("kind", [Input, Attribute, Parameter, Activation])
def test_what_was_moved_is_said(kind: type[Net]) -> None:
    _, said = failure(kind(), "cpu")
    assert any(note.startswith(SAID) for note in said.notes), said


@pytest.mark.parametrize("kind", [Input, Attribute, Parameter, Activation])
def test_nothing_is_said_where_nothing_was_moved(kind: type[Net]) -> None:
    _, said = failure(kind(), None)
    assert not any(note.startswith(SAID) for note in said.notes), said


def test_a_result_that_was_brought_over_is_no_teardown() -> None:
    class Brought(Net):
        def forward(self, x: Any) -> Any:
            hidden = self.fc(x.cpu()).to(x.device)
            noise = torch.rand(3, 4)
            return hidden * noise

    net = Brought()
    try:
        net(torch.ones(3, 4, device="cuda"))
    except RuntimeError as exc:
        from whydevice import guard

        said = guard._pipeline(exc)
        assert said is not None and said.culprit is not None and said.culprit.expression == "noise"
        assert not any(note.startswith(SAID) for note in said.notes), said


def test_a_module_that_was_never_moved_is_no_teardown() -> None:
    net = Activation()
    try:
        net(torch.ones(3, 4, device="cuda"))
    except RuntimeError as exc:
        from whydevice import guard

        said = guard._pipeline(exc)
        assert said is not None and said.culprit is not None and said.culprit.expression == "self.fc"
        assert not any(note.startswith(SAID) for note in said.notes), said


LIGHTNING = """\
import torch
from torch import nn
import lightning.pytorch as pl


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def training_step(self, batch, index):
        (x,) = batch
        noise = torch.randn(x.size(0), 4)
        return self.out(noise).mean() + self.out(x).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


data = torch.utils.data.TensorDataset(torch.randn(8, 4))
trainer = pl.Trainer(
    max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=4))
"""


def test_lightning(command: Runner, tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    (tmp_path / "script.py").write_text(LIGHTNING)
    found = tmp_path / "claims.jsonl"
    options = ["--simulate-cuda", "--json", "out.json", "script.py"]
    result = command.run(options, tmp_path, claims=found)
    (said,) = json.loads((tmp_path / "out.json").read_text())["explanations"]
    assert said["culprit"]["expression"] == "noise" and said["root"]["line"] == 13, str(result)
    assert any(note.startswith(SAID) for note in said["notes"]), said["notes"]
    assert json.loads(found.read_text()) == []
