#!/usr/bin/env python3
"""Hold simulated CUDA against PyTorch's OpInfo database
(torch.testing._internal.common_methods_invocations.op_db).

For every op and sample: all tensors on the GPU (are the values the CPU's, and is the result on the GPU?),
then each tensor argument in turn on the other device (does it raise, and with what words?).

    python scripts/opinfo_devices.py --out table.jsonl      under simulation, with what the rules let expect
    options: --samples N (12 an op), --only NAME..., --reverse, --rules device_check.json (default: the package's table)

scripts/real_cuda_ops.py runs the same pairs on a GPU. A row: {"op", "sample", "argument" (index, null for all
on the GPU), "side", "raises", "message", "devices", "expected"}. `expected` is worked out here from the rules
alone: a run on the CPU records which operator first meets the displaced argument.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import random
import re
import sys
import unittest
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

# Uninitialised or random on purpose, or LAPACK answers that hang on the alignment of memory: values are not
# compared.
LOOSE = re.compile(r"empty|rand|dropout|bernoulli|multinomial|normal|rrelu|fractional|linalg|svd|lstsq|norm_nuc|norm.nuc|uniform|"
                   r"exponential|cauchy|geometric|log_normal|pca_lowrank|lu_|qr|eig|cond|geqrf|ormqr|pinverse")  # fmt: skip


class Predicted(Exception):
    """The recording run reached the operator at which the rules raise."""


class Recorder(TorchDispatchMode):
    """Runs on the CPU and follows two sides, the displaced argument's and the others', from storage to storage."""

    def __init__(self, rules: dict[str, Any], on_cpu: list[torch.Tensor], on_gpu: list[torch.Tensor]) -> None:
        super().__init__()
        self.rules = rules
        self.sides = {t.untyped_storage()._cdata: "cpu" for t in on_cpu}
        self.sides |= {t.untyped_storage()._cdata: "cuda:0" for t in on_gpu}
        self.keep: list[Any] = [on_cpu, on_gpu]
        self.normalises = False

    def side(self, tensor: torch.Tensor) -> str | None:
        try:
            return self.sides.get(tensor.untyped_storage()._cdata)
        except NotImplementedError:
            return None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found: list[tuple[str, torch.Tensor, str, bool]] = []
        for position, argument in enumerate(func._schema.arguments):
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            written = argument.alias_info is not None and argument.alias_info.is_write
            for tensor in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(tensor, torch.Tensor) and self.side(tensor) is not None:
                    found.append((argument.name, tensor, self.side(tensor) or "", written))
        sides = {side for _, _, side, _ in found}
        side = next(iter(sides), None)
        if len(sides) == 2:
            side = self.judge(func, found)
        out = func(*args, **kwargs)
        self.keep.append(out)
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and side is not None and self.side(tensor) is None:
                with contextlib.suppress(NotImplementedError):
                    self.sides[tensor.untyped_storage()._cdata] = side
        return out

    def cudnn(self, found: list[tuple[str, torch.Tensor, str, bool]]) -> bool:
        """Normalization.cpp, _select_batch_norm_backend, as far as samples of op_db go."""
        names = {name for name, *_ in found}
        subject = next(f for f in found if f[0] == "input")
        return {"weight", "bias"} <= names and subject[1].dim() >= 3 and subject[2] != "cpu"

    def judge(self, func: Any, found: list[tuple[str, torch.Tensor, str, bool]]) -> str:
        name = func._schema.name.removeprefix("aten::")
        name += f".{func._schema.overload_name}" if func._schema.overload_name else ""
        if name == "native_batch_norm" and self.normalises and self.cudnn(found):
            name = "cudnn_batch_norm"
        rule = self.rules.get(name)
        if rule is None or not rule["known"]:
            raise Predicted("?", name)
        if rule["check"] == "exact":
            order = sorted(found, key=lambda f: rule["args"].index(f[0]) if f[0] in rule["args"] else 99)
            first = order[0][2]
            other = next(f for f in order if f[2] != first)
            raise Predicted(
                "A", f"{other[0]} is on {other[2]}, different from other tensors on {first}", rule["wrapper"]
            )
        order = sorted(found, key=lambda f: not f[3])
        scalars = [f for f in order if f[2] == "cpu" and f[1].dim() == 0 and not f[3]]
        if len(scalars) > 1:
            raise Predicted("B2", "too many CPU scalars")
        if any(f[2] == "cpu" and f not in scalars for f in order):
            raise Predicted("B1", "cuda:0 and cpu!")
        return "cuda:0"


def read_rules(path: str | None) -> dict[str, Any]:
    """name -> {check, args, wrapper, known}. Known: the op has a CUDA kernel with the generated check, or TensorIterator's."""
    if path is None:
        sys.path.insert(0, "src")
        from whydevice.simulate.rules import table

        return {
            op: {"check": rule.check, "args": [a.removesuffix("[]") for a in rule.arguments], "wrapper": rule.wrapper(),
                 "known": "CUDA" in rule.keys and rule.check in ("exact", "iterator")}
            for op, rule in table().items()
        }  # fmt: skip
    with open(path, encoding="utf-8") as file:
        ops = json.load(file)["ops"]
    return {
        op: {"check": "exact" if row["check"] == "ExactSame" else "iterator",
             "args": [a.removesuffix("[]") for a in row["args"]], "wrapper": row["wrapper"],
             "known": row["wording"] == "wrapper" or (row["wording"] == "TensorIterator" and row["composite"] is None)}
        for op, row in ops.items()
    }  # fmt: skip


