"""The traps of mending: each fix avoids them, or is unsafe and says what it changes besides the device."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from whydevice.edits import plan
from whydevice.explain import explain
from whydevice.simulate import simulate_cuda
from whydevice.types import Explanation

HEAD = "import torch\nfrom torch import nn\ndevice = torch.device('cuda')\n"

MODULE_LIST = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(3, 3)
        self.heads = [nn.Linear(3, 2) for _ in range(2)]
    def forward(self, x):
        return [head(self.stem(x)) for head in self.heads]
net = Net().to(device)
net(torch.ones(2, 3, device=device))
"""
METHOD_KEYS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(3, 3)
        self.parts = {"train": nn.Linear(3, 2), "a.b": nn.Linear(3, 2)}
    def forward(self, x):
        return self.parts["train"](self.stem(x))
net = Net().to(device)
net(torch.ones(2, 3, device=device))
"""
BUFFER = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.scale = torch.ones(3)
    def forward(self, x):
        return self.fc(x) * self.scale
net = Net().to(device)
net(torch.ones(2, 3, device=device))
"""
NON_LEAF = BUFFER.replace("torch.ones(3)", "self.fc.weight.sum(0)")
CLOSURE = """\
def make():
    shift = torch.ones(3)
    def apply(x):
        return x + shift
    return apply
make()(torch.ones(3, device=device))
"""
DATASET = """\
class Pairs(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return torch.ones(3) * i
net = nn.Linear(3, 2).to(device)
for x in torch.utils.data.DataLoader(Pairs(), batch_size=2):
    net(x)
"""
SURPLUS = """\
w = torch.ones(3, device=device)
y = w.cpu()
z = y + w
"""
GRAPH = """\
w = torch.ones(3, device=device, requires_grad=True)
y = (w * 2).numpy()
"""


def explained(folder: Path, text: str) -> Explanation:
    path = folder / "script.py"
    path.write_text(HEAD + text)
    linecache.clearcache()
    with simulate_cuda(1):
        try:
            exec(compile(HEAD + text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
        except (RuntimeError, TypeError) as error:
            found = explain(error)
            assert found is not None
            return found
    raise AssertionError("it passed")


def mended(folder: Path, text: str, applicability: str) -> str:
    """The script with its first fix, which has to be of this kind, and to run."""
    fix = explained(folder, text).fixes[0]
    assert fix.applicability == applicability, fix
    [new] = plan(fix.edits).values()
    with simulate_cuda(1):
        exec(compile(new, "mended", "exec"), {"__name__": "__main__"})
    return new


def test_a_module_list_says_what_it_changes(tmp_path: Path) -> None:
    assert "self.heads = nn.ModuleList(" in mended(tmp_path, MODULE_LIST, "unsafe")
    found = explained(tmp_path, MODULE_LIST)
    assert "state_dict()" in found.fixes[0].reason and "optimizer" in found.fixes[0].reason
    assert "strict=False" in " ".join(str(found).split())


def test_keys_that_a_module_dict_refuses_are_not_tried(tmp_path: Path) -> None:
    fix = explained(tmp_path, METHOD_KEYS).fixes[0]
    assert (fix.applicability, fix.edits) == ("manual", ())
    assert "nn.ModuleDict takes no key" in fix.reason


def test_a_buffer_keeps_old_checkpoints_loading(tmp_path: Path) -> None:
    assert 'register_buffer("scale", torch.ones(3), persistent=False)' in mended(tmp_path, BUFFER, "safe")
    assert "old checkpoints" in explained(tmp_path, BUFFER).fixes[0].title


def test_what_has_a_graph_becomes_no_buffer(tmp_path: Path) -> None:
    assert all(
        "register_buffer" not in edit.text
        for fix in explained(tmp_path, NON_LEAF).fixes
        for edit in fix.edits
    )


def test_a_free_variable_is_not_assigned_in_the_inner_function(tmp_path: Path) -> None:
    new = mended(tmp_path, CLOSURE, "safe")
    assert "        shift =" not in new


def test_a_dataset_stays_on_the_cpu(tmp_path: Path) -> None:
    new = mended(tmp_path, DATASET, "safe")
    assert "return torch.ones(3) * i\n" in new, "a dataset that moves its items breaks workers"


def test_a_surplus_cpu_call_is_taken_out(tmp_path: Path) -> None:
    new = mended(tmp_path, SURPLUS, "unsafe")
    assert ".cpu()" not in new and ".to(" not in new
    assert "may be wanted elsewhere" in explained(tmp_path, SURPLUS).fixes[0].reason


def test_a_copy_for_numpy_leaves_the_graph_openly(tmp_path: Path) -> None:
    found = explained(tmp_path, GRAPH)
    for fix in found.fixes:
        for edit in fix.edits:
            assert ".cpu()" not in edit.text or ".detach()" in edit.text


@pytest.mark.parametrize("text", [MODULE_LIST, BUFFER, CLOSURE, DATASET, SURPLUS])
def test_a_fix_is_made_once(text: str, tmp_path: Path) -> None:
    fix = explained(tmp_path, text).fixes[0]
    assert len(set(fix.edits)) == len(fix.edits)
