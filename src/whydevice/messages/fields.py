"""The fields of a template: what each kind matches, and the device that its text stands for.

Every quantifier is bounded and no two of them can match the same text in two ways, so a match costs time in
proportion to the text, whatever the text is.
"""

from __future__ import annotations

import re
from functools import cache

from ..patterns import pattern

_NAME = r"[\w.\[\]]{1,120}"
_KEY = r"(?:[A-Z][A-Za-z]{0,20})?(?:CUDA|XPU|NPU|HPU|MPS|MTIA|PrivateUse1)"
_KINDS = {
    "device": r"[A-Za-z][A-Za-z0-9_]{0,30}(?::-?\d{1,5})?",
    "npu": r"(?:cpu|npu(?::\d{1,5})?)",
    "type": r"TensorOptions\([^\n]{0,400}?memory_format=\(\w{1,30}\)\)|[A-Za-z][\w.:]{0,80}|long "
    r"long|unsigned char",
    "tensor": r"(?!MPS\b)(?:a )?(?:tensor on (?:device: )?)?[A-Za-z]\w{0,30}(?::\d{1,5})?(?: tensor)?",
    "index": r"-?\d{1,5}",
    "number": r"\d{1,3}",
    "place": r"\d{1,5}|[A-Za-z]\w{0,30}(?::\d{1,5})?",
    "int": r"\d{1,9}",
    "name": _NAME,
    "argument": r"(?:argument #\d{1,5})",
    "op": r"[\w.:]{1,160}",
    "wrapper": r"wrapper_\w{1,200}|\w{1,200}",
    "keyed": rf"wrapper_{_KEY}_\w{{1,200}}",
    "oldest": r"\w{1,200}",
    "text": r"[^\n,]{0,80}",
    "list": r"[^\n]{0,4000}",
}
_BY_NAME = {"a": "device", "b": "device", "c": "device", "op": "op", "wrapper": "wrapper"}
_FIELD = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
_DEVICE_IN_LIST = pattern(r"device\(type='(\w{1,30})'(?:, index=(\d{1,5}))?\)|'([a-z]\w{0,30}(?::\d{1,5})?)'")
_INDICES = pattern(r"\[[\d, ]{1,200}\]")
# c10::DeviceType, the numbers that AOTInductor prints.
_NUMBERS = {
    "0": "cpu",
    "1": "cuda",
    "6": "hip",
    "9": "xla",
    "12": "xpu",
    "13": "mps",
    "14": "meta",
    "15": "hpu",
}
# Backends that come first in a legacy type's name (`CPUBFloat16Type`, `SparseCUDAFloatType`).
_BACKENDS = pattern(
    r"(?:Sparse|SparseCsr|Quantized|Mkldnn|Nested)?(CPU|CUDA|MPS|XPU|XLA|HPU|HIP|Meta|PrivateUse1)[A-Z]"
)


def kind(field: str, given: str | None) -> str:
    """The kind of a field: as given, else by its name, else a name. `x|y` and other plain words are
    alternatives."""
    return given or _BY_NAME.get(field, "name")


@cache
def compiled(template: str, whole: bool = False) -> tuple[re.Pattern[str], dict[str, str]]:
    """The template as a pattern, and the kind of each field."""
    parts, kinds, at = [], {}, 0
    for found in _FIELD.finditer(template):
        name, words = found[1], kind(found[1], found[2])
        body = _KINDS.get(words) or "|".join(map(re.escape, words.split("|")))
        parts += [re.escape(template[at : found.start()]), f"(?P<{name}>{body})"]
        kinds[name] = words
        at = found.end()
    parts.append(re.escape(template[at:]))
    pattern = "".join(parts)
    # An assertion of PyTorch's may stand before the words, and where it was raised after them.
    if whole:
        pattern = rf"(?:^|(?<=\n)|(?<=PyTorch\. )){pattern}\.?[ \t]{{0,8}}(?=$|\n| \(\w)"
    elif template.startswith("{"):
        pattern = r"(?<![\w.\[\]])" + pattern
    return re.compile(pattern), kinds


def device(text: str, words: str) -> str | None:
    """The device that a field's text stands for; None where it names none (a dtype, say)."""
    if words == "type":
        return _of_type(text)
    if words == "index":
        return "cpu" if text.startswith("-") else f"cuda:{text}"
    if words == "number":
        return _NUMBERS.get(text)
    if words == "place" and text.isdigit():
        return f"cuda:{text}"
    if words == "tensor":
        text = (
            text.removeprefix("a ")
            .removeprefix("tensor on ")
            .removeprefix("device: ")
            .removesuffix(" tensor")
        )
    return text.lower()


def devices_of_list(text: str) -> list[str]:
    """The devices in the repr of a list or set of devices, device types or indices, each once, in its
    order."""
    if _INDICES.fullmatch(text):
        return list(dict.fromkeys(f"cuda:{index}" for index in re.findall(r"\d{1,5}", text)))
    found = []
    for name, index, quoted in _DEVICE_IN_LIST.findall(text):
        found.append(quoted or (f"{name}:{index}" if index else name))
    return list(dict.fromkeys(found))


def _of_type(text: str) -> str | None:
    """`torch.cuda.FloatTensor`, `MPSFloatType`, `TensorOptions(..., device=xpu:0, ...)`: the device part."""
    if text.startswith("TensorOptions("):
        return text.partition("device=")[2].partition(",")[0] or None
    if text.startswith("torch."):
        parts = [p for p in text.split(".")[1:-1] if p not in ("sparse", "sparse_csr", "quantized", "nested")]
        return parts[0].lower() if parts else "cpu"
    backend = _BACKENDS.match(text)
    return backend[1].lower() if backend else None
