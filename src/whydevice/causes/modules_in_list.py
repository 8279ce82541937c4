"""What happened: modules are kept in a plain Python list, so `.to()` never reached them.

`nn.Module.to()` goes through registered children. A list, tuple or set of modules is not registered: its modules stay
where they were made, `parameters()` leaves them out (the optimizer never trains them), and `state_dict()` does not
save them.

How to recognise it: the failing module is in a list attribute of a module whose own parameters are elsewhere.

Before:

    self.heads = []
    for n in classes:
        self.heads.append(nn.Linear(32, n))

After:

    self.heads = nn.ModuleList()
    for n in classes:
        self.heads.append(nn.Linear(32, n))

Unsafe, as it changes more than the device: `state_dict()` gets entries for these modules, so that a checkpoint saved
before loads with `strict=False` only, and an optimizer made from `parameters()` trains them from now on.
"""

from __future__ import annotations

from ..evidence.collect import Evidence
from ._finding import Finding
from ._registered import unregistered_finding

NAME = "modules-in-list"
TITLE = "modules in a plain list are not moved with their owner"


def find(evidence: Evidence) -> Finding | None:
    return unregistered_finding(evidence, "list")
