"""How ops on sparse tensors compare devices: with words of their own, once the generated wrapper let them pass.

Sources: aten/src/ATen/native/sparse (the file is named beside each rule).
"""

from __future__ import annotations

import torch

from .judge import Call, Item, exact, iterate, special

COMPRESSED = {torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}


@special("_sparse_addmm")
def sparse_addmm(call: Call) -> int:
    """SparseTensorMath.cpp: addmm; torch.sparse.mm adds to zeros that it makes where the dense matrix is."""
    added, sparse, dense = (call.named(n)[0] for n in ("self", "mat1", "mat2"))
    if added.wild:
        added = added._replace(tag=dense.tag, tensor=dense.tensor)
    return exact([added, sparse, dense], "wrapper_SparseCUDA__addmm")


@special(*(f"{op}{end}" for op in ("add", "sub", "mul") for end in (".Tensor", "_.Tensor", ".out")))
def arithmetic(call: Call) -> int:
    """cuda/SparseCUDATensorMath.cu and cuda/SparseCsrTensorMath.cu: `self`, `other` and `out` have to be on a GPU."""
    name = call.op.partition(".")[0].removesuffix("_").replace("sub", "add")
    items = call.named("self") + call.named("other") + call.named("out")
    layouts = {item.tensor.layout for item in items}
    if layouts == {torch.strided} or (name == "mul" and torch.strided in layouts):
        return iterate(call.items)
    compressed = bool(layouts & COMPRESSED)
    for item in items:
        if item.tag == 0:
            raise RuntimeError(f"{name}: expected '{item.name}' to be {_wanted(layouts, compressed, item)}")
    return items[0].tag


def _wanted(layouts: set[torch.layout], compressed: bool, item: Item) -> str:
    if not compressed:
        dense = torch.strided in layouts
        return "a CUDA tensor, but got a CPU tensor" if dense else "CUDA, but got CPU"
    article = "a " if torch.strided in layouts and item.name == "other" else ""
    return f"{article}CUDA tensor, but got tensor on device: {item.device}"


@special("sparse_compressed_tensor", "_sparse_compressed_tensor_unsafe", "_sparse_csr_tensor_unsafe",
         "_sparse_csc_tensor_unsafe", "_sparse_bsr_tensor_unsafe", "_sparse_bsc_tensor_unsafe",
         "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor")  # fmt: skip
def compressed_parts(call: Call) -> int:
    """SparseCsrTensorImpl.cpp, set_member_tensors: the indices are where the values are."""
    *indices, values = call.items
    layout = call.kwargs.get("layout")
    rows = (
        layout not in (torch.sparse_csc, torch.sparse_bsc) and "_csc" not in call.op and "_bsc" not in call.op
    )
    names = ("crow_indices", "col_indices") if rows else ("ccol_indices", "row_indices")
    for name, item in zip(names, indices, strict=False):
        if item.device != values.device:
            raise RuntimeError(f"Values and {name} need to be on the same device.")
    return values.tag
