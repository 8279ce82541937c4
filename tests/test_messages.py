"""The message catalogue: every row is read as what it is, and nothing else is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processes import HANGS
from whydevice import messages
from whydevice.messages.families import FAMILIES
from whydevice.messages.family import Family
from whydevice.types import DeviceError

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data/messages.jsonl").read_text("utf-8").splitlines()
]
BY_ID = {row["id"]: row for row in ROWS}

# The op that was called, which the text does not print: where it names another or none.
OPS_NOT_IN_THE_TEXT = {"A1.7": "addmv_", "F5.3": "index_copy", "G11.1": None, "G12.1": None}
# The types named differ in dtype alone.
DTYPE_ROWS = {"E1.6", "E1.7"}


def read(row: dict[str, str]) -> DeviceError | None:
    return messages.read(row["exception"], row["message"])


def known(row: dict[str, str]) -> DeviceError:
    error = read(row)
    assert error is not None
    return error


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["id"] not in DTYPE_ROWS], ids=lambda row: row["id"]
)
def test_row(row: dict[str, str]) -> None:
    error = known(row)
    template = row["id"].partition(".")[0]
    assert error.family == template
    assert error.family[0] == row["family"][0]
    assert error.devices == tuple(row["devices"] or ())
    assert error.argument == row["argument"]
    assert error.op == OPS_NOT_IN_THE_TEXT.get(row["id"], row["op"])
    assert error.type == row["exception"]
    assert error.message == row["message"]


@pytest.mark.parametrize("id", sorted(DTYPE_ROWS))
def test_types_on_one_device_are_a_dtype_problem(id: str) -> None:
    assert read(BY_ID[id]) is None


def test_rows_that_words_alone_do_not_decide() -> None:
    ambiguous = {row["id"].partition(".")[0] for row in ROWS if (error := read(row)) and error.ambiguous}
    assert ambiguous == {"I5", "I6", "M16", "N8", "O1", "O2", "Q7", "R4"}


@pytest.mark.parametrize(
    ("id", "wanted", "held"),
    [
        ("A1.1", None, "cpu"),
        ("A1.2", None, "cuda:0"),
        ("A2.1", None, "cuda:0"),
        ("A2.5", None, "cpu"),
        ("B1.1", None, None),
        ("B5.1", "cuda:0", None),
        ("C1.2", "cuda", "cpu"),
        ("D1.2", "cuda", "cpu"),
        ("E1.1", None, "cpu"),
        ("E1.2", None, "cpu"),
        ("E3.1", None, "cpu"),
        ("E3.2", None, "cpu"),
        ("E4.1", "cpu", "cuda:0"),
        ("E5.1", "cpu", "cuda:0"),
        ("E5.2", "cpu", None),
        ("F1.1", "cpu", None),
        ("F7.1", "cpu", "cuda:0"),
        ("I1.1", "cuda:0", "cpu"),
        ("J1.1", "cuda", "cpu"),
        ("J2.2", "cpu", "cuda"),
        ("K1.1", "cpu", "cuda:0"),
        ("K3.1", "cpu", "cuda"),
        ("K6.1", "cpu", None),
        ("P1.3", "cpu", "cuda:0"),
        ("Q3.1", "mps", "cpu"),
        ("S2.3", "cpu", None),
        ("S3.1", "cuda", None),
        ("S15.1", "cpu", None),
        ("T1.2", "cpu", "cuda"),
    ],
)
def test_sides(id: str, wanted: str | None, held: str | None) -> None:
    error = known(BY_ID[id])
    assert messages.wanted_side(error) == wanted
    assert messages.argument_device(error) == held


def test_facts_hold_for_every_row() -> None:
    for row in ROWS:
        error = read(row)
        if error is None:
            continue
        assert messages.versions(error)
        held = messages.argument_device(error)
        assert held is None or held in error.devices
        if error.argument is None and error.envelope is None:
            assert held is None, row["id"]


NOT_OURS = [
    ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (32x784 and 10x10)"),
    ("RuntimeError", "The size of tensor a (3) must match the size of tensor b (4) at non-singleton "
                     "dimension 0"),
    ("RuntimeError", "expected scalar type Long but found Float"),
    ("RuntimeError", "expected m1 and m2 to have the same dtype, but got: float != double"),
    ("RuntimeError", "mat1 and mat2 must have the same dtype, but got Float and Half"),
    ("RuntimeError", "Input type (double) and bias type (float) should be the same"),
    ("RuntimeError", "Input type (torch.FloatTensor) and weight type (torch.HalfTensor) should be the same"),
    ("RuntimeError", "Input type (CPUBFloat16Type) and weight type (torch.FloatTensor) should be the same"),
    ("RuntimeError", "Expected object of scalar type Float but got scalar type Double for argument #2 "
                     "'mat2'"),
    ("RuntimeError", "Expected object of type torch.FloatTensor but found type torch.DoubleTensor for "
                     "argument #2 'm'"),
    ("RuntimeError", "CUDA error: device-side assert triggered\nCUDA kernel errors might be reported "
                     "elsewhere."),
    ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of "
                         "15.77 GiB"),
    ("RuntimeError", "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    ("RuntimeError", "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    ("RuntimeError", "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
                     "Long, Int"),
    ("RuntimeError", "one of the variables needed for gradient computation has been modified by an inplace "
                     "operation"),
    ("RuntimeError", "Trying to backward through the graph a second time"),
    ("RuntimeError", "element 0 of tensors does not require grad and does not have a grad_fn"),
    ("RuntimeError", "Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "
                     "\"fc.weight\"."),
    ("RuntimeError", "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."),
    ("TypeError", "can't convert np.ndarray of type numpy.object_."),
    ("TypeError", "Got unsupported ScalarType BFloat16"),
    ("RuntimeError", "Function MulBackward0 returned an invalid gradient at index 0 - got [3] but expected "
                     "shape [4]"),
    ("RuntimeError", "Function AddBackward0 returned an invalid gradient at index 1 - expected type "
     "torch.cuda.FloatTensor but got torch.cuda.HalfTensor"),
    ("RuntimeError", "Expected all tensors to have the same dtype"),
    ("RuntimeError", "stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at entry 1"),
    ("RuntimeError", "Could not run 'aten::add.out' with arguments from the 'SparseCsrCPU' backend."),
    ("RuntimeError", "Could not run 'quantized::linear' with arguments from the 'QuantizedCPU' backend."),
    ("RuntimeError", "DataLoader worker (pid 12) is killed by signal: Killed."),
    ("ValueError", "Expected input batch_size (32) to match target batch_size (16)."),
    ("ValueError", "optimizer got an empty parameter list"),
    ("IndexError", "index 5 is out of bounds for dimension 0 with size 3"),
    ("IndexError", "Target 10 is out of bounds."),
    ("KeyError", "'cuda:0'"),
    ("KeyError", "'device'"),
    ("AttributeError", "'NoneType' object has no attribute 'device'"),
    ("AttributeError", "module 'torch' has no attribute 'cuda'"),
    ("AttributeError", "'numpy.ndarray' object has no attribute 'cuda'"),
    ("TypeError", "zeros() received an invalid combination of arguments - got (int, device=int, dtype=str)"),
    ("TypeError", "forward() missing 1 required positional argument: 'device'"),
    ("AssertionError", ""),
    ("AssertionError", "device"),
    ("AssertionError", "x.device == y.device"),
    ("OSError", "[Errno 19] No such device: '/dev/video0'"),
    ("OSError", "[Errno 28] No space left on device"),
    ("FileNotFoundError", "[Errno 2] No such file or directory: 'cuda.pt'"),
    ("ModuleNotFoundError", "No module named 'torch.cuda.amp.cpu'"),
    ("ValueError", "audio device 3 is not the expected device"),
    ("ValueError", "You must provide a CPU count"),
    ("RuntimeError", "Caught KeyError in DataLoader worker process 0.\nOriginal Traceback (most recent call "
                     "last):\n"
     "  File \"/site-packages/torch/utils/data/_utils/worker.py\", line 309, in _worker_loop\nKeyError: "
     "'device'\n"),
    ("SystemExit", "1"),
    ("MyError", "the device is busy"),
]  # fmt: skip


@pytest.mark.parametrize(("exc_type", "text"), NOT_OURS)
def test_near_miss(exc_type: str, text: str) -> None:
    assert messages.read(exc_type, text) is None


def shown(template: str) -> list[str]:
    """The template as it may be printed: with each of its alternatives, and with a kind of tensor."""
    choice = re.search(r"\{\w+:([^{}]*\|[^{}]*|[A-Z]\w*|mps)\}", template)
    if choice is None:
        return [template.replace("{a:tensor}", "CUDA")]
    before, after = template[: choice.start()], template[choice.end() :]
    return [more for word in choice[1].split("|") for more in shown(before + word + after)]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.id)
def test_every_family_gets_past_the_filter(family: Family) -> None:
    for text in shown(family.template + " ".join(family.needs)):
        # What stands in braces is not PyTorch's text.
        pieces = [piece.rpartition("}")[2] for piece in text.split("{")]
        assert any(phrase in piece for phrase in messages._PHRASES for piece in pieces), text


def test_two_wordings_of_one_family_say_different_things() -> None:
    seen: dict[tuple[object, ...], Family] = {}
    for family in FAMILIES:
        key = (family.template, family.needs, family.only)
        assert key not in seen
        seen[key] = family


def test_envelopes_are_opened() -> None:
    replica, pinned, forked = (known(BY_ID[f"T1.{n}"]) for n in (1, 2, 3))
    assert replica.envelope == "replica 1 on device 1"
    assert messages.inner(replica).family == "A2"
    assert messages.inner(replica).message.startswith("Expected all tensors to be on the same device")
    assert pinned.envelope == "pin memory thread for device 0"
    assert messages.inner(pinned).family == "K3"
    assert forked.envelope == "DataLoader worker process 0"
    assert messages.inner(forked).family == "M13"
    assert known(BY_ID["T2.1"]).envelope == "TorchScript interpreter"
    assert known(BY_ID["T3.1"]).envelope == (
        "load_state_dict, parameter base_model.model.model.layers.79.mlp.gate_proj.lora_A.default.weight"
    )
    assert messages.inner(known(BY_ID["T3.1"])).family == "A2"
    assert known(BY_ID["H5.1"]).envelope == "torch.compile"
    bare = known(BY_ID["A1.1"])
    assert bare.envelope is None and messages.inner(bare) is bare


SPAWNED = """

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/torch/multiprocessing/spawn.py", line 90, in _wrap
    fn(i, *args)
  File "/home/me/train.py", line 12, in work
    loss = net(x) + y
           ~~~~~~~^~~
RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cpu!

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/me/train.py", line 14, in work
    raise JobFailed("rank 1")
JobFailed: rank 1
"""


def test_a_spawned_process_tells_where() -> None:
    error = messages.read("ProcessRaisedException", SPAWNED)
    assert error is not None
    assert (error.family, error.envelope, error.devices) == ("B1", "Process 1", ("cuda:1", "cpu"))
    places = messages.frames_in_text(SPAWNED)
    assert [(p.file, p.line, p.function, p.source) for p in places] == [
        ("/usr/lib/python3/dist-packages/torch/multiprocessing/spawn.py", 90, "_wrap", "fn(i, *args)"),
        ("/home/me/train.py", 12, "work", "loss = net(x) + y"),
    ]


def test_places_under_from_user_code() -> None:
    (place,) = messages.frames_in_text(BY_ID["H5.1"]["message"])
    assert (place.file, place.line, place.function) == ("example.py", 20, "g")
    assert place.source == "def g(x): return x+torch.ones(2,device='cuda')"
    assert messages.frames_in_text("no places") == ()
    assert messages.frames_in_text('File "') == ()


@pytest.mark.parametrize(
    ("wrapper", "op"),
    [
        ("wrapper_CUDA_addmm", "addmm"),
        ("wrapper_CUDA_mm_out_out", "mm.out"),
        ("wrapper_CUDA__index_select", "index_select"),
        ("wrapper_CUDA_scatter__value", "scatter_.value"),
        ("wrapper_CUDA_Tensor_searchsorted", "searchsorted.Tensor"),
        ("wrapper_SparseCUDA_add_Tensor", "add.Tensor"),
        ("wrapper_XPU___prelu_kernel", "_prelu_kernel"),
        ("wrapper__index_select", "index_select"),
        ("wrapper___cat", "_cat"),
        ("not_a_wrapper", "not_a_wrapper"),
        ("", ""),
    ],
)
def test_op_of(wrapper: str, op: str) -> None:
    assert messages.op_of(wrapper) == op


def test_text_around_the_sentence_does_not_hide_it() -> None:
    sentence = BY_ID["B1.1"]["message"]
    assert messages.read("RuntimeError", f"step 3 failed: {sentence}")
    assert messages.read(
        "RuntimeError", f"{sentence}\nException raised from compute_types at TensorIterator.cpp:484"
    )
    assert messages.read("RuntimeError", "x" * 10_000_000 + sentence)
    assert messages.read("RuntimeError", sentence + "x" * 10_000_000)
    assert messages.read("RuntimeError", "dets must be a CUDA tensor\nException raised from nms_kernel")
    assert messages.read("RuntimeError", "these dets must be a CUDA tensor or so") is None


def test_what_is_no_text_is_none() -> None:
    for thing in (None, 3, b"device", object()):
        assert messages.read("RuntimeError", thing) is None  # type: ignore[arg-type]
        assert messages.frames_in_text(thing) == ()  # type: ignore[arg-type]


class Sly(str):
    """A string whose methods lie."""

    def __contains__(self, item: object) -> bool:
        return True


def test_a_string_that_lies_is_read_by_its_characters() -> None:
    assert messages.read("RuntimeError", Sly("hello")) is None
    assert messages.read("RuntimeError", Sly(BY_ID["B1.1"]["message"]))


def test_other_errors_import_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from whydevice import messages\n"
        "own = {m for m in set(sys.modules) - before if not m.startswith('whydevice') and m != "
        "'__future__'}\n"
        "loaded = set(sys.modules)\n"
        f"for kind, text in {NOT_OURS[:30]!r}: messages.read(kind, text)\n"
        "print(sorted(m for m in set(sys.modules) - loaded if m.split('.')[0] in ('torch', 'rich', "
        "'stack_data')))\n"
        "print(messages.read('KeyError', 'x'), 'torch' in sys.modules)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANGS
    )
    assert out.stdout.split("\n")[:2] == ["[]", "None False"]


def test_a_long_text_of_half_matches_costs_little() -> None:
    pieces = [family.template.partition("{")[0] or family.anchor for family in FAMILIES]
    texts = [piece * (130_000 // max(1, len(piece))) for piece in pieces]
    texts.append('File "' * 20_000)
    texts.append('  File "x", line 1, in f\n    g()\n' * 20_000)
    texts.append("Traceback (most recent call last):\nRuntimeError: device\n" * 20_000)
    begun = time.process_time()
    for text in texts:
        messages.read("RuntimeError", text)
    messages.frames_in_text(texts[-2])
    # Not a benchmark: a pattern that backtracks takes minutes here.
    assert time.process_time() - begun < 60


@settings(max_examples=500, deadline=None)
@given(
    st.text(st.characters(), max_size=300), st.sampled_from(ROWS), st.integers(0, 400), st.integers(0, 400)
)
def test_fuzz(noise: str, row: dict[str, str], start: int, stop: int) -> None:
    text = row["message"]
    for mixed in (noise, text[:start] + noise + text[stop:], noise + text, text + noise):
        error = messages.read(row["exception"], mixed)
        if error is not None:
            assert all(isinstance(device, str) and device for device in error.devices)
            messages.wanted_side(error), messages.argument_device(error), messages.inner(error)
        messages.frames_in_text(mixed)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_fuzz_of_other_texts(text: str) -> None:
    assert messages.read("RuntimeError", text) is None
    messages.op_of(text)
