"""The table of device checks, and the simulation against PyTorch's own OpInfo database."""

from __future__ import annotations

import argparse
import os

import pytest

torch = pytest.importorskip("torch")

from scripts import script  # noqa: E402
from whydevice.simulate.rules import table  # noqa: E402


def test_table_is_what_this_torch_would_write() -> None:
    if not torch.__version__.startswith("2.13."):
        pytest.skip("the table was made from torch 2.13")
    pytest.importorskip("torchgen")
    pytest.importorskip("yaml")
    make = script("make_device_rules")
    assert make.TARGET.read_text(encoding="utf-8") == make.text(make.build())


def test_wrapper_names() -> None:
    """Names that were read in the strings of a CUDA build (2.14)."""
    names = {
        "addmm": "wrapper_CUDA_addmm",
        "addmm.out": "wrapper_CUDA_addmm_out_out",
        "index_select": "wrapper_CUDA__index_select",
        "scatter_.value": "wrapper_CUDA_scatter__value",
        "_embedding_bag": "wrapper_CUDA___embedding_bag",
        "clamp.Tensor": "wrapper_CUDA_clamp_Tensor",
        "where.self": "wrapper_CUDA_self_where",
    }
    assert {op: table()[op].wrapper() for op in names} == names
    assert table()["addmm"].wrapper("SparseCUDA") == "wrapper_SparseCUDA__addmm"


def test_checks_and_order() -> None:
    rules = table()
    assert (rules["addmm"].check, rules["addmm"].arguments) == ("exact", ("self", "mat1", "mat2"))
    assert rules["addmm.out"].arguments[0] == "out", "outputs are compared first"
    assert rules["add.Tensor"].check == "iterator" and rules["copy_"].check == "free"
    assert "sorter" not in rules["searchsorted.Tensor"].arguments, "keyword-only tensors are not compared"


NIGHTLY = bool(os.environ.get("WHYDEVICE_NIGHTLY"))


@pytest.mark.parametrize(
    ("reverse", "every"), [(False, 1), (True, 8)] if NIGHTLY else [(False, 4), (True, 8)]
)
def test_against_opinfo(reverse: bool, every: int) -> None:
    """The shares that issue 3 asks for, on one sample of part of the ops; the script without options takes all."""
    runner = script("opinfo_devices")
    options = argparse.Namespace(rules=None, real=False, samples=1, only=[], reverse=reverse, every=every)
    whole, displaced = runner.summary(list(runner.rows(options)))
    assert whole >= 0.995 and displaced >= 0.97
