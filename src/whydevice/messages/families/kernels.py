"""Kernels and functions that compare devices themselves.

E: nn kernels (conv, rnn, attention, norm); F: indexing, scatter, masks; G: linalg, signal, statistics.
"""

from __future__ import annotations

from ..family import Family

_QKV = "Expected query, key, and value to have the same device type, but got query.device: {a}"
_SAME3 = "expected to be in the same device, but got "

FAMILIES = (
    # The words of E1 and E2 are those of a dtype mismatch too: types with the same device part are none of
    # ours.
    Family(
        "E1",
        "Input type ({a:type}) and weight type ({b:type}) should be the same",
        ">=0.2",
        argument=("input", "weight"),
        op="conv",
    ),
    Family(
        "E1",
        "Input type ({a:type}) and bias type ({b:type}) should be the same",
        ">=0.2",
        argument="bias",
        op="conv",
        holds=1,
    ),
    Family(
        "E2",
        "Input type ({a:type}) and weight type ({b:type}) should be the same "
        "or input should be a MKLDNN tensor and weight is a dense tensor",
        ">=1.9",
        argument=("input", "weight"),
        op="conv",
    ),
    Family(
        "E2",
        "Input type ({a:type}) and bias type ({b:type}) should be the same "
        "or input should be a MKLDNN tensor and bias is a dense tensor",
        ">=1.9",
        argument="bias",
        op="conv",
        holds=1,
    ),
    Family(
        "E3",
        "Input and {x:hidden|parameter} tensors are not at the same device, "
        "found input tensor at {a} and {which:hidden|parameter} tensor at {b}",
        ">=1.1",
        argument=("input", "{which}"),
        op="rnn",
    ),
    Family(
        "E4",
        "'lengths' argument should be a 1D CPU int64 tensor, but got {n:int}D {a} {dtype:name} tensor",
        ">=1.5",
        argument="lengths",
        op="_pack_padded_sequence",
        wants="cpu",
        holds=0,
    ),
    Family(
        "E5",
        "batch_sizes tensor should be on CPU, but got {a}",
        ">=2.14",
        argument="batch_sizes",
        op="_cudnn_rnn",
        wants="cpu",
        holds=0,
    ),
    Family(
        "E5",
        "batch_sizes should always be on CPU.",
        ">=1.0",
        devices=("cpu",),
        argument="batch_sizes",
        wants="cpu",
    ),
    Family(
        "E6",
        _QKV + " key.device: {b} and value.device: {c} instead.",
        ">=2.0",
        argument=("query", "key", "value"),
        pick="second",
        op="scaled_dot_product_attention",
    ),
    Family(
        "E6",
        _QKV + ", key.device: {b}, and value.device: {c} instead.",
        ">=2.5",
        argument=("query", "key", "value"),
        pick="second",
        op="flex_attention",
    ),
    Family(
        "E7",
        "Expect q/k/v and block_mask to be on the same device but got {a} and {b}.",
        ">=2.5",
        argument="block_mask",
        op="flex_attention",
        holds=1,
    ),
    Family(
        "E7",
        "FlexAttention is only supported on CUDA, CPU, HPU, or MPS devices. Found input tensors on {a} "
        "device.",
        ">=2.5",
        op="flex_attention",
    ),
    Family(
        "E8",
        "weight_norm: expected v_in and g_in to be on the same device, but v_in is on {a} and g_in is on {b}",
        ">=1.5",
        argument=("v_in", "g_in"),
        op="_weight_norm",
    ),
    Family(
        "E9",
        "grid_sampler(): expected input and grid to be on same device, but input is on {a} and grid is on "
        "{b}",
        ">=1.1",
        argument=("input", "grid"),
        op="grid_sampler",
    ),
    Family(
        "E10",
        "SyncBatchNorm expected input tensor to be on GPU",
        ">=1.0",
        argument="input",
        op="SyncBatchNorm",
        wants="cuda",
    ),
    Family(
        "E11",
        "{op}_cuda expects input and weight tensors to be on the same device.",
        ">=1.10",
        argument="weight",
    ),
    Family(
        "E11",
        "{op}_cuda expects input, weight and grad_output to be on the same device.",
        ">=1.10",
        argument="weight",
    ),
    Family(
        "E12",
        "{arg:query|key|value} must be a CUDA tensor",
        ">=2.0",
        devices=("cuda",),
        op="efficient_attention",
        wants="cuda",
        whole=True,
    ),
    Family(
        "E12",
        "{arg:cu_seqlens_q|cu_seqlens_k|seqused_k|block_table|leftpad_k|alibi_slopes|bias} must be on CUDA",
        ">=2.0",
        devices=("cuda",),
        op="flash_attn",
        wants="cuda",
        whole=True,
    ),
    Family("E12", "{arg} must be on the same device as query", ">=2.0", op="flash_attn", whole=True),
    Family(
        "F1",
        "indices should be either on cpu or on the same device as the indexed tensor ({a})",
        ">=1.13",
        argument="indices",
        op="index",
        wants=0,
    ),
    Family(
        "F2",
        "expected device {a} but got device {b} for value tensor",
        ">=1.5",
        argument="values",
        op="index_put_",
        wants=0,
        holds=1,
    ),
    Family(
        "F3",
        "expected self and mask to be on the same device, but got mask on {a} and self on {b}",
        ">=1.9",
        argument="mask",
        op="masked_fill",
        holds=0,
    ),
    Family("F4", "{op}: Expected inputs to be on same device", ">=1.13", whole=True),
    Family(
        "F5",
        "{op}(): self, index and source " + _SAME3 + "(self) {a}, (index) {b}, and (source) {c}",
        ">=1.9",
        argument=("", "index", "source"),
        pick="odd",
    ),
    Family(
        "F6",
        "{op}(): self, index and {x:out|source} " + _SAME3 + "self.device = {a}, index.device = {b}, "
        "and {which:out|source}.device = {c}",
        ">=1.9",
        argument=("", "index", "{which}"),
        pick="odd",
    ),
    Family(
        "F7",
        "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {a}",
        ">=1.8",
        argument="tensor_indices_or_sections",
        op="tensor_split",
        wants="cpu",
        holds=0,
    ),
    Family("F8", "multinomial arguments must have the same device", ">=1.0", op="multinomial"),
    Family(
        "G1",
        "Expected {arg} and {other:name} to be on the same device, but found {x:name} on {a} "
        "and {y:name} on {b} instead.",
        ">=1.8",
        op="linalg_solve",
        holds=0,
    ),
    Family(
        "G2",
        "torch.linalg.{fn:name}: Expected {arg} and input tensors to be on the same device, "
        "but got {x:name} on {a} and input on {b}",
        ">=1.8",
        op="linalg_{fn}",
        wants=1,
        holds=0,
    ),
    Family(
        "G3",
        "{op} input and window must be on the same device but got self on {a} and window on {b}",
        ">=1.8",
        argument="window",
        holds=1,
    ),
    Family(
        "G4",
        "torch.gradient expected each tensor to be on the same device, but got devices {a} and {b}!",
        ">=1.8",
        op="gradient",
    ),
    Family(
        "G5",
        "multi_dot(): all tensors must be on the same device but tensor 0 is on {a} and tensor {n:int} on "
        "{b}",
        ">=1.8",
        op="multi_dot",
    ),
    Family(
        "G6",
        "quantile() {arg:q|out} tensor must be on the same device as the input tensor",
        ">=1.7",
        op="quantile",
    ),
    Family(
        "G7",
        "torch.searchsorted(): boundaries and input value tensors should have same device type, "
        "but got boundaries tensor device type {a} and input value tensor device type {b}",
        ">=1.6",
        op="searchsorted",
    ),
    Family("G8", "meshgrid expects all tensors to have the same device", ">=1.0", op="meshgrid"),
    Family(
        "G9",
        "nput tensors must all be on the same device. "
        "Input {m:int} is on device {a} and input {n:int} is on device {b}",
        ">=1.8",
        op="block_diag",
    ),
    Family(
        "G10",
        "{op}: Expected the output and input tensors to be on the same device, but got the output tensor on "
        "{a}, "
        "input tensor a on {b}, and input tensor b on {c}",
        ">=1.10",
        argument=("out", "a", "b"),
        pick="odd",
    ),
    Family(
        "G11",
        "Expected out tensor to have device {a}, but got {b} instead",
        ">=1.8",
        argument="out",
        wants=0,
        holds=1,
    ),
    Family(
        "G12",
        "Attempting to copy from device {a} to device {b}, but cross-device copies are not allowed!",
        ">=2.0",
        argument="out",
        wants=0,
        holds=1,
    ),
    Family("G13", "Expected tensors to be on the same device, but found {a} and {b}", ">=1.8"),
    Family("G14", "The values for attribute 'device' do not match: {a} != {b}.", ">=1.9", op="assert_close"),
)
