"""A saved trace, a model on two GPUs, and a library's trainer: the CPU's numbers, and nothing that could not be judged."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import whydevice  # noqa: E402
from simulation import trained  # noqa: E402
from whydevice import simulate  # noqa: E402


def test_traced_graph_with_number_constants_is_saved(tmp_path: Any) -> None:
    """Saving compares the graph's constants in C++, which hands a mode Python numbers for the tensors."""
    with whydevice.simulate_cuda(1):
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        traced = torch.jit.trace(layer, torch.randn(1, 3, 8), check_trace=False)
        torch.jit.save(traced, tmp_path / "layer.pt")
        loaded = torch.jit.load(tmp_path / "layer.pt", map_location="cuda")
        assert loaded(torch.randn(2, 3, 8, device="cuda")).device.type == "cuda"


def test_model_on_two_gpus() -> None:
    def program(first: Any, second: Any) -> list[float]:
        torch.manual_seed(0)
        a, b = nn.Linear(4, 8).to(first), nn.Linear(8, 2).to(second)
        x, y = torch.randn(6, 4).to(first), torch.tensor([0, 1, 1, 0, 1, 0]).to(second)
        found = trained(nn.ModuleList([a, b]), lambda: F.cross_entropy(b(a(x).relu().to(second)), y))
        return [*found, a.weight.grad.sum().item()]

    plain = program("cpu", "cpu")
    with whydevice.simulate_cuda(2):
        assert program("cuda:0", "cuda:1") == plain
    assert simulate.report() is None


def test_trainer_of_transformers(tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    def program(cpu: bool) -> list[float]:
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )  # fmt: skip
        model = transformers.BertForSequenceClassification(config)
        data = [{"input_ids": torch.randint(0, 30, (5,)), "labels": i % 2} for i in range(8)]
        options = transformers.TrainingArguments(
            str(tmp_path / str(cpu)), max_steps=3, per_device_train_batch_size=4, use_cpu=cpu, report_to=[], logging_steps=1,
            disable_tqdm=True, save_strategy="no", seed=0,
        )  # fmt: skip
        trainer = transformers.Trainer(model, options, train_dataset=data, eval_dataset=data)
        trainer.train()
        assert next(model.parameters()).is_cuda != cpu
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry] + [
            trainer.evaluate()["eval_loss"]
        ]

    plain = program(True)
    with whydevice.simulate_cuda():
        assert program(False) == plain
