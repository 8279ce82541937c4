"""P: sparse, nested, quantized tensors; Q: MPS; R: XLA, NPU and other backends."""

from __future__ import annotations

from ..family import Family

_ADDMM = "Expected all tensors to be on the same device. {op:addmm}"
_NPU = "Expected NPU tensor, please check whether the input tensor device is correct."
# How P1 names the two kinds of tensor: `CUDA`, `a CPU tensor`, `CUDA tensor`, `tensor on cuda:0`.
_WANT, _GOT = "{a:tensor}", "{b:tensor}"

FAMILIES = (
    Family(
        "P1", _ADDMM + ": expected '{arg}' to be " + _WANT + ", but got " + _GOT, ">=1.10", wants=0, holds=1
    ),
    Family(
        "P1", _ADDMM + " expected '{arg}' to be " + _WANT + ", but got " + _GOT, ">=1.10", wants=0, holds=1
    ),
    Family("P1", "{op}: expected '{arg}' to be " + _WANT + ", but got " + _GOT, ">=1.10", wants=0, holds=1),
    Family("P1", "{op}(): all input arguments are expected to be on the same device.", ">=1.10"),
    Family(
        "P1",
        "Values and compressed sparse tensor instance need to have the same device.",
        ">=1.10",
        argument="values",
    ),
    Family(
        "P1",
        "backend of indices ({a}) must match backend of values ({b})",
        ">=1.0",
        argument="indices",
        op="sparse_coo_tensor",
        holds=0,
    ),
    Family(
        "P1",
        "device of indices ({a:index}) must match device of values ({b:index})",
        ">=1.0",
        argument="indices",
        op="sparse_coo_tensor",
        holds=0,
    ),
    Family(
        "P1",
        "Values and {arg:crow_indices|ccol_indices|compressed_indices|plain_indices|col_indices|row_indices} "
        "need to be on the same device.",
        ">=1.10",
        op="sparse_csr_tensor",
    ),
    Family(
        "P1",
        "When constructing a nested tensor, all tensors in list must be on the same device",
        ">=1.13",
        op="nested_tensor",
    ),
    Family(
        "P1",
        "values and offsets must be on the same device, but got values.device={a} and offsets.device={b}",
        ">=2.1",
        argument="offsets",
        op="nested_tensor",
        holds=1,
    ),
    Family("P1", "{op} expects a quantized and float tensors to be on the same device.", ">=1.8"),
    Family(
        "P1",
        "Error {arg}.device= {a} is not supported! Only CUDA tensors are currently supported.",
        ">=2.1",
        op="to_sparse_semi_structured",
        wants="cuda",
        holds=0,
    ),
    # None of the words says so, but the storage that has not been allocated is the cpu tensor's.
    Family(
        "Q1",
        "Placeholder storage has not been allocated on MPS device!",
        "1.12-2.13",
        devices=("cpu", "mps"),
        wants="mps",
    ),
    Family(
        "Q2",
        "{op}: {x:input}(device='{a}') and {y:weight}(device={b}')  must be on the same device",
        "1.13-2.13",
        argument=("input", "weight"),
    ),
    Family(
        "Q3",
        "Tensor for argument {arg} is on {a} but expected on {b}",
        "2.4-2.13",
        op="linear",
        wants=1,
        holds=0,
    ),
    Family("Q4", "Passed CPU tensor to MPS op", "2.9-2.13", devices=("cpu", "mps"), wants="mps"),
    Family(
        "Q5",
        "Expected all tensors to be on the same device, but found at least two devices.",
        "2.4-2.13",
        op="where",
    ),
    Family("Q6", "Expected all tensors to be on the same device. Found: {a}, {b}", "2.4-2.13", op="dot"),
    # A dtype that MPS lacks: it shows on the way to the device, but no device is wrong.
    Family(
        "Q7",
        "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.",
        "1.12-2.13",
        devices=("mps",),
        op="to",
        ambiguous=True,
    ),
    Family("Q8", "{op}: expected '{arg}' to be {a:MPS}, but got {b}", "1.12-2.13", wants=0, holds=1),
    Family("Q8", "Expected {arg}.is_{a:mps}() to be true, but got false.", "1.12-2.13", wants=0),
    Family(
        "Q8",
        "{what:Tensor|Output tensor} is not on the {a:MPS} device.",
        "1.12-2.13",
        wants=0,
        whole=True,
    ),
    Family("Q8", "{what:Output tensor} is not {a:MPS}", "1.12-2.13", wants=0, whole=True),
    Family(
        "R1",
        "Input tensor is not an XLA tensor: {a:type}",
        "torch_xla<=2.8",
        devices=("{a}", "xla"),
        wants="xla",
    ),
    Family("R2", "Expected XLA tensor. Got: {a:type}", "torch_xla", devices=("{a}", "xla"), wants="xla"),
    Family(
        "R2", "{arg} is not an XLA tensor. Got: {a:type}", "torch_xla", devices=("{a}", "xla"), wants="xla"
    ),
    Family(
        "R2",
        "Expected all tensors in the given list to be XLA tensors.",
        "torch_xla",
        devices=("xla",),
        wants="xla",
    ),
    Family("R3", _NPU, "torch_npu", devices=("npu",), wants="npu"),
    Family("R3", "Inplace tensor {arg} must be NPU-Tensor.", "torch_npu", devices=("npu",), wants="npu"),
    Family("R3", "inplace {op} requires {arg} to be NPU tensor", "torch_npu", devices=("npu",), wants="npu"),
    Family("R4", "tensor does not have a device", ">=1.5", whole=True, ambiguous=True),
)
