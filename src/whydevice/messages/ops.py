"""From the name of a generated wrapper (`wrapper_CUDA__index_select`) to the op (`index_select`).

torchgen names a structured kernel `{op}[_out][_{overload}]` and any other `{overload}_{op}[_out]`. The name
alone does not tell which (`scatter__value` is `scatter_.value`, `_index_select` is `index_select`), so
`wrappers.txt` lists both kinds; scripts/make_wrappers.py writes it from shared/device_check.json.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ..patterns import pattern

_WRAPPER = pattern(r"wrapper_(?:(?:[A-Z][A-Za-z]{0,20})?(?:CUDA|XPU|NPU|HPU|MPS|MTIA|PrivateUse1)_)?(\w+)")


def op_of(wrapper_name: str) -> str:
    """The op, with its overload after a dot when it has one: `wrapper_CUDA_mm_out_out` is `mm.out`.

    A name that the list lacks (an op of another release or of an extension) is stripped by the rule for the
    empty overload; at worst the answer is the wrapper's own name.
    """
    found = _WRAPPER.fullmatch(wrapper_name)
    if not found:
        return wrapper_name
    name = found[1]
    known = _known().get(name)
    # `__cat` is an op `_cat` with no overload; of `_npu_cast` the list does not tell, so it stays as it is.
    return known or (name[1:] if name.startswith("__") else name)


def oldest(wrapper_name: str) -> str:
    """The op of a name as torch 1.9 wrote it: the op after `wrapper_`, with nothing between."""
    return wrapper_name.removeprefix("wrapper_")


@cache
def _known() -> dict[str, str]:
    """Every wrapper name, without `wrapper_` and the dispatch key, and its op."""
    text = Path(__file__).with_name("wrappers.txt").read_text("utf-8")
    structured, _, rest = text.partition("\n\n")
    names = {}
    for op in structured.split():
        name, _, overload = op.partition(".")
        tail = f"_{overload}" if overload else ""
        names[f"{name}{tail}"] = op
        if overload:
            names[f"{name}_out{tail}"] = op
    for op in rest.split():
        name, _, overload = op.partition(".")
        names.setdefault(f"{overload}_{name}", op)
        if overload:
            names.setdefault(f"{overload}_{name}_out", op)
    return names