def clone(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def placed(pair: Pair) -> list[Any]:
    """The leaves of a sample on the GPU, the displaced one on the CPU; or the other way round."""
    out = []
    for index, leaf in enumerate(pair.leaves):
        if isinstance(leaf, torch.Tensor):
            on_cpu = (index == pair.displaced) == (pair.side == "cpu")
            leaf = leaf.clone() if on_cpu else leaf.clone().cuda()
        elif isinstance(leaf, torch.device) or (isinstance(leaf, str) and leaf == "cpu"):
            leaf = torch.device("cuda" if pair.side == "cpu" else "cpu")
        out.append(leaf)
    return out


def attempt(op: Any, leaves: list[Any], spec: Any) -> tuple[str | None, str, Any]:
    """(exception type or None, message, result)."""
    args, kwargs = tree_unflatten(leaves, spec)
    torch.manual_seed(0)
    try:
        return None, "", op(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error), None


def expectation(pair: Pair, rules: dict[str, Any]) -> list[str] | None:
    """What the rules let expect: [family, text, method], [] for no error, None when they do not say."""
    copies = [clone(leaf) for leaf in pair.leaves]
    displaced = copies[pair.displaced or 0]
    others = [t for t in copies if isinstance(t, torch.Tensor) and t is not displaced]
    on_cpu, on_gpu = ([displaced], others) if pair.side == "cpu" else (others, [displaced])
    try:
        recorder = Recorder(rules, on_cpu, on_gpu)
        recorder.normalises = pair.op.name.endswith(("functional.batch_norm", "functional.instance_norm"))
        with recorder:
            args, kwargs = tree_unflatten(copies, pair.spec)
            pair.op(*args, **kwargs)
    except Predicted as predicted:
        return None if predicted.args[0] == "?" else [str(a) for a in predicted.args]
    except Exception:
        return None
    return []


def op_database() -> list[Any]:
    """PyTorch's OpInfo entries that CUDA implements."""
    try:
        importlib.import_module("expecttest")
    except ImportError:
        # PyTorch's test code takes only the base class of its TestCase from there.
        sys.modules["expecttest"] = stand_in = ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if op.dtypesIfCUDA]


class Pair(NamedTuple):
    """A sample of an op, and which of its tensors is displaced to which side: `cpu`, or `cuda` among others on the CPU."""

    op: Any
    sample: int
    leaves: list[Any]
    spec: Any
    displaced: int | None
    side: str
    want: Any


def pairs(op: Any, samples: int, reverse: bool) -> Iterator[Pair]:
    """Every pair of an op, the same ones on each machine."""
    dtype = (
        torch.float32
        if op.supports_dtype(torch.float32, "cpu")
        else next(iter(op.supported_dtypes("cpu")), torch.complex64)
    )
    torch.manual_seed(0)
    random.seed(0)
    try:
        found = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), samples))
    except Exception:
        return
    for number, sample in enumerate(found):
        leaves, spec = tree_flatten(((sample.input, *sample.args), sample.kwargs))
        kind, _, want = attempt(op, [clone(leaf) for leaf in leaves], spec)
        if kind is not None:
            continue
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        if not all(leaves[i].layout is torch.strided for i in places):
            places = []
        yield Pair(op, number, leaves, spec, None, "cpu", want)
        for side in ("cpu", "cuda") if reverse else ("cpu",):
            for displaced in places if len(places) > 1 else []:
                yield Pair(op, number, leaves, spec, displaced, side, want)


def rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    rules = read_rules(options.rules)
    chosen = [op for op in op_database() if not options.only or op.full_name in options.only]
    for op in chosen[:: options.every]:
        for pair in pairs(op, options.samples, options.reverse):
            expected = None if pair.displaced is None else expectation(pair, rules)
            yield row(pair, options.real) | {"expected": expected}


