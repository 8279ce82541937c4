"""H: meta tensors, FakeTensor, torch.compile, export; I: autograd, `.grad`, `.data`, storages."""

from __future__ import annotations

from ..family import Family

_SAME = "Expected all tensors to be on the same device, but "
_FAKE = "Unhandled FakeTensor Device Propagation for {op}, found two different devices {a}, {b}"
_GRAD = "Please ensure that the gradient and the tensor are on the same device"

FAMILIES = (
    # torch._prims_common.check_same_device: the stray first, then the device of the first argument that is no
    # scalar.
    Family("H1", "Tensor on device {a} is not on the expected device {b}!", ">=1.12", wants=1),
    # Unlike B1, the order is that of the arguments.
    Family(
        "H2",
        _SAME + "found at least two devices, {a} and {b}!",
        ">=2.13",
        only="FakeTensorDeviceMismatchError",
    ),
    Family("H3", _FAKE, "1.13-2.12"),
    Family("H4", _FAKE, "2.6-2.12", needs=("Dynamo failed to run FX node with fake tensors",)),
    Family("H4", _FAKE, "2.0-2.5", needs=("Failed running call_",)),
    Family(
        "H5",
        _SAME + "found at least two devices, {a} and {b}!",
        ">=2.13",
        needs=("Tensor device mismatch\n",),
        extra=(
            "Developer debug context: {call:name} <built-in function {op}>",
            "Developer debug context: {call:name} <built-in method {op} of",
            "Developer debug context: {call:name} <function {op} at",
            "Developer debug context: call_method {op}",
        ),
    ),
    Family(
        "H6",
        "Mismatching {op} device between self ({a}) and values ({b})",
        ">=2.0",
        argument="values",
        holds=1,
    ),
    Family(
        "H7",
        _SAME + "got {arg} is on {a}, different from other tensors on {b}",
        ">=2.14",
        op="convolution",
        holds=0,
    ),
    Family("H8", "FakeTensor is wrapped to wrong device, found {a}, expected {b}", ">=2.0", wants=1),
    Family("H9", "{op} expects all inputs tensors on the same device", ">=2.0"),
    Family("H9", "{op}: self and key must be on the same device, got {a} and {b}", ">=2.0"),
    Family("H9", "expected all inputs to be same device", ">=2.0", whole=True),
    Family("H10", "Cannot copy out of meta tensor; no data!", ">=1.9", devices=("meta",)),
    Family(
        "H10",
        "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty()",
        ">=2.1",
        devices=("meta",),
        op="Module.to",
    ),
    Family("H11", "Tensor.{op}() cannot be called on meta tensors", ">=2.1", devices=("meta",)),
    Family(
        "H12",
        "{arg}: unmatched device type, expected: {n:int}({a}), but got: {b:number}",
        ">=2.4",
        wants=0,
        holds=1,
    ),
    Family(
        "I1",
        "Function {op} returned an invalid gradient at index {arg:int} - expected device {a} but got {b}",
        ">=1.3",
        wants=0,
        holds=1,
    ),
    Family(
        "I1",
        "invalid gradient at index {arg:int} - expected device {a} but got {b}",
        ">=1.3",
        wants=0,
        holds=1,
    ),
    Family(
        "I2",
        "Function {op} returned an invalid gradient at index {arg:int} - expected type {a:type} but got "
        "{b:type}",
        "1.0-1.4",
        wants=0,
        holds=1,
    ),
    Family(
        "I3",
        "attempting to assign a gradient with device type '{a}' to a tensor with device type '{b}'. " + _GRAD,
        ">=2.4",
        argument="grad",
        wants=1,
        holds=0,
    ),
    Family(
        "I4",
        "attempting to assign a gradient located on device with index '{a:index}' "
        "to a tensor located on device with index '{b:index}'. " + _GRAD,
        ">=2.4",
        argument="grad",
        wants=1,
        holds=0,
    ),
    Family("I5", "assigned grad has data located on a different device", "0.4-2.0", argument="grad"),
    Family("I5", "assigned grad has data of a different type", "0.4-2.0", argument="grad", ambiguous=True),
    Family(
        "I6",
        "Attempted to call `variable.set_data(tensor)`, "
        "but `variable` and `tensor` have incompatible tensor type.",
        ">=1.1",
        argument="data",
        ambiguous=True,
    ),
    Family(
        "I7",
        'Attempted to set the storage of a tensor on device "{a}" to a storage on different device "{b}".',
        ">=1.1",
        argument="source",
        op="set_",
        holds=1,
    ),
    Family(
        "I8",
        "{op:_swap_data_ptr_}: storages must be on the same device, got {a} and {b}",
        ">=2.12",
    ),
)
