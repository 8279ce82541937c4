"""What happened: modules are kept in a plain dict, so `.to()` never reached them.

`nn.Module.to()` goes through registered children. The values of a dict are not registered: they stay where they were
made, `parameters()` leaves them out (the optimizer never trains them), and `state_dict()` does not save them.

How to recognise it: the failing module is a value of a dict attribute of a module whose own parameters are elsewhere.

Before:

    self.branches = {"p3": nn.Conv2d(8, 8, 3), "p4": nn.Conv2d(8, 8, 3)}

After:

    self.branches = nn.ModuleDict(
        {"p3": nn.Conv2d(8, 8, 3), "p4": nn.Conv2d(8, 8, 3)}
    )

Unsafe, as it changes more than the device: `state_dict()` gets entries for these modules, so that an older checkpoint
loads with `strict=False` only, and an optimizer made from `parameters()` trains them from now on. The keys have to be
strings without a dot that are no names of nn.Module's own.
"""

from __future__ import annotations

from ..evidence.collect import Evidence
from ._finding import Finding
from ._registered import unregistered_finding

NAME = "modules-in-dict"
TITLE = "modules in a plain dict are not moved with their owner"


def find(evidence: Evidence) -> Finding | None:
    return unregistered_finding(evidence, "dict")
