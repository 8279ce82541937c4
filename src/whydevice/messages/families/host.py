"""J: random generators; K: numpy, pinning, dlpack; L: loading checkpoints; M: devices that are not there."""

from __future__ import annotations

from ..family import Family

_MAP = "Please use torch.load with map_location"
_ONLY_CUDA = ("cuda",)

FAMILIES = (
    Family(
        "J1",
        "Expected a '{a}' device type for generator but found '{b}'",
        ">=1.5",
        argument="generator",
        wants=0,
        holds=1,
    ),
    Family(
        "J2",
        "Expected a '{a}' generator device but found '{b}'",
        ">=1.8",
        argument="generator",
        op="randperm",
        wants=0,
        holds=1,
    ),
    Family(
        "K1",
        "can't convert {a} device type tensor to numpy. Use Tensor.cpu() to copy",
        ">=1.3",
        argument="self",
        op="numpy",
        wants="cpu",
        holds=0,
    ),
    Family(
        "K2",
        "can't convert {a} tensor to numpy. Use Tensor.cpu() to copy",
        "0.4-1.2",
        argument="self",
        op="numpy",
        wants="cpu",
        holds=0,
    ),
    Family(
        "K3",
        "cannot pin '{a:type}' only dense CPU tensors can be pinned",
        ">=1.0",
        argument="self",
        op="pin_memory",
        wants="cpu",
        holds=0,
    ),
    Family(
        "K3",
        "cannot pin '{a:type}' only CPU memory can be pinned",
        ">=1.0",
        argument="self",
        op="pin_memory",
        wants="cpu",
        holds=0,
    ),
    Family(
        "K4",
        "Can't get __cuda_array_interface__ on non-CUDA tensor type: {a:type} ",
        ">=1.0",
        argument="self",
        wants="cuda",
        holds=0,
    ),
    Family(
        "K5",
        "Can't export tensors on a different CUDA device index. Expected: {a:index}. Current device: "
        "{b:index}.",
        ">=2.0",
        argument="self",
        op="dlpack",
    ),
    Family(
        "K6",
        "{fn:_share_fd_|_share_filename_}: only available on CPU",
        ">=2.0",
        devices=("cpu",),
        op="share_memory_",
        wants="cpu",
        whole=True,
    ),
    Family(
        "K6",
        "{fn:_share_cuda_}: only available on CUDA",
        ">=2.0",
        devices=("cuda",),
        op="share_memory_",
        wants="cuda",
        whole=True,
    ),
    Family(
        "K7",
        "{op:apply_|map_|map2_} is only implemented on CPU tensors",
        ">=1.0",
        devices=("cpu",),
        argument="self",
        wants="cpu",
        whole=True,
    ),
    Family(
        "L1",
        "Attempting to deserialize object on a {a} device but torch.{b}.is_available() is False.",
        ">=1.0",
        devices=("{a}",),
        op="torch.load",
        wants="cpu",
    ),
    Family(
        "L2",
        "Attempting to deserialize object on {a} device {n:int} but torch.{b}.device_count() is {m:int}. "
        + _MAP,
        ">=1.0",
        devices=("{a}:{n}",),
        op="torch.load",
    ),
    Family(
        "L3",
        "don't know how to restore data location of {storage:name} (tagged with {a})",
        ">=1.0",
        op="torch.load",
    ),
    Family(
        "L4",
        "The {a} device module is not registered. If you are running on a CPU-only machine, "
        "please use torch.load with map_location",
        ">=2.4",
        op="torch.load",
        wants="cpu",
    ),
    Family("L5", "torch.UntypedStorage(): Storage device not recognized: {a}", ">=2.0", op="torch.load"),
    Family(
        "L6",
        "map_location should be either None, string or torch.device, but got type: ",
        ">=1.0",
        argument="map_location",
        op="torch.jit.load",
    ),
    Family("M1", "Torch not compiled with {a:CUDA|XPU|MPS|HIP|ROCm} enabled", ">=0.4"),
    Family("M2", "PyTorch is not linked with support for {a} devices", ">=1.5"),
    Family("M3", "Found no NVIDIA driver on your system.", ">=0.4", devices=_ONLY_CUDA),
    Family("M4", "No CUDA GPUs are available", ">=1.7", devices=_ONLY_CUDA),
    Family("M5", "CUDA error: invalid device ordinal", ">=0.4", devices=_ONLY_CUDA),
    Family(
        "M6",
        "device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at",
        ">=1.10",
        devices=("cuda:{i}",),
        extra=("device={i:int}, num_gpus=",),
    ),
    Family(
        "M7",
        "device type at start of device string: {a}",
        ">=1.0",
        needs=("Expected one of cpu, cuda,",),
    ),
    Family("M8", "Invalid device string: '", ">=1.0"),
    Family("M9", "Device index must not be negative", ">=2.0"),
    Family("M10", "Cannot access accelerator device when none is available.", ">=2.6"),
    Family(
        "M11",
        "type {a:type} not available. Torch not compiled with {b} enabled.",
        ">=1.0",
        devices=("{a}",),
    ),
    Family(
        "M12",
        "legacy constructor expects device type: {a} but device type: {b} was passed",
        ">=1.0",
        argument="device",
        wants=0,
        holds=1,
    ),
    Family("M13", "Cannot re-initialize CUDA in forked subprocess.", ">=0.4", devices=_ONLY_CUDA),
    # An op that lacks a kernel for sparse, quantized or nested tensors prints the same words: no device is
    # wrong.
    Family(
        "M14",
        "Could not run '{op}' with arguments from the '{a:CUDA|XPU|MPS|HPU|XLA|MTIA|IPU|Meta|PrivateUse1}' "
        "backend.",
        ">=1.5",
    ),
    Family(
        "M14",
        "Could not run '{op}' with arguments from the '{a:CPU}' backend.",
        ">=1.5",
        ambiguous=True,
    ),
    Family("M15", "Cannot get CUDA generator without ATen_cuda library.", ">=1.0", devices=_ONLY_CUDA),
    # No check at all: a kernel that was handed a pointer of another device, or one with a bug of its own.
    Family(
        "M16",
        "CUDA error: an illegal memory access was encountered",
        ">=0.4",
        devices=_ONLY_CUDA,
        ambiguous=True,
    ),
)