def row(pair: Pair, real: bool) -> dict[str, Any]:
    """What happened to a pair, on a GPU or under simulation."""
    import whydevice

    op = pair.op
    with contextlib.nullcontext() if real else whydevice.simulate_cuda():
        kind, message, got = attempt(op, placed(pair), pair.spec)
        found = [t for t in tree_leaves(got) if isinstance(t, torch.Tensor)]
        devices = sorted({str(t.device) for t in found})
        equal = None
        if pair.displaced is None and kind is None and not LOOSE.search(op.full_name):
            wanted = [t for t in tree_leaves(pair.want) if isinstance(t, torch.Tensor)]
            equal = len(wanted) == len(found) and all(
                same(a, b.cpu()) for a, b in zip(wanted, found, strict=True)
            )
    return {"op": op.full_name, "sample": pair.sample, "argument": pair.displaced, "side": pair.side, "raises": kind,
            "message": message.partition("\n")[0], "devices": devices, "equal": equal}  # fmt: skip


# Where the rules cannot say it: the CPU's path, which is recorded, is not the one that CUDA takes, or C++
# checks before.
REASONS = {
    "rms_norm": "one kernel on CUDA, several on the CPU",
    "svd_lowrank": "a random matrix is made on the first input's device, which the recording cannot see",
    "__getitem__": "the same function indexes, and its own check comes first",
    "hinge_embedding_loss": "numbers on the CPU meet one at a time",
    "addcmul": "PointwiseOpsKernel.cu refuses a number on the CPU as self or tensor1",
    "cosine_similarity": "C++ makes its eps on the device of the first input, which the recording cannot see",
    "scaled_dot_product_attention": "attention.cpp compares query, key and value first",
    "grid_sample": "GridSamplerUtils.h compares input and grid first",
    "searchsorted": "the sorter is a keyword, which wrappers do not compare",
    "_scaled_mm_v2": "structured in 2.14, whose rules name another wrapper than 2.13",
}


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    try:
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    except Exception:
        return False
    return True


def agrees(entry: dict[str, Any]) -> bool:
    """Whether a simulated outcome is the one that the rules let expect."""
    expected, message = entry["expected"], entry["message"]
    if not expected:
        return entry["raises"] is None
    if expected[0] == "A":
        return f"got {expected[1]} (when checking argument in method {expected[2]})" in message
    text = "at least two devices, cuda:0 and cpu!" if expected[0] == "B1" else "too many CPU scalars"
    return text in message and "when checking" not in message


def summary(table: list[dict[str, Any]]) -> tuple[float, float]:
    """Print how well it went; returns the two shares, all on the GPU and one argument displaced."""
    whole = [e for e in table if e["argument"] is None]
    good = [
        e
        for e in whole
        if e["raises"] is None and e["equal"] is not False and set(e["devices"]) <= {"cuda:0"}
    ]
    print(
        f"all on the GPU: {len(good)} of {len(whole)} samples, {100 * len(good) / max(1, len(whole)):.2f} %"
    )
    for entry in whole:
        if entry not in good:
            print(
                f"  {entry['op']}[{entry['sample']}]: {entry['raises']} {entry['message'][:90]} "
                f"{entry['devices']} equal={entry['equal']}"
            )
    pairs = [e for e in table if e["argument"] is not None]
    judged = [e for e in pairs if e["expected"] is not None]
    right = [e for e in judged if agrees(e)]
    print(f"one argument displaced: {len(pairs)} pairs, the rules say what to expect of {len(judged)}, "
          f"{len(right)} agree, {100 * len(right) / max(1, len(judged)):.2f} %")  # fmt: skip
    by_op: dict[str, list[Any]] = defaultdict(list)
    for entry in judged:
        if not agrees(entry):
            by_op[entry["op"]].append(entry)
    for name, entries in by_op.items():
        reason = next((text for part, text in REASONS.items() if part in name), "NO REASON KNOWN")
        print(
            f"  {name}: {len(entries)}, {reason}; e.g. {entries[0]['expected']} but {entries[0]['raises']} "
            f"{entries[0]['message'][:150]}"
        )
    silent = Counter(e["op"] for e in pairs if e["expected"] is None and e["raises"] is None)
    print(
        f"of the {len(pairs) - len(judged)} others, {sum(silent.values())} pass without an error: "
        f"{dict(silent)}"
    )
    return len(good) / max(1, len(whole)), len(right) / max(1, len(judged))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--rules")
    parser.add_argument("--real", action="store_true")
    parser.add_argument(
        "--reverse", action="store_true", help="also one argument on the GPU among others on the CPU"
    )
    parser.add_argument("--every", type=int, default=1, help="one op of so many")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    table = list(rows(options))
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in table)
    summary(table)


if __name__ == "__main__":
    main()
