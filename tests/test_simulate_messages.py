"""Every sentence of the catalogue that eager CUDA raises on torch 2.8 or newer and one process can provoke.

The ids are those of the message catalogue (messages.jsonl), the texts its own.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import whydevice  # noqa: E402

pytestmark = pytest.mark.skipif(
    tuple(int(p) for p in torch.__version__.split("+")[0].split(".")[:2]) < (2, 8), reason="older wording"
)

SAME = "Expected all tensors to be on the same device, but "


def c(*shape: int) -> Any:
    """A tensor on the CPU."""
    return torch.ones(shape)


def g(*shape: int, index: int = 0) -> Any:
    """A tensor on a simulated GPU."""
    return torch.ones(shape, device=f"cuda:{index}")


def ints(*values: int, device: str = "cpu") -> Any:
    return torch.tensor(values, device=device)


def a1(argument: str, device: str, common: str, method: str) -> str:
    return f"{SAME}got {argument} is on {device}, different from other tensors on {common} (when checking argument in method {method})"


def model(module: nn.Module) -> Any:
    return module.cuda()


def _grad_of_cpu_from_gpu() -> None:
    p = nn.Parameter(g(2))
    p.grad = c(2)


def _grad_between_gpus() -> None:
    p = nn.Parameter(g(2))
    p.grad = g(2, index=1)


def _stale_state() -> None:
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(c(1, 2)).sum().backward()
    optimizer.step()
    layer.cuda()
    optimizer.zero_grad()
    layer(g(1, 2)).sum().backward()
    optimizer.step()


def _fused_state() -> None:
    p = g(2)
    torch._fused_adamw_([p], [g(2)], [c(2)], [g(2)], [], [g()], lr=0.1, beta1=0.9, beta2=0.9, weight_decay=0.0,
                        eps=1e-8, amsgrad=False, maximize=False)  # fmt: skip


def _batch_sizes_on_gpu() -> None:
    layer = nn.LSTM(2, 2).cuda()
    state = (g(1, 1, 2), g(1, 1, 2))
    torch._VF.lstm(g(2, 2), ints(1, 1, device="cuda"), state, layer._flat_weights, True, 1, 0.0, True, False)


def _block_mask() -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 128, 128, device="cpu")
    flex_attention(g(1, 1, 128, 16), g(1, 1, 128, 16), g(1, 1, 128, 16), block_mask=mask)


def _loaded(place: str) -> None:
    file = io.BytesIO()
    torch.save(c(2), file)
    file.seek(0)
    torch.load(file, map_location=place)


def _stepped(data: Any, **options: Any) -> None:
    p = nn.Parameter(data)
    p.grad = torch.ones_like(p)
    torch.optim.Adam([p], **options).step()


def _clipped() -> None:
    p = nn.Parameter(torch.ones(2, device="meta"))
    p.grad = torch.ones_like(p)
    nn.utils.clip_grad_norm_([p], 1.0, foreach=True)


def _scaler_elsewhere() -> None:
    torch._fused_adamw_([g(2)], [g(2)], [g(2)], [g(2)], [], [g()], lr=g(), beta1=0.9, beta2=0.9, weight_decay=0.0,
                        eps=1e-8, amsgrad=False, maximize=False, found_inf=g(index=1))  # fmt: skip


def _sentinel() -> None:
    embedding = nn.Embedding(4, 2).cuda()
    embedding(ints(1))


CASES: list[tuple[str, str, type[BaseException], Callable[[], Any]]] = [
    ("A1.1", a1("mat1", "cpu", "cuda:0", "wrapper_CUDA_addmm"), RuntimeError, lambda: model(nn.Linear(2, 2))(c(1, 2))),
    ("A1.2", a1("mat1", "cuda:0", "cpu", "wrapper_CUDA_addmm"), RuntimeError, lambda: nn.Linear(2, 2)(g(1, 2))),
    ("A1.3", a1("mat2", "cuda:0", "cpu", "wrapper_CUDA_mm"), RuntimeError, lambda: c(2, 2) @ g(2, 2)),
    ("A1.4", a1("mat2", "cpu", "cuda:0", "wrapper_CUDA_mm"), RuntimeError, lambda: g(2, 2) @ c(2, 2)),
    ("A1.5", a1("mat2", "cuda:1", "cuda:0", "wrapper_CUDA_bmm"), RuntimeError, lambda: torch.bmm(g(1, 2, 2), g(1, 2, 2, index=1))),
    ("A1.6", a1("batch1", "cpu", "cuda:0", "wrapper_CUDA_baddbmm"), RuntimeError, lambda: torch.baddbmm(g(1, 2, 2), c(1, 2, 2), g(1, 2, 2))),
    ("A1.7", a1("mat", "cpu", "cuda:0", "wrapper_CUDA_addmv_"), RuntimeError, lambda: g(2).addmv_(c(2, 2), g(2))),
    ("A1.8", a1("tensor", "cpu", "cuda:0", "wrapper_CUDA__dot"), RuntimeError, lambda: torch.dot(g(2), c(2))),
    ("A1.9", a1("index", "cpu", "cuda:0", "wrapper_CUDA__index_select"), RuntimeError, _sentinel),
    ("A1.10", a1("index", "cuda:0", "cpu", "wrapper_CUDA__index_select"), RuntimeError, lambda: c(3).index_select(0, ints(1, device="cuda"))),
    ("A1.11", a1("index", "cpu", "cuda:0", "wrapper_CUDA_gather"), RuntimeError, lambda: g(3).gather(0, ints(1))),
    ("A1.12", a1("index", "cuda:1", "cuda:0", "wrapper_CUDA_scatter__value"), RuntimeError, lambda: g(3).scatter_(0, ints(1, device="cuda:1"), 1.0)),
    ("A1.13", a1("src", "cpu", "cuda:0", "wrapper_CUDA_scatter__src"), RuntimeError, lambda: g(3).scatter_(0, ints(1, device="cuda"), c(1))),
    ("A1.14", a1("src", "cpu", "cuda:0", "wrapper_CUDA_scatter_add"), RuntimeError, lambda: g(3).scatter_add(0, ints(1, device="cuda"), c(1))),
    ("A1.15", a1("index", "cpu", "cuda:0", "wrapper_CUDA_index_add_"), RuntimeError, lambda: g(3).index_add_(0, ints(1), g(1))),
    ("A1.16", a1("source", "cpu", "cuda:0", "wrapper_CUDA_index_copy_"), RuntimeError, lambda: g(3).index_copy_(0, ints(1, device="cuda"), c(1))),
    ("A1.17", a1("tensors", "cpu", "cuda:0", "wrapper_CUDA_cat"), RuntimeError, lambda: torch.cat([g(1), c(1)])),
    ("A1.18", a1("tensors", "cuda:0", "cpu", "wrapper_CUDA_cat"), RuntimeError, lambda: torch.stack([c(1), g(1)])),
    ("A1.19", a1("target", "cpu", "cuda:0", "wrapper_CUDA_nll_loss_forward"), RuntimeError, lambda: F.cross_entropy(g(2, 3), ints(0, 1))),
    ("A1.20", a1("weight", "cpu", "cuda:0", "wrapper_CUDA_nll_loss_forward"), RuntimeError, lambda: F.nll_loss(g(2, 3), ints(0, 1, device="cuda"), c(3))),
    ("A1.21", a1("target", "cpu", "cuda:0", "wrapper_CUDA__nll_loss2d_forward"), RuntimeError, lambda: F.nll_loss(g(1, 3, 2, 2), torch.zeros(1, 2, 2, dtype=torch.long))),
    ("A1.22", a1("weight", "cpu", "cuda:0", "wrapper_CUDA__native_layer_norm"), RuntimeError, lambda: nn.LayerNorm(2)(g(1, 2))),
    ("A1.23", a1("weight", "cuda:0", "cpu", "wrapper_CUDA__native_layer_norm"), RuntimeError, lambda: model(nn.LayerNorm(2))(c(1, 2))),
    ("A1.24", a1("weight", "cuda:0", "cpu", "wrapper_CUDA__native_batch_norm"), RuntimeError, lambda: model(nn.BatchNorm2d(2))(c(2, 2, 3, 3))),
    ("A1.25", a1("weight", "cpu", "cuda:0", "wrapper_CUDA__cudnn_batch_norm"), RuntimeError, lambda: nn.BatchNorm2d(2)(g(2, 2, 3, 3))),
    ("A1.26", a1("weight", "cpu", "cuda:0", "wrapper_CUDA__native_group_norm"), RuntimeError, lambda: nn.GroupNorm(1, 2)(g(1, 2, 3))),
    ("A1.27", a1("weight", "cpu", "cuda:0", "wrapper_CUDA___fused_rms_norm"), RuntimeError, lambda: F.rms_norm(g(1, 2), (2,), c(2))),
    ("A1.28", a1("weight", "cuda:1", "cuda:0", "wrapper_CUDA__cudnn_convolution"), RuntimeError, lambda: F.conv2d(g(1, 1, 3, 3), g(1, 1, 2, 2, index=1))),
    ("A1.29", a1("grid", "cpu", "cuda:0", "wrapper_CUDA__grid_sampler_2d"), RuntimeError, lambda: torch.grid_sampler_2d(g(1, 1, 2, 2), c(1, 1, 1, 2), 0, 0, False)),
    ("A1.30", a1("mask", "cpu", "cuda:0", "wrapper_CUDA__masked_select"), RuntimeError, lambda: g(2).masked_select(c(2) > 0)),
    ("A1.31", a1("mask", "cpu", "cuda:0", "wrapper_CUDA__masked_scatter_"), RuntimeError, lambda: g(2).masked_scatter(c(2) > 0, g(2))),
    ("A1.32", a1("index", "cpu", "cuda:0", "wrapper_CUDA__take"), RuntimeError, lambda: g(2).take(ints(0))),
    ("A1.33", a1("other", "cpu", "cuda:0", "wrapper_CUDA__equal"), RuntimeError, lambda: torch.equal(g(2), c(2))),
    ("A1.34", a1("min", "cpu", "cuda:0", "wrapper_CUDA_clamp_Tensor"), RuntimeError, lambda: g(2).clamp(min=c())),
    ("A1.35", a1("test_elements", "cpu", "cuda:0", "wrapper_CUDA_isin_Tensor_Tensor"), RuntimeError, lambda: torch.isin(g(2), c(2))),
    ("A1.36", a1("x2", "cpu", "cuda:0", "wrapper_CUDA___cdist_forward"), RuntimeError, lambda: torch.cdist(g(2, 2), c(2, 2), p=1.0)),
    ("A1.37", a1("self", "cpu", "cuda:0", "wrapper_CUDA_Tensor_searchsorted"), RuntimeError, lambda: torch.searchsorted(g(2), c(2))),
    ("A1.38", a1("attn_bias", "cpu", "cuda:0", "wrapper_CUDA___scaled_dot_product_efficient_attention"), RuntimeError,
     lambda: F.scaled_dot_product_attention(g(1, 1, 4, 8), g(1, 1, 4, 8), g(1, 1, 4, 8), attn_mask=c(1, 1, 4, 4))),
    ("A1.39", a1("offsets", "cpu", "cuda:0", "wrapper_CUDA___embedding_bag_forward_only"), RuntimeError,
     lambda: F.embedding_bag(ints(0, 1, device="cuda"), g(3, 2), ints(0))),
    ("A1.40", a1("weight", "cpu", "cuda:0", "wrapper_CUDA___prelu_kernel"), RuntimeError, lambda: nn.PReLU()(g(2, 2))),
    ("A1.41", a1("B", "cpu", "cuda:0", "wrapper_CUDA_linalg_lu_solve"), RuntimeError,
     lambda: torch.linalg.lu_solve(*torch.linalg.lu_factor(g(2, 2) + torch.eye(2, device="cuda")), c(2, 2))),
    ("A1.42", a1("self", "cuda:0", "cpu", "wrapper_CUDA_mm_out_out"), RuntimeError, lambda: torch.mm(g(2, 2), g(2, 2), out=c(2, 2))),
    ("A1.43", a1("exp_avgs", "cpu", "cuda:0", "wrapper_CUDA___fused_adamw_"), RuntimeError, _fused_state),
    ("A1.44", a1("found_inf", "cuda:1", "cuda:0", "wrapper_CUDA___amp_foreach_non_finite_check_and_unscale_"), RuntimeError,
     lambda: torch._amp_foreach_non_finite_check_and_unscale_([g(2)], g(1, index=1), g(1))),
    ("B1.1", SAME + "found at least two devices, cuda:0 and cpu!", RuntimeError, lambda: c(2) + g(2)),
    ("B1.2", SAME + "found at least two devices, cuda:0 and cuda:1!", RuntimeError, lambda: g(2) + g(2, index=1)),
    ("B1.3", SAME + "found at least two devices, cuda:1 and cpu!", RuntimeError, lambda: c(2) * g(2, index=1)),
    ("B2.1", "Trying to pass too many CPU scalars to non-CPU kernel!", RuntimeError, lambda: torch.addcdiv(g(2), c(), c())),
    ("B4.1", "CPU Scalar support for self argument is not supported when calling addcmul on CUDA tensors.", RuntimeError,
     lambda: torch.addcmul(c(), g(2), g(2))),
    ("B4.2", "CPU Scalar support for tensor1 argument is not supported when calling addcmul on CUDA tensors. However, CPU Scalar "
     "support for tensor2 is supported, please swap your tensor1 and tensor2 terms.", RuntimeError, lambda: torch.addcmul(g(2), c(), g(2))),
    ("B5.1", "scalar tensor expected to be on cuda:0 but is on cuda:1", RuntimeError, lambda: torch._foreach_mul([g(2)], g(index=1))),
    ("E1.1", "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same", RuntimeError,
     lambda: nn.Conv2d(1, 1, 2)(g(1, 1, 3, 3))),
    ("E1.5", "Input type (torch.cuda.FloatTensor) and bias type (torch.FloatTensor) should be the same", RuntimeError,
     lambda: F.conv2d(g(1, 1, 3, 3), g(1, 1, 2, 2), c(1))),
    ("E1.6", "Input type (torch.cuda.DoubleTensor) and weight type (torch.cuda.FloatTensor) should be the same", RuntimeError,
     lambda: F.conv2d(g(1, 1, 3, 3).double(), g(1, 1, 2, 2))),
    ("E2.1", "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a MKLDNN "
     "tensor and weight is a dense tensor", RuntimeError, lambda: model(nn.Conv2d(1, 1, 2))(c(1, 1, 3, 3))),
    ("E2.2", "Input type (torch.FloatTensor) and bias type (torch.cuda.FloatTensor) should be the same or input should be a MKLDNN "
     "tensor and bias is a dense tensor", RuntimeError, lambda: F.conv2d(c(1, 1, 3, 3), c(1, 1, 2, 2), g(1))),
    ("E3.1", "Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at cpu", RuntimeError,
     lambda: model(nn.GRU(2, 3))(g(1, 1, 2), c(1, 1, 3))),
    ("E3.2", "Input and hidden tensors are not at the same device, found input tensor at cpu and hidden tensor at cuda:0", RuntimeError,
     lambda: model(nn.GRU(2, 3))(c(1, 1, 2), g(1, 1, 3))),
    ("E3.3", "Input and parameter tensors are not at the same device, found input tensor at cpu and parameter tensor at cuda:0", RuntimeError,
     lambda: model(nn.LSTM(2, 3))(c(1, 1, 2))),
    ("E3.4", "Input and parameter tensors are not at the same device, found input tensor at cuda:0 and parameter tensor at cpu", RuntimeError,
     lambda: nn.RNN(2, 3)(g(1, 1, 2))),
    ("E4.1", "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor", RuntimeError,
     lambda: nn.utils.rnn.pack_padded_sequence(g(2, 1, 2), ints(2, device="cuda"))),
    ("E5.2", "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They should be "
     "instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn", ValueError,
     lambda: nn.utils.rnn.PackedSequence(g(2, 2), ints(2, device="cuda"))),
    ("E6.1", "Expected query, key, and value to have the same device type, but got query.device: cuda:0 key.device: cpu and value.device: "
     "cpu instead.", RuntimeError, lambda: F.scaled_dot_product_attention(g(1, 1, 2, 2), c(1, 1, 2, 2), c(1, 1, 2, 2))),
    ("E8.1", "weight_norm: expected v_in and g_in to be on the same device, but v_in is on cuda:0 and g_in is on cpu", RuntimeError,
     lambda: torch._weight_norm(g(2, 2), c(2, 1))),
    ("E9.1", "grid_sampler(): expected input and grid to be on same device, but input is on cuda:0 and grid is on cpu", RuntimeError,
     lambda: F.grid_sample(g(1, 1, 2, 2), c(1, 1, 1, 2), align_corners=False)),
    ("F1.1", "indices should be either on cpu or on the same device as the indexed tensor (cpu)", RuntimeError,
     lambda: c(3)[ints(0, device="cuda")]),
    ("F1.2", "indices should be either on cpu or on the same device as the indexed tensor (cuda:0)", RuntimeError,
     lambda: g(3)[ints(0, device="cuda:1")]),
    ("F2.1", "expected device cuda:0 but got device cpu for value tensor", RuntimeError,
     lambda: g(3).index_put_((ints(0, 1, device="cuda"),), c(2), accumulate=True)),
    ("F3.1", "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0", RuntimeError,
     lambda: g(2).masked_fill(c(2) > 0, 0.0)),
    ("F3.2", "expected self and mask to be on the same device, but got mask on cuda:0 and self on cpu", RuntimeError,
     lambda: c(2).masked_fill(g(2) > 0, 0.0)),
    ("F4.1", "masked_fill_: Expected inputs to be on same device", RuntimeError, lambda: c(2).masked_fill_(c(2) > 0, g())),
    ("F7.1", "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on cuda:0", RuntimeError,
     lambda: torch.tensor_split(g(4), ints(2, device="cuda"))),
    ("G1.1", "Expected b and A to be on the same device, but found b on cpu and A on cuda:0 instead.", RuntimeError,
     lambda: torch.cholesky_solve(c(2, 1), g(2, 2))),
    ("G3.2", "stft input and window must be on the same device but got self on cuda:0 and window on cpu", RuntimeError,
     lambda: torch.stft(g(64), 16, window=torch.hann_window(16), return_complex=True)),
    ("G3.3", "istft input and window must be on the same device but got self on cuda:0 and window on cpu", RuntimeError,
     lambda: torch.istft(torch.stft(g(64), 16, window=torch.hann_window(16, device="cuda"), return_complex=True), 16, window=torch.hann_window(16))),
    ("G4.1", "torch.gradient expected each tensor to be on the same device, but got devices cuda:0 and cpu!", RuntimeError,
     lambda: torch.gradient(g(4), spacing=(c(4),))),
    ("G5.1", "multi_dot(): all tensors must be on the same device but tensor 0 is on cuda:0 and tensor 1 on cpu", RuntimeError,
     lambda: torch.linalg.multi_dot([g(2, 2), c(2, 2), g(2, 2)])),
    ("G6.1", "quantile() q tensor must be on the same device as the input tensor", RuntimeError, lambda: g(4).quantile(torch.tensor([0.5]))),
    ("G8.1", "meshgrid expects all tensors to have the same device", RuntimeError, lambda: torch.meshgrid(g(2), c(2), indexing="ij")),
    ("G9.2", "torch.block_diag: input tensors must all be on the same device. Input 0 is on device cuda:0 and input 1 is on device cpu", RuntimeError,
     lambda: torch.block_diag(g(1, 1), c(1, 1))),
    ("G14.2", "The values for attribute 'device' do not match: cuda:0 != cpu.", AssertionError, lambda: torch.testing.assert_close(g(2), c(2))),
    ("H10.1", "Cannot copy out of meta tensor; no data!", NotImplementedError, lambda: torch.ones(2, device="meta").cuda()),
    ("I1.1", "invalid gradient at index 0 - expected device cuda:0 but got cpu", RuntimeError,
     lambda: (g(2).requires_grad_() * 2).backward(c(2))),
    ("I3.2", "attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'. Please ensure that the gradient "
     "and the tensor are on the same device", RuntimeError, _grad_of_cpu_from_gpu),
    ("I4.1", "attempting to assign a gradient located on device with index '1' to a tensor located on device with index '0'. Please ensure "
     "that the gradient and the tensor are on the same device", RuntimeError, _grad_between_gpus),
    ("I7.2", 'Attempted to set the storage of a tensor on device "cuda:0" to a storage on different device "cpu".  This is no longer '
     "allowed; the devices must match.", RuntimeError, lambda: g(2).set_(c(2))),
    ("J1.1", "Expected a 'cuda' device type for generator but found 'cpu'", RuntimeError,
     lambda: torch.randn(2, generator=torch.Generator(), device="cuda")),
    ("J1.2", "Expected a 'cpu' device type for generator but found 'cuda'", RuntimeError, lambda: torch.randn(2, generator=torch.Generator("cuda"))),
    ("K1.1", "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.", TypeError,
     lambda: g(2).numpy()),
    ("K3.1", "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned", RuntimeError, lambda: g(2).pin_memory()),
    ("K3.2", "cannot pin 'torch.cuda.LongTensor' only dense CPU tensors can be pinned", RuntimeError, lambda: g(2).long().pin_memory()),
    ("K4.1", "Can't get __cuda_array_interface__ on non-CUDA tensor type: torch.FloatTensor If CUDA data is required use tensor.cuda() to "
     "copy tensor to device memory.", AttributeError, lambda: c(2).__cuda_array_interface__),
    ("K7.1", "apply_ is only implemented on CPU tensors", TypeError, lambda: g(2).apply_(abs)),
    ("M5.2", "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?\n", RuntimeError, lambda: g(2, index=2)),
    ("M9.1", "Device index must not be negative", RuntimeError, lambda: c(2).to(-2)),
    ("M12.2", "legacy constructor expects device type: cpu but device type: cuda was passed", RuntimeError,
     lambda: torch.FloatTensor(2, device="cuda")),
    ("N1.1", "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: cpu", RuntimeError,
     lambda: nn.DataParallel(nn.Linear(2, 2))(c(2, 2))),
    ("N2.1", "reduce_add expects all inputs to be on GPUs, but input 1 is on CPU", AssertionError,
     lambda: torch.nn.parallel.comm.reduce_add([g(2), c(2)])),
    ("N3.1", "Gather function not implemented for CPU tensors", AssertionError, lambda: torch.nn.parallel.gather([c(2), c(2)], 0)),
    ("N3.2", "Broadcast function not implemented for CPU tensors", AssertionError,
     lambda: torch.nn.parallel._functions.Broadcast.apply([0, 1], c(2))),
    ("N4.1", "Expected all input tensors to be CUDA tensors, but tensor at index 0 has device 'cpu'", RuntimeError,
     lambda: torch.nn.parallel.comm.gather([c(2), c(2)])),
    ("N22.1", "Found two parameters on different devices, this is currently not supported.", TypeError,
     lambda: nn.utils.parameters_to_vector([nn.Parameter(c(2)), nn.Parameter(g(2))])),
    ("O1.1", "Tensors of the same index must be on the same device and the same dtype except `step` tensors that can be CPU and float32/64",
     RuntimeError, _stale_state),
    ("L2.1", "Attempting to deserialize object on CUDA device 2 but torch.cuda.device_count() is 2. Please use torch.load with map_location "
     "to map your storages to an existing device.", RuntimeError, lambda: torch.serialization._validate_device("cuda:2", "cuda")),
    ("P1.17", "When constructing a nested tensor, all tensors in list must be on the same device", RuntimeError,
     lambda: torch.nested.as_nested_tensor([g(2, 2), c(3, 2)], layout=torch.jagged)),
    ("E5.1", "batch_sizes tensor should be on CPU, but got cuda:0", RuntimeError, _batch_sizes_on_gpu),
    ("E7.1", "Expect q/k/v and block_mask to be on the same device but got cuda:0 and cpu.", RuntimeError, _block_mask),
    ("G2.1", "linalg.cond: Expected result and input tensors to be on the same device, but got result on cpu and input on cuda:0", RuntimeError,
     lambda: torch.linalg.cond(g(2, 2), out=c())),
    ("G10.1", "tensordot: Expected the output and input tensors to be on the same device, but got the output tensor on cpu, input tensor a "
     "on cuda:0, and input tensor b on cuda:0", RuntimeError, lambda: torch.tensordot(g(2, 2), g(2, 2), 1, out=c(2, 2))),
    ("G11.2", "Expected out tensor to have device cuda:0, but got cpu instead", RuntimeError, lambda: torch.sum(g(2, 2), 0, out=c(2))),
    ("H10.2", "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving "
     "module from meta to a different device.", NotImplementedError, lambda: nn.Linear(2, 2, device="meta").to("cuda")),
    ("I3.1", "attempting to assign a gradient with device type 'meta' to a tensor with device type 'cuda'. Please ensure that the gradient "
     "and the tensor are on the same device", RuntimeError, lambda: setattr(nn.Parameter(g(2)), "grad", torch.ones(2, device="meta"))),
    ("I6.1", "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type.", RuntimeError,
     lambda: setattr(g(2), "data", torch.ones(2, device="meta"))),
    ("J2.2", "Expected a 'cpu' generator device but found 'cuda:0'", RuntimeError, lambda: torch.randperm(4, generator=torch.Generator("cuda"))),
    ("K3.4", "cannot pin 'torch.storage.UntypedStorage' only CPU memory can be pinned", TypeError, lambda: g(2).untyped_storage().pin_memory()),
    ("K5.1", "Can't export tensors on a different CUDA device index. Expected: 1. Current device: 0.", BufferError,
     lambda: g(2, index=1).__dlpack__()),
    ("K6.1", "_share_fd_: only available on CPU", RuntimeError, lambda: g(2).untyped_storage()._share_fd_cpu_()),
    ("L3.1", "don't know how to restore data location of torch.storage.UntypedStorage (tagged with npu:0)", RuntimeError, lambda: _loaded("npu:0")),
    ("L3.2", "don't know how to restore data location of torch.storage.UntypedStorage (tagged with gpu)", RuntimeError, lambda: _loaded("gpu")),
    ("L6.1", "map_location should be either None, string or torch.device, but got type: <class 'dict'>", ValueError,
     lambda: torch.jit.load(io.BytesIO(), map_location={"cuda:1": "cuda:0"})),
    ("M7.1", "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, "
     "privateuseone device type at start of device string: gpu", RuntimeError, lambda: c(2).to("gpu")),
    ("M8.1", "Invalid device string: 'cuda:'", RuntimeError, lambda: c(2).to("cuda:")),
    ("M12.1", "legacy constructor expects device type: cpu but device type: meta was passed", RuntimeError,
     lambda: torch.FloatTensor(2, device="meta")),
    ("M14.1", "Could not run 'aten::histogram", NotImplementedError, lambda: torch.histogram(g(4), 2)),
    ("O2.1", "`fused=True` requires all the params to be floating point Tensors of supported devices: ['mps', 'cuda', 'xpu', 'hpu', 'cpu', 'mtia', "
     "'privateuseone'] but torch.float32 and meta", RuntimeError, lambda: _stepped(torch.ones(2, device="meta"), fused=True)),
    ("O3.1", "If capturable=True, params and state_steps must be on supported devices: ['cuda', 'xpu', 'hpu', 'privateuseone', 'xla'].", AssertionError,
     lambda: _stepped(c(2), capturable=True)),
    ("O5.1", "found_inf must be on the same GPU device as the params", RuntimeError, _scaler_elsewhere),
    ("O7.1", "foreach=True was passed, but can't use the foreach API on meta tensors", RuntimeError, _clipped),
    ("P1.7", "add: expected 'other' to be a CUDA tensor, but got a CPU tensor", RuntimeError, lambda: g(2, 2) + c(2, 2).to_sparse()),
    ("P1.9", "add: expected 'other' to be CUDA tensor, but got tensor on device: cpu", RuntimeError,
     lambda: g(2, 2).to_sparse_csr() + c(2, 2).to_sparse_csr()),
    ("P1.16", "Values and crow_indices need to be on the same device.", RuntimeError,
     lambda: torch.sparse_csr_tensor(ints(0, 1, device="cuda"), ints(0, device="cuda"), c(1), (1, 1))),
    ("P1.18", "values and offsets must be on the same device, but got values.device=cuda:0 and offsets.device=cpu", AssertionError,
     lambda: torch.nested.nested_tensor_from_jagged(g(4, 2), ints(0, 2, 4))),
    ("P1.20", "Error original_tensor.device= cpu is not supported! Only CUDA tensors are currently supported.", RuntimeError,
     lambda: torch.sparse.to_sparse_semi_structured(c(32, 32).half())),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "kind", "provoke"), CASES, ids=[case[0] for case in CASES])
def test_message(name: str, text: str, kind: type[BaseException], provoke: Callable[[], Any]) -> None:
    with whydevice.simulate_cuda(2), pytest.raises(kind) as caught:
        provoke()
    found = str(caught.value)
    whole = not name.startswith(("M", "O1", "N1.1", "I1.1", "E5.2"))  # links and hints follow
    assert found == text if whole else text in found
    assert caught.value.__context__ is None or not re.search("simulate", str(caught.value.__context__))


def test_custom_function_is_named() -> None:
    class Plan(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.sum()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return torch.ones(3)

    with whydevice.simulate_cuda():
        loss = Plan.apply(torch.ones(3, device="cuda", requires_grad=True))
        text = "Function PlanBackward returned an invalid gradient at index 0 - expected device cuda:0 but got cpu"
        with pytest.raises(RuntimeError, match=text):
            loss.backward()
