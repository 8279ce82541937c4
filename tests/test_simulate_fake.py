"""FakeTensors on simulated cuda: where torch's CPU build would end the process, an error says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCES = str(Path(__file__).parents[1] / "src")
WAYS = (
    "w = torch.ones(3, device='cuda'); w.requires_grad = True; (w * 2).sum()",
    "w = torch.ones(3, device='cuda').requires_grad_(); (w * 2).sum()",
    "w = torch.zeros(3, device='cuda', requires_grad=True); (w * 2).sum()",
    "w = torch.ones(3, requires_grad=True).to('cuda'); (w * 2).sum()",
    "w = torch.nn.Linear(3, 3, device='cuda').weight; (w * 2).sum()",
)


def ended(body: str) -> subprocess.CompletedProcess[str]:
    code = (
        f"import sys; sys.path.insert(0, {SOURCES!r})\n"
        "import torch, whydevice\n"
        "from torch._subclasses.fake_tensor import FakeTensorMode\n"
        "with whydevice.simulate_cuda():\n" + "".join(f"    {line}\n" for line in body.splitlines())
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_gradient_of_a_fake_tensor_is_an_error_and_no_abort() -> None:
    tried = "".join(
        f"try:\n    with FakeTensorMode():\n        {way}\nexcept NotImplementedError as error:\n    print(error)\n"
        for way in WAYS
    )
    done = ended(tried)
    assert done.returncode == 0, done
    assert done.stdout.count("the simulation cannot record gradients") == len(WAYS)


def test_a_model_is_exported_on_cuda_and_moved_there() -> None:
    body = """\
from torch.export.passes import move_to_device_pass
net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
there = torch.export.export(net.to("cuda"), (torch.zeros(4, 3, device="cuda"),))
with torch.no_grad():
    here = torch.export.export(net.to("cpu"), (torch.zeros(4, 3),))
    moved = move_to_device_pass(here, "cuda")
for program in (there, moved):
    print(program.module().to("cuda")(torch.zeros(4, 3, device="cuda")).device)
"""
    done = ended(body)
    assert done.stdout.split() == ["cuda:0", "cuda:0"], done
