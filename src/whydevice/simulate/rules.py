"""The table of PyTorch's device checks, and the names of its generated wrappers.

`rules.json` is made from native_functions.yaml by scripts/make_device_rules.py, which says what its fields
mean.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class DeviceRule:
    """How one op compares devices: `exact`, `iterator`, `resize` or `free`; its keys; its tensor arguments in order."""

    op: str
    check: str
    keys: tuple[str, ...]
    kind: str
    arguments: tuple[str, ...]

    def wrapper(self, key: str = "CUDA") -> str:
        """The name printed after "in method" (torchgen, register_dispatch_key.py: NativeSignature names)."""
        base, _, overload = self.op.partition(".")
        if "o" in self.kind:
            base += "_out"
        if self.kind[0] == "S" and key == "CUDA":  # sparse and nested kernels are never structured
            return f"wrapper_{key}_{base}" + (f"_{overload}" if overload else "")
        return f"wrapper_{key}_{overload}_{base}"


@lru_cache(maxsize=1)
def table() -> dict[str, DeviceRule]:
    """Every op that has more than one tensor to compare, by its name in native_functions.yaml (`add.Tensor`)."""
    text = resources.files(__package__).joinpath("rules.json").read_text(encoding="utf-8")
    return {
        op: DeviceRule(op, check, tuple(keys.split(",")) if keys else (), kind, tuple(names.split(",")))
        for op, (check, keys, kind, names) in json.loads(text).items()
    }
