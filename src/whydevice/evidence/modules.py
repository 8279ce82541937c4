"""The device map of a module tree, with what `.to()` does not reach."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import values
from .operands import held_tensors


class Entry(NamedTuple):
    """One tensor of the tree: its dotted path, device (`cuda:0`), kind, and what it is (`float32[3, 4]`).

    `kind` is parameter, buffer, attribute (a plain tensor attribute) or hidden (state of a module kept in a list,
    dict or other object). `.to()` moves the first two.
    """

    path: str
    device: str
    kind: str
    what: str

    @property
    def moved(self) -> bool:
        """Whether `.to()` of the root reaches it."""
        return self.kind in ("parameter", "buffer")


class Audit(NamedTuple):
    """The entries of a module tree, in the order of its definition. `str()` is a table."""

    module: str
    entries: tuple[Entry, ...]

    @property
    def devices(self) -> dict[str, int]:
        """How many tensors are on each device."""
        count: dict[str, int] = {}
        for entry in self.entries:
            count[entry.device] = count.get(entry.device, 0) + 1
        return count

    @property
    def unreached(self) -> tuple[Entry, ...]:
        """What `.to()` leaves where it is."""
        return tuple(e for e in self.entries if not e.moved)

    def __str__(self) -> str:
        total = len(self.entries)
        where = [f"{n} on {device}" for device, n in self.devices.items()]
        count = f"{total or 'no'} tensor{'s' * (total != 1)}"
        lines = [f"{self.module}: {count}" + (f", {', '.join(where)}" if where else "")]
        if self.entries:
            widths = [max(len(getattr(e, f)) for e in self.entries) for f in ("path", "device", "kind")]
            for e in self.entries:
                row = f"  {e.path:<{widths[0]}}  {e.device:<{widths[1]}}  {e.kind:<{widths[2]}}  {e.what}"
                lines.append(row + ("" if e.moved else "   .to() does not reach it"))
        return "\n".join(lines)


def audit(module: Any) -> Audit:
    """The device map of a module: parameters, buffers, plain tensor attributes, and modules hidden in containers.

    Reads metadata only: no code of the module's runs, and no torch operation. Raises TypeError for what is no
    torch.nn.Module.
    """
    if not values.is_module(module):
        raise TypeError(f"audit takes a torch.nn.Module, not {values.type_name(module)}")
    reached = {id(tensor): kind for _, tensor, kind in values.module_tensors(module)}
    entries = []
    for held in held_tensors(module):
        kind = reached.get(id(held.tensor))
        if kind is None:
            kind = "attribute" if held.kind == "attribute" else "hidden"
        entries.append(Entry(held.path, held.device, kind, values.describe(held.tensor)))
    return Audit(values.type_name(module), tuple(entries))
