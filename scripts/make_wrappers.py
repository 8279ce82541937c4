#!/usr/bin/env python3
"""Write src/whydevice/messages/wrappers.txt: the ops that have a generated wrapper, structured kernels first.

    python scripts/make_wrappers.py DEVICE_CHECK_JSON

DEVICE_CHECK_JSON has `wrapper_to_op`: {"wrapper_CUDA_mm_out_out": "mm.out", ...}, made with torchgen from
native_functions.yaml (torch 2.14.1). The script fails when a name follows neither of torchgen's two rules.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src/whydevice/messages/wrappers.txt"
WRAPPER = re.compile(r"wrapper_(?:[A-Z][A-Za-z]*)?(?:CUDA|XPU)_(\w+)")


def main(source: str) -> None:
    structured, rest = set(), set()
    for wrapper, op in json.loads(Path(source).read_text("utf-8"))["wrapper_to_op"].items():
        found = WRAPPER.fullmatch(wrapper)
        name, _, overload = op.partition(".")
        tail = f"_{overload}" if overload else ""
        if not found:
            sys.exit(f"{wrapper}: no dispatch key")
        elif found[1] in (f"{overload}_{name}", f"{overload}_{name}_out"):
            rest.add(op)
        elif found[1] in (name + tail, f"{name}_out{tail}"):
            structured.add(op)
        else:
            sys.exit(f"{wrapper}: not a name of {op}")
    TARGET.write_text("\n".join(sorted(structured)) + "\n\n" + "\n".join(sorted(rest)) + "\n", "utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit((__doc__ or "").strip())
    main(sys.argv[1])
