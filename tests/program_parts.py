"""What random programs are written with: their imports, ways to make a tensor, names, and functions in the making."""

from __future__ import annotations

from dataclasses import dataclass, field

WAY = "  #@way"
HEAD = ["import functools", "from collections import namedtuple", "from dataclasses import dataclass",
        "from types import SimpleNamespace", "", "import numpy", "import torch", "from torch import nn",
        "from torch.nn import functional as F", "", 'device = "cuda"']  # fmt: skip
FACTORIES = ["torch.zeros(4)", "torch.ones(4)", "torch.rand(4)", "torch.arange(4).float()", "torch.full((4,), 2.0)",
             "torch.tensor([1.0, 2.0, 3.0, 4.0])", "torch.linspace(0, 1, 4)", "torch.eye(4)[0]",
             "torch.from_numpy(numpy.ones(4, dtype='float32'))", "torch.randn(2, 4).sum(0)"]  # fmt: skip
NAMES = "alpha batch bias cache code coef drift edge feats gain grid hist item key mask mean noise pos prior ramp rate scale seed shift state table target theta tick tile trace unit value weight".split()


@dataclass(frozen=True)
class Program:
    """`culprit` are the ways to write the wrong operand, `way` the lines that its value took."""

    seed: int
    source: str
    culprit: frozenset[str]
    way: frozenset[int]
    plan: tuple[str, ...]


@dataclass
class Body:
    """A function that is being written; `wrong` and `right` are what it calls the two values now."""

    head: str
    indent: str
    lines: list[str] = field(default_factory=list)

    def add(self, line: str, way: bool = False) -> None:
        self.lines.append(self.indent + line + (WAY if way else ""))
