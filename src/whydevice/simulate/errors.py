"""The words of CUDA's device errors, for the installed torch (shared/messages.md, families A to P).

torch 2.8 changed the sentence of the generated wrappers (pytorch#150750); everything else kept its words
since 2.0.
"""

from __future__ import annotations

import torch

_VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
NEW_WORDING = _VERSION >= (2, 8)


def wrapper(argument: str, device: str, common: str, method: str) -> RuntimeError:
    """A1/A2: the generated wrapper names the first argument that differs from the first tensor."""
    if NEW_WORDING:
        return RuntimeError(
            f"Expected all tensors to be on the same device, but got {argument} is on {device}, different "
            f"from "
            f"other tensors on {common} (when checking argument in method {method})"
        )
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {common} and "
        f"{device}! "
        f"(when checking argument for argument {argument} in method {method})"
    )


def iterator(common: str, device: str) -> RuntimeError:
    """B1: TensorIterator names the first device that is not the CPU, then the one that differs."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {common} and "
        f"{device}!"
    )


def too_many_scalars() -> RuntimeError:
    """B2: TensorIterator accepts one 0-dim CPU operand."""
    return RuntimeError("Trying to pass too many CPU scalars to non-CPU kernel!")


def output(expected: str, found: str) -> RuntimeError:
    """G11: a structured kernel's output that is not where its input is."""
    return RuntimeError(f"Expected out tensor to have device {expected}, but got {found} instead")


def indices(device: str) -> RuntimeError:
    """F1."""
    return RuntimeError(
        f"indices should be either on cpu or on the same device as the indexed tensor ({device})"
    )


def generator(expected: str, found: str) -> RuntimeError:
    """J1."""
    return RuntimeError(f"Expected a '{expected}' device type for generator but found '{found}'")


def permutation(expected: str, found: str) -> RuntimeError:
    """J2: randperm on the CPU compares devices, not their kinds."""
    return RuntimeError(f"Expected a '{expected}' generator device but found '{found}'")


def gradient(index: int, expected: str, found: str, node: str | None = None) -> RuntimeError:
    """I1: autograd's own check of a gradient; the roots of a backward have no node to name."""
    head = f"Function {node} returned an invalid" if node else "invalid"
    return RuntimeError(f"{head} gradient at index {index} - expected device {expected} but got {found}")


def storage(tensor: str, storage: str) -> RuntimeError:
    """I7."""
    return RuntimeError(
        f'Attempted to set the storage of a tensor on device "{tensor}" to a storage on different device "{storage}".  '
        "This is no longer allowed; the devices must match."
    )


def invalid_ordinal() -> RuntimeError:
    """M5: the error that CUDA raises for a device that does not exist."""
    kind = getattr(torch, "AcceleratorError", RuntimeError)
    hint = "GPU device may be out of range, do you have enough GPUs?\n" if _VERSION >= (2, 9) else ""
    text = (
        f"CUDA error: invalid device ordinal\n{hint}"
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace "
        "below might "
        "be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
    )
    return kind(text)
