#!/usr/bin/env python3
"""Write src/whydevice/simulate/rules.json: what PyTorch's generated CUDA wrappers compare, op by op.

Read from `torchgen/packaged/ATen/native/native_functions.yaml` of the installed torch, with torchgen's own parser and
naming. An entry is kept for every op that takes two tensors or a list of tensors, the ones between which a check
can fail:

    "addmm": ["exact", "CUDA,SparseCUDA", "S", "self,mat1,mat2"]

- `exact` (the wrapper compares devices), `iterator` (NoCheck, TensorIterator compares), `resize` (NoCheck, and the
  out= variant of a structured kernel without TensorIterator: its outputs are compared where they are resized)
  or `free` (NoCheck)
- the dispatch keys with a generated device check and a kernel of their own
- S for a structured kernel, U for an unstructured one, o for an out= variant: they name their wrappers differently
- the tensor arguments in the order in which they are compared: outputs, then positional ones (lists end in `[]`)

    python scripts/make_device_rules.py            writes the file
    python scripts/make_device_rules.py --check    exit status 1 when the file is not what this torch would write
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import sys

TARGET = pathlib.Path(__file__).parent.parent / "src" / "whydevice" / "simulate" / "rules.json"
# Backends whose generated wrappers hold a DeviceGuard, and so a device check (torchgen: `device_guard`).
KEYS = ("CUDA", "SparseCUDA", "SparseCsrCUDA", "NestedTensorCUDA", "QuantizedCUDA")


def yaml_folder() -> pathlib.Path:
    """The folder of native_functions.yaml in the installed torchgen, found without importing torch."""
    spec = importlib.util.find_spec("torchgen")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("torchgen is not installed")
    return pathlib.Path(next(iter(spec.submodule_search_locations))) / "packaged" / "ATen" / "native"


def iterator_lines(text: str) -> set[str]:
    """Names of the ops whose `device_check: NoCheck` bears the comment `TensorIterator`: torchgen drops comments."""
    names, current = set(), ""
    for line in text.splitlines():
        if line.startswith("- func:"):
            current = line.removeprefix("- func:").strip().split("(", 1)[0]
        elif line.strip().startswith("device_check: NoCheck") and "TensorIterator" in line:
            names.add(current)
    return names


def build() -> dict[str, list[str]]:
    """The table, op name -> [check, keys, kind, arguments]."""
    from torchgen.gen import parse_native_yaml
    from torchgen.model import DeviceCheckType, DispatchKey, NativeFunctionsGroup

    folder = yaml_folder()
    source = folder / "native_functions.yaml"
    parsed = parse_native_yaml(str(source), str(folder / "tags.yaml"))
    iterators = iterator_lines(source.read_text(encoding="utf-8"))
    structured: dict[str, NativeFunctionsGroup] = {}
    from torchgen.gen import get_grouped_native_functions

    for group in get_grouped_native_functions(parsed.native_functions):
        if isinstance(group, NativeFunctionsGroup) and group.structured:
            for function in group.functions():
                structured[str(function.func.name)] = group

    table: dict[str, list[str]] = {}
    for function in parsed.native_functions:
        name = str(function.func.name)
        arguments = [*function.func.arguments.out, *function.func.arguments.flat_positional]
        tensors = [a for a in arguments if a.type.is_tensor_like()]
        if len(tensors) < 2 and not any(a.type.is_list_like() for a in tensors):
            continue
        group = structured.get(name)
        keys = []
        for key in KEYS:
            index = parsed.backend_indices[DispatchKey.parse(key)]
            kernel = group.out if group is not None and index.has_kernel(group.out) else function
            if index.has_kernel(kernel):
                keys.append(key)
        if function.device_check is DeviceCheckType.ExactSame:
            check = "exact"
        else:
            base = group.out if group is not None else function
            names = {name, str(base.func.name)}
            check = "iterator" if names & iterators else "free"
            if group is not None and function.func.is_out_fn() and not group.out.structured_inherits:
                check = "resize"
        shown = ",".join(a.name + ("[]" if a.type.is_list_like() else "") for a in tensors)
        table[name] = [
            check,
            ",".join(keys),
            ("S" if group is not None else "U") + ("o" if function.func.is_out_fn() else ""),
            shown,
        ]
    return dict(sorted(table.items()))


def text(table: dict[str, list[str]]) -> str:
    """One op a line, so that a change of torch shows as a readable diff."""
    rows = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in table.items())
    return "{\n" + ",\n".join(rows) + "\n}\n"


def main() -> int:
    wanted = text(build())
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.read_text(encoding="utf-8") == wanted else 1
    TARGET.write_text(wanted, encoding="utf-8")
    print(f"{TARGET}: {wanted.count(chr(10)) - 2} ops")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
