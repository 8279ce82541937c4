"""PyTorch's own names, sorted by what they do to a tensor's device.

Source: the signatures in torch 2.13's `torch/_C/_VariableFunctions.pyi` and `torch/_tensor_docs.py`.
"""

from __future__ import annotations

# Take `device=`; without it the result is on the default device.
FACTORIES = frozenset(
    """tensor zeros ones empty full arange range linspace logspace eye rand randn randint randperm as_tensor
    asarray normal hann_window hamming_window bartlett_window blackman_window kaiser_window tril_indices
    triu_indices empty_strided sparse_coo_tensor scalar_tensor""".split()
)
# Make a CPU tensor and take no `device=` (or refuse another device).
CPU_CONSTRUCTORS = frozenset(
    """from_numpy Tensor FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor
    CharTensor ByteTensor BoolTensor frombuffer from_file""".split()
)
# Follow the device of their first argument.
LIKES = frozenset("zeros_like ones_like empty_like full_like rand_like randn_like randint_like".split())
# Tensor methods whose result is no tensor.
PLAIN_RESULTS = frozenset(
    """item tolist size dim numel numpy element_size stride is_contiguous get_device data_ptr ndimension
    is_floating_point storage_offset backward""".split()
)
# Builtins whose result is no tensor, whatever they are given.
PLAIN_BUILTINS = {"float": float, "int": int, "bool": bool, "str": str, "len": len}
MOVES = frozenset("to cuda cpu".split())
# Methods of nn.Module that return the module itself.
MODULE_METHODS = frozenset(
    "to cuda cpu train eval requires_grad_ float half double bfloat16 type apply".split()
)
# Builtins and library calls that pass their argument's items through.
PASS_THROUGH = frozenset("list tuple iter reversed sorted tqdm trange cycle islice set frozenset".split())
TENSOR_ATTRIBUTES = frozenset("T mT H mH data real imag grad values".split())
