"""What PyTorch says: from an exception's class name and text to a DeviceError, or to nothing.

`read` is called for every error of a program, so all but device errors must leave it at once: this module and
the families import nothing, and what matches a text is imported when a literal of some family is in it.
"""

from __future__ import annotations

from .shorten import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..types import DeviceError, Place

__all__ = [
    "argument_device",
    "frames_in_text",
    "inner",
    "op_of",
    "own_text",
    "read",
    "versions",
    "wanted_side",
]

# Each template has one of these phrases (a test holds it) and ordinary errors have none, so that they are
# done with before the families are even loaded.
_PHRASES = (
    "same device",
    "different device",
    "CPU scalars",
    "expected device",
    "share a device",
    "object of backend",
    "object of type",
    "Current device",
    "DeviceType",
    "Input type (",
    "CPU int64 tensor",
    "on CPU",
    "to be CUDA",
    "on CUDA",
    "CUDA tensor",
    "CPU tensor",
    "tensor to numpy",
    "XLA tensor",
    "NPU",
    "to have device",
    "attribute 'device'",
    "device between",
    "wrong device",
    "meta tensor",
    "meta device",
    "device type",
    "invalid gradient at index",
    "assigned grad has",
    "set_data(",
    "generator device",
    "cannot pin '",
    "deserialize object",
    "data location",
    "device module",
    "device not recognized",
    "map_location should",
    "not compiled with",
    "not linked with",
    "NVIDIA driver",
    "No CUDA GPUs",
    "device ordinal",
    "num_gpus",
    "device string",
    "Device index",
    "accelerator device",
    "re-initialize CUDA",
    "Could not run '",
    "ATen_cuda",
    "illegal memory access",
    "CPU and GPU",
    "FSDP",
    "Device mismatch",
    "shard tensor device",
    "foreach API",
    "backend of indices",
    "device of indices",
    "MPS",
    "expected on",
    "not have a device",
    "from Triton",
    "supported: ",
    "offloaded to cpu",
    "to be on ",
    "GPU device",
    "fused=True",
    "capturable=",
    "the current device",
    "type of devices",
    "must be CUDA",
    "to be true, but got false",
    "device_ids",
    "to device",
    "autocast",
)


def read(exc_type: str, text: str) -> DeviceError | None:
    """What the message says, or None when it is no device error.

    `exc_type` is the class's name without its module. Never raises; takes microseconds for any other error.
    """
    if not isinstance(text, str):
        return None
    text = str.__str__(text)
    looked_at = shorten(text)
    if not any(phrase in looked_at for phrase in _PHRASES):
        return None
    from .reading import read_text

    return read_text(str(exc_type), text)


def own_text(text: str) -> str:
    """The text without our own block, which a worker's traceback brings along as the note of its error."""
    return text.partition("\nwhydevice: ")[0]


def inner(error: DeviceError) -> DeviceError:
    """The error inside an envelope (a worker's, TorchScript's, ...) as if it had been raised bare; else the
    error."""
    from .reading import unwrapped

    return unwrapped(error)


def wanted_side(error: DeviceError) -> str | None:
    """The device (or device type) that the wording itself asks for: `cpu` for lengths, numpy, pinned memory
    and so on.

    None where the message only says that two devices differ.
    """
    from .reading import wanted

    return wanted(error)


def argument_device(error: DeviceError) -> str | None:
    """The device of the argument that the message names; None where it does not say."""
    from .reading import device_of_argument

    return device_of_argument(error)


def versions(error: DeviceError) -> str:
    """The versions of torch (or of the library) that print this wording, as in `2.0-2.7`; "" when not
    known."""
    from .reading import printed_by

    return printed_by(error)


def frames_in_text(text: str) -> tuple[Place, ...]:
    """The places that a traceback inside a message gives (`File "...", line N, in f`), innermost last."""
    if not isinstance(text, str) or 'File "' not in text:
        return ()
    from .reading import places_in

    return places_in(str.__str__(text))


def op_of(wrapper_name: str) -> str:
    """The op, with its overload, behind the name of a generated wrapper: `wrapper_CUDA_mm_out_out` is
    `mm.out`."""
    from .ops import op_of as found

    return found(wrapper_name)
