"""What PyTorch says: from an exception's class name and text to a DeviceError, or to nothing.

`read` is called for every error of a program, so all but device errors must leave it at once: this module and the
families import nothing, and what matches a text is imported when a literal of some family is in it.
"""

from __future__ import annotations

from .families import FAMILIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..types import DeviceError, Place
    from .family import Family

__all__ = ["argument_device", "frames_in_text", "inner", "op_of", "read", "versions", "wanted_side"]

# Every family has one of these words in its literals (tests hold it): most errors have none, and are done here.
_WORDS = (
    "device",
    "CPU",
    "CUDA",
    "cuda",
    "GPU",
    "Input type (",
    "meta tensor",
    "generator",
    "MPS",
    "XLA",
    "NPU",
    "assigned grad",
    "set_data",
    "expected type ",
    "data location",
    "map_location",
    "NVIDIA",
    "Expected object of",
    "offloaded to cpu",
    "to be on cpu",
    "Tensor for argument ",
    "compiled with ",
    "Device index",
    "is_mps",
    "from Triton",
)
_ANCHORS = tuple(dict.fromkeys(family.anchor for family in FAMILIES))
# A longer text is cut in its middle: the sentence stands at one end, whatever hangs on it.
_LONGEST = 1 << 16


def read(exc_type: str, text: str) -> DeviceError | None:
    """What the message says, or None when it is no device error.

    `exc_type` is the class's name without its module. Never raises; takes microseconds for any other error.
    """
    if not isinstance(text, str) or not any(word in text for word in _WORDS):
        return None
    text = _cut(str.__str__(text))
    if not any(anchor in text for anchor in _ANCHORS):
        return None
    from .reading import read_text

    return read_text(str(exc_type), text)


def inner(error: DeviceError) -> DeviceError:
    """The error inside an envelope (a worker's, TorchScript's, ...) as if it had been raised bare; else the error."""
    from .reading import unwrapped

    return unwrapped(error)


def wanted_side(error: DeviceError) -> str | None:
    """The device (or device type) that the wording itself asks for: `cpu` for lengths, numpy, pinned memory and so on.

    None where the message only says that two devices differ.
    """
    from .reading import wanted

    return wanted(error)


def argument_device(error: DeviceError) -> str | None:
    """The device of the argument that the message names; None where it does not say."""
    from .reading import device_of_argument

    return device_of_argument(error)


def versions(error: DeviceError) -> str:
    """The versions of torch (or of the library) that print this wording, as in `2.0-2.7`; "" when not known."""
    from .reading import printed_by

    return printed_by(error)


def frames_in_text(text: str) -> tuple[Place, ...]:
    """The places that a traceback inside a message gives (`File "...", line N, in f`), innermost last."""
    if not isinstance(text, str) or 'File "' not in text:
        return ()
    from .reading import places_in

    return places_in(_cut(str.__str__(text)))


def op_of(wrapper_name: str) -> str:
    """The op, with its overload, behind the name of a generated wrapper: `wrapper_CUDA_mm_out_out` is `mm.out`."""
    from .ops import op_of as found

    return found(wrapper_name)


def _cut(text: str) -> str:
    if len(text) <= 2 * _LONGEST:
        return text
    return f"{text[:_LONGEST]}\n{text[-_LONGEST:]}"
