"""PyTorch's own comparison of the operands' devices, before any kernel runs.

A: wrappers that torchgen writes; B: TensorIterator; C: the legacy TH dispatch (torch <= 1.8); D: TensorUtils.
"""

from __future__ import annotations

from ..family import Family

_SAME = "Expected all tensors to be on the same device, but "

FAMILIES = (
    # A1 names the first tensor that differs from the FIRST one checked, which need not be the stray.
    Family(
        "A1",
        _SAME + "got {arg} is on {a}, different from other tensors on {b} (when checking argument in method "
        "{wrapper})",
        ">=2.8",
        holds=0,
    ),
    # A2, A3 and A4 print the first tensor's device first and the named argument's second.
    Family(
        "A2",
        _SAME + "found at least two devices, {a} and {b}! "
        "(when checking argument for argument {arg} in method {wrapper:keyed})",
        "2.0-2.7",
        holds=1,
    ),
    Family(
        "A2",
        _SAME + "found at least two devices, {a:npu} and {b:npu}! "
        "(when checking argument for argument {arg} in method {wrapper})",
        "torch_npu",
        holds=1,
    ),
    Family(
        "A3",
        _SAME + "found at least two devices, {a} and {b}! "
        "(when checking argument for argument {arg} in method {wrapper})",
        "1.10-1.13",
        holds=1,
    ),
    Family(
        "A4",
        _SAME + "found at least two devices, {a} and {b}! "
        "(when checking arugment for argument {arg} in method {wrapper:oldest})",
        "1.9",
        holds=1,
    ),
    Family(
        "A5",
        "Expected all tensors to be on the same common device, but found at least two devices, {a} and {b}! "
        "(when checking arugment for argument {arg} in method {wrapper:oldest})",
        "nightly 2021",
        holds=1,
    ),
    # The first device is that of the first operand that is not on the cpu.
    Family("B1", _SAME + "found at least two devices, {a} and {b}!", ">=1.6"),
    Family("B2", "Trying to pass too many CPU scalars to {kernel:non-CPU|CUDA} kernel!", ">=1.6"),
    Family("B3", "expected device {a} but got device {b}", "1.3-1.5"),
    Family(
        "B4",
        "CPU Scalar support for {arg} argument is not supported when calling {op} on CUDA tensors.",
        ">=2.7.1",
        wants="cuda",
    ),
    Family(
        "B5",
        "scalar tensor expected to be on {a} but is on {b}",
        ">=2.4",
        op="_foreach",
        wants=0,
    ),
    Family(
        "B6",
        "reduce_op(): expected input and both outputs to be on same device, "
        "but input is on {a}, output1 is on {b} and output2 is on {c}",
        ">=1.5",
        op="reduce",
    ),
    Family(
        "B6",
        "reduce_op: out, out2, and the input must share a device, got out={b}, out2={c}, a={a}",
        "2.14",
        op="reduce",
    ),
    Family(
        "C1",
        "Expected object of device type {a} but got device type {b} for argument #{n:int} '{arg}' in call to "
        "{op}",
        "1.2-1.8",
        wants=0,
        holds=1,
    ),
    Family(
        "C2",
        "Expected object of device type {a} but got device type {b} "
        "for sequence element {n:int} in sequence argument at position #{p:int} '{arg}'",
        "1.2-1.8",
        wants=0,
        holds=1,
    ),
    Family(
        "C3",
        "Expected object of backend {a} but got backend {b} for argument #{n:int} '{arg}'",
        "0.4.1-1.2",
        wants=0,
        holds=1,
    ),
    Family(
        "C4",
        "Expected object of type {a:type} but found type {b:type} for argument #{n:int} '{arg}'",
        "0.4.0",
        wants=0,
        holds=1,
    ),
    Family("C5", "ll input tensors must be on the same device. Received {a} and {b}", "1.5-2.9", op="cat"),
    Family(
        "C6",
        "expected condition, x and y to be on the same device, "
        "but condition is on {a} and x and y are on {b} and {c} respectively",
        "<=1.5",
        argument=("condition", "x", "y"),
        pick="odd",
        op="where",
    ),
    Family("C7", "Input, output and indices must be on the current device", "1.7-1.8", op="index_select"),
    Family(
        "D1",
        "Tensor for argument #{n:int} '{arg}' is on CPU, but expected {it:it|them} to be on GPU "
        "(while checking arguments for {op})",
        ">=1.5",
        devices=("cpu",),
        wants="cuda",
        holds=0,
    ),
    Family(
        "D1",
        "Tensor for '{arg}' is on CPU, but expected {it:it|them} to be on GPU (while checking arguments for "
        "{op})",
        ">=1.5",
        devices=("cpu",),
        wants="cuda",
        holds=0,
    ),
    Family(
        "D2",
        "Expected tensor for {x:argument} '{arg}' to have the same device as tensor for {y:argument} "
        "'{other:name}'; "
        "but device {a:index} does not equal {b:index} (while checking arguments for {op})",
        ">=1.5",
        holds=0,
    ),
    Family(
        "D3",
        "Expected tensor to have {a} DeviceType, but got tensor with {b} DeviceType "
        "(while checking arguments for {op})",
        ">=1.5",
        wants=0,
    ),
    Family(
        "D4",
        "Expected tensors to have CUDA DeviceType, but got tensors with type {a} and {b}",
        ">=1.5",
        wants="cuda",
    ),
)
