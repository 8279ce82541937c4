"""S: libraries around PyTorch, in their own words."""

from __future__ import annotations

from ..family import Family

_PYG = ("scatter", "sparse", "cluster", "spline")
_ATTENTION = "memory_efficient_attention"

FAMILIES = (
    # Triton also says so of a tensor on a GPU that is not the current one: then nothing is on the cpu.
    Family(
        "S1",
        "Pointer argument (at {arg:int}) cannot be accessed from Triton (cpu tensor?)",
        "triton>=2.0",
        devices=("cpu",),
        wants="cuda",
    ),
    Family(
        "S1",
        "Pointer argument cannot be accessed from Triton (cpu tensor?)",
        "triton>=3.9",
        devices=("cpu",),
        wants="cuda",
    ),
    Family(
        "S2",
        "{arg} must be CUDA tensor ({op} at",
        "torch_scatter, torch_sparse, torch_cluster",
        devices=("cuda",),
        wants="cuda",
    ),
    *(
        Family(
            "S2",
            "{arg} must be CUDA tensor",
            f"torch_{library}",
            devices=("cuda",),
            op=library,
            wants="cuda",
            needs=(f"pytorch_{library}",),
        )
        for library in _PYG
    ),
    Family("S2", "{arg} must be {a:CUDA|CPU} tensor", "torch_scatter", op="scatter", wants=0, whole=True),
    Family(
        "S3",
        "{arg:dets|scores|boxes} must be a {a:CUDA|CPU} tensor",
        "torchvision",
        op="nms",
        wants=0,
        whole=True,
    ),
    Family(
        "S3", "{arg:rois} must be a {a:CUDA|CPU} tensor", "torchvision", op="roi_align", wants=0, whole=True
    ),
    Family(
        "S3",
        "{x:input} should be on the same device as {arg:rois}",
        "torchvision",
        op="roi_align",
        whole=True,
    ),
    Family(
        "S4",
        "Input tensor should be on the same device as transformation matrix and mean vector. Got {a} vs {b}",
        "torchvision",
        argument="input",
        op="LinearTransformation",
        holds=0,
    ),
    Family(
        "S5",
        "All input tensors need to be on the same GPU, but found some tensors to not be on a GPU:\n {a:list}",
        "bitsandbytes 0.41-0.44",
        devices=("{a*}",),
        op="matmul_4bit",
        wants="cuda",
    ),
    Family(
        "S6",
        "Input tensors need to be on the same {x:GPU|device}, "
        "but found the following tensor and device combinations:\n {a:list}",
        "bitsandbytes",
        devices=("{a*}",),
        op="gemv_4bit",
    ),
    Family(
        "S7",
        "Attention bias and Query/Key/Value should be on the same device\n  query.device: {a}\n  attn_bias   "
        ": {b}",
        "xformers",
        argument="attn_bias",
        op=_ATTENTION,
        holds=1,
    ),
    Family("S7", "Query/Key/Value should all be on the same device", "xformers", op=_ATTENTION),
    Family(
        "S8",
        "    device={a} (supported: {b:list}",
        "xformers",
        devices=("{a}", "{b*}"),
        needs=("No operator found for `",),
        extra=("No operator found for `{op}` with inputs:",),
    ),
    Family(
        "S9",
        "{arg:q|k|v|q_cache|k_cache|kcache|vcache|dout|out|qkv} must be on CUDA",
        "flash_attn",
        devices=("cuda",),
        op="flash_attn",
        wants="cuda",
        whole=True,
    ),
    Family(
        "S9",
        "{arg} must be on CUDA",
        "extensions",
        devices=("cuda",),
        wants="cuda",
        whole=True,
    ),
    Family("S3", "{arg} must be a {a:CUDA|CPU} tensor", "extensions", wants=0, whole=True),
    Family(
        "S10",
        "{arg} is on the meta device, we need a `value` to put in on {a:place}.",
        "accelerate",
        devices=("meta", "{a}"),
        op="set_module_tensor_to_device",
        wants=1,
        holds=0,
    ),
    Family(
        "S11",
        "You can't move a model that has some modules offloaded to cpu or disk.",
        "accelerate",
        devices=("cpu",),
        op="Module.to",
    ),
    Family(
        "S12",
        "The model and the optimizer parameters are not on the same device, "
        "which probably means you created an optimizer around your model",
        "accelerate",
        argument="optimizer",
        op="Accelerator.prepare",
    ),
    Family(
        "S13",
        "You are calling .generate() with the `{arg}` being on a device type different than your model's "
        "device. "
        "`{x:name}` is on {a}, whereas the model is on {b}.",
        "transformers",
        op="generate",
        wants=1,
        holds=0,
    ),
    Family(
        "S14",
        "Encountered different devices in metric calculation (see stacktrace for details). "
        "This could be due to the metric class not being on the same device as input.",
        "torchmetrics",
        argument="metric",
        op="update",
    ),
    Family(
        "S15", "{arg:emissions} must be a {a:CPU} tensor.", "torchaudio", op="CTCDecoder", wants=0, whole=True
    ),
)
