"""Whole runs of `--fix` in processes of their own: what is written is what a careful reviewer would merge."""

from __future__ import annotations

from pathlib import Path

from processes import why

WRAPPED = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = nn.Linear(4, 2)
model = DistributedDataParallel(model, device_ids=[0])
print(model(torch.randn(3, 4)).shape)
dist.destroy_process_group()
"""


def test_what_a_module_on_the_cpu_is_called_with_stays_there(tmp_path: Path) -> None:
    """Without a GPU the ids go, the module stays on the CPU, and so does its input."""
    script = tmp_path / "script.py"
    script.write_text(WRAPPED)
    assert why("--fix", "script.py", cwd=tmp_path).returncode == 1
    mended = script.read_text()
    assert "if torch.cuda.is_available() else None" in mended
    assert mended.endswith(WRAPPED[WRAPPED.index("print") :])
    assert why("script.py", cwd=tmp_path).returncode == 0
