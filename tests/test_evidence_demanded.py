"""Scripts that look like a cause and lack a link of its proof: what is said of them is less, and what is written is right."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from whydevice.edits import plan
from whydevice.explain import explain
from whydevice.simulate import simulate_cuda
from whydevice.types import Explanation

pytest.importorskip("torch")

BROUGHT = """\
import torch
device = "cuda"
hits = torch.zeros(3)
for out in torch.randn(4, 5, 3).to(device):
    hits += out[:2].sum(0).cpu()
    hits += out[2:].sum(0)
print(hits.numpy())
"""
PICKED = """\
import torch
def pick(kind):
    if kind == "fast":
        return torch.Generator(device="cuda")
    return torch.Generator()
g = pick("slow")
torch.randperm(5, device="cuda", generator=g)
"""
SWAPPED = """\
import torch
from torch.nn import functional as F
prediction = torch.ones(3, device="cuda:1", requires_grad=True)
y = torch.ones(3, device="cuda:0")
F.mse_loss(y, prediction)
"""
PASSED_THROUGH = """\
import torch
from torch.nn.utils.rnn import pack_padded_sequence
def check(t):
    assert t.is_cuda
    return t
lengths = torch.tensor([3, 2, 1]).to("cuda")
pack_padded_sequence(torch.randn(3, 3, 4, device="cuda"), check(lengths), batch_first=True)
"""
TWO_GPUS = """\
import torch
from torch import nn
net = nn.Linear(4, 4).to("cuda:1")
scale = torch.full((4,), 2.0, device="cuda:0")
shift = torch.ones(4).to("cuda:0")
net(torch.randn(2, 4, device="cuda:1")) * scale + shift
"""
COLLATED = """\
import torch
from torch.utils.data import DataLoader
net = torch.nn.Linear(4, 2).cuda()
def collate(items):
    x = torch.stack(items)
    return x.cuda() if len(items) == 4 else x
for x in DataLoader(torch.randn(6, 4), batch_size=4, collate_fn=collate):
    net(x)
"""

COMPUTED = """\
import torch
def steps(n, device=None):
    device = device or ("cuda" if n > 10 else "cpu")
    return torch.linspace(0, 1, n, device=device)
torch.nn.Linear(5, 2).to("cuda")(steps(5))
"""
TAKEN_AWAY = """\
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
parallel = torch.nn.DataParallel(model.cuda())
model.cpu()
parallel(torch.randn(6, 4).cuda())
"""


def _explained(text: str, tmp_path: Path) -> Explanation:
    path = tmp_path / "script.py"
    path.write_text(text)
    linecache.clearcache()
    with simulate_cuda(2):
        with pytest.raises((RuntimeError, ValueError)) as raised:
            exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
        found = explain(raised.value)
    assert found is not None
    return found


def test_a_total_that_others_bring_their_parts_to_stays(tmp_path: Path) -> None:
    found = _explained(BROUGHT, tmp_path)
    [mended] = plan(found.fixes[0].edits).values()
    assert mended == BROUGHT.replace("out[2:].sum(0)", "out[2:].sum(0).cpu()")
    with simulate_cuda():
        exec(mended, {})


def test_a_generator_was_not_made_by_a_call_that_names_another_device(tmp_path: Path) -> None:
    found = _explained(PICKED, tmp_path)
    assert found.cause is not None and found.cause.name == "generator-on-other-device"
    assert found.root is not None and found.root.line != 4


def test_a_prediction_is_not_called_a_target(tmp_path: Path) -> None:
    found = _explained(SWAPPED, tmp_path)
    said = " ".join([found.headline, *(t.note for t in found.trail), *(f.title for f in found.fixes)])
    assert "prediction" in said and "target" not in said and "output" not in said


def test_what_gives_the_argument_back_may_want_it_where_it_is(tmp_path: Path) -> None:
    [fix] = _explained(PASSED_THROUGH, tmp_path).fixes
    assert fix.applicability == "unsafe" and "`check`" in fix.reason


def test_of_two_gpus_that_the_script_names_none_is_changed_without_a_look(tmp_path: Path) -> None:
    found = _explained(TWO_GPUS, tmp_path)
    assert found.certainty == "possible" and all(f.applicability == "unsafe" for f in found.fixes)
    assert '.to("cuda:1").to(' not in "".join(f.diff for f in found.fixes)


def test_a_loader_with_a_collate_function_yields_some_batches_elsewhere(tmp_path: Path) -> None:
    notes = [t.note for t in _explained(COLLATED, tmp_path).trail]
    assert "the loader gave this batch on cpu" in notes


def test_a_default_that_the_body_replaces_is_not_why(tmp_path: Path) -> None:
    notes = [t.note for t in _explained(COMPUTED, tmp_path).trail]
    assert "`device` is cpu" in notes and not any("by default" in note for note in notes)


def test_a_module_that_was_moved_before_it_was_wrapped_is_not_moved_there_again(tmp_path: Path) -> None:
    found = _explained(TAKEN_AWAY, tmp_path)
    assert found.cause is not None and found.cause.name == "dataparallel-device"
    assert found.certainty == "likely" and not found.fixes
