"""Explanations built by hand, one for each report that the design shows."""

from __future__ import annotations

import difflib
import os
import unicodedata
from collections.abc import Iterable

from whydevice.types import (
    Also,
    Cause,
    Culprit,
    DeviceError,
    Edit,
    Environment,
    Explanation,
    Fix,
    Operand,
    Place,
)

SCRIPT = os.path.join(os.getcwd(), "script.py")
ENVIRONMENT = Environment("3.11.2", "2.13.0", simulated=True)
SAME = "Expected all tensors to be on the same device, but found at least two devices, "


def control_characters(shown: str) -> list[str]:
    return [c for c in shown if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def source(lines: dict[int, str]) -> str:
    """A file with these lines; the others are empty."""
    return "\n".join(lines.get(number, "") for number in range(1, max(lines) + 1)) + "\n"


def place(text: str, line: int, part: str = "", note: str = "", function: str | None = None) -> Place:
    """The place of `part` in a line of a script's text."""
    shown = text.split("\n")[line - 1]
    column = shown.index(part) if part else None
    end = None if column is None else column + len(part)
    return Place(SCRIPT, line, shown, note, column, line, end, function)


def replaced(text: str, old: str, new: str, title: str, applicability: str = "safe", reason: str = "") -> Fix:
    """A fix that replaces one piece of the script's text, with its diff."""
    at = text.index(old)
    before = text[:at].split("\n")
    stop = text[: at + len(old)].split("\n")
    edit = Edit(SCRIPT, len(before), len(before[-1]), len(stop), len(stop[-1]), new)
    changed = text.replace(old, new, 1)
    diff = difflib.unified_diff(
        text.splitlines(keepends=True), changed.splitlines(keepends=True), "a/script.py", "b/script.py"
    )
    return Fix(title, applicability, (edit,), "".join(diff), None, reason)  # type: ignore[arg-type]


def made(text: str, headline: str, cause: str, trail: Iterable[Place], **rest: object) -> Explanation:
    error = rest.pop("error", None) or DeviceError(
        "RuntimeError", SAME + "cuda:0 and cpu!", "B1", ("cuda:0", "cpu")
    )
    certainty = rest.pop("certainty", "certain")
    named = Cause(cause, cause.replace("-", " "), "") if cause else None
    environment = rest.pop("environment", ENVIRONMENT)
    return Explanation(  # type: ignore[arg-type]
        error, certainty, headline, environment, named, trail=tuple(trail), sources={SCRIPT: text}, **rest
    )


BATCH_TEXT = source(
    {30: "for epoch in range(3):", 31: "    for x, y in loader:", 33: "        logits = model(x)",
     34: "        loss = criterion(logits, y)"}
)  # fmt: skip
BATCH = made(
    BATCH_TEXT,
    "`x` is on cpu, but `model` is on cuda:0",
    "batch-not-moved",
    [
        place(BATCH_TEXT, 31, "x", "made here: a DataLoader yields its batches on cpu"),
        Place(SCRIPT, 33, "        logits = model(x)", "float32[32, 784] on cpu", 23, 33, 24),
        place(BATCH_TEXT, 33, "model", "4 parameters, all on cuda:0"),
    ],
    culprit=Culprit("x", "cpu", "cuda:0", SCRIPT, 33),
    operands=(
        Operand("x", "cpu", "tensor", "input", "float32", (32, 784), SCRIPT, 33, True, "float32[32, 784]"),
        Operand("model", "cuda:0", "module", file=SCRIPT, line=33, what="MLP, 4 parameters"),
        Operand("y", "cpu", "tensor", None, "int64", (32,), SCRIPT, 34, True, "int64[32]"),
    ),
    also=(Also("y", "cpu", "cuda:0", SCRIPT, 34),),
    fixes=(
        replaced(
            BATCH_TEXT,
            "    for x, y in loader:\n",
            "    for x, y in loader:\n        x, y = x.to(device), y.to(device)\n",
            "move the batch where it is taken from the loader",
        ),
    ),
)

GRU_TEXT = source(
    {14: "        return torch.zeros(1, batch_size, self.n_hidden)",
     17: "        out, hidden = self.gru(x, hidden)",
     25: "    hidden = model.init_hidden(x.size(0))"}
)  # fmt: skip
GRU = made(
    GRU_TEXT,
    "`hidden` is on cpu, but `self.gru` is on cuda:0",
    "tensor-without-device",
    [
        place(GRU_TEXT, 14, "torch.zeros", "made here without device=, so on cpu", "init_hidden"),
        place(GRU_TEXT, 25),
        Place(SCRIPT, 17, GRU_TEXT.split("\n")[16], "float32[1, 8, 24] on cpu", 34, 17, 40, "forward"),
        place(GRU_TEXT, 17, "self.gru", "GRU, 4 parameters on cuda:0", "forward"),
    ],
    culprit=Culprit("hidden", "cpu", "cuda:0", SCRIPT, 17),
    operands=(
        Operand("x", "cuda:0", what="float32[8, 20, 12]"),
        Operand("hidden", "cpu", culprit=True, what="float32[1, 8, 24]"),
        Operand("self.gru", "cuda:0", "module", what="GRU, 4 parameters"),
    ),
    fixes=(
        replaced(
            GRU_TEXT,
            "self.n_hidden)",
            "self.n_hidden, device=self.head.weight.device)",
            "make it where the module is",
        ),
    ),
)

TD_TEXT = source(
    {17: "        reward = torch.Tensor(reward)", 18: "        done = torch.Tensor(done)",
     20: "        target_Q = reward + self.gamma * (1 - done) * target_Q"}
)  # fmt: skip
TD = made(
    TD_TEXT,
    "`reward` and `done` are on cpu, but `target_Q` is on cuda:0",
    "input-not-moved",
    [
        place(TD_TEXT, 17, function="to_priority"),
        place(
            TD_TEXT,
            18,
            "torch.Tensor",
            "`state`, `next_state`, `action` are moved above, these two are not",
            "to_priority",
        ),
        place(TD_TEXT, 20, function="to_priority"),
    ],
    culprit=Culprit("reward", "cpu", "cuda:0", SCRIPT, 20),
    operands=(
        Operand("reward", "cpu", culprit=True, what="float32[3, 1]"),
        Operand("done", "cpu", culprit=True, what="float32[3, 1]"),
        Operand("target_Q", "cuda:0", what="float32[3, 1]"),
    ),
    fixes=(
        replaced(
            TD_TEXT,
            "torch.Tensor(reward)\n        done = torch.Tensor(done)",
            "torch.Tensor(reward).to(device)\n        done = torch.Tensor(done).to(device)",
            "move them like the three above",
        ),
    ),
    notes=("`reward` alone would fail again on the same line because of `done`.",),
)

BUFFER_TEXT = source(
    {8: "        self.lim = torch.tensor([size, size]).view(2, 1)", 11: "        P = self.P + self.lim // 2"}
)
BUFFER = made(
    BUFFER_TEXT,
    "`self.lim` is on cpu, but `self.P` is on cuda:0",
    "tensor-attribute-not-buffer",
    [
        place(
            BUFFER_TEXT,
            8,
            "self.lim",
            "a plain attribute: .to() moves parameters and buffers only",
            "KernelBuilder.__init__",
        ),
        place(BUFFER_TEXT, 11, function="KernelBuilder.forward"),
    ],
    culprit=Culprit("self.lim", "cpu", "cuda:0", SCRIPT, 11),
    operands=(
        Operand("self.P", "cuda:0", "parameter", what="parameter, float32[2, 4]"),
        Operand("self.lim", "cpu", "attribute", culprit=True, what="int64[2, 1]"),
    ),
    fixes=(
        replaced(
            BUFFER_TEXT,
            "self.lim = torch.tensor([size, size]).view(2, 1)",
            'self.register_buffer("lim", torch.tensor([size, size]).view(2, 1), persistent=False)',
            "register it as a buffer; persistent=False keeps old checkpoints loading",
        ),
    ),
)

DISPATCH_TEXT = source(
    {6: 'dispatch(model, {"0": "cuda:0", "1": "cuda:0", "2": "cuda:1"})', 10: "model = model.to(device)",
     13: "    y = model(torch.randn(4, 5, device=device))"}
)  # fmt: skip
DISPATCH = made(
    DISPATCH_TEXT,
    "`model.2` runs on cuda:1, but its parameters are on cuda:0",
    "moved-after-dispatch",
    [
        place(
            DISPATCH_TEXT, 6, "dispatch", "spreads `model` over cuda:0 and cuda:1 and moves inputs by hooks"
        ),
        place(DISPATCH_TEXT, 10, "model.to(device)", "gathers the parameters on cuda:0 again"),
        place(DISPATCH_TEXT, 13),
    ],
    certainty="likely",
    culprit=Culprit("model.2", "cuda:0", "cuda:1", SCRIPT, 13),
    error=DeviceError("RuntimeError", SAME + "cuda:1 and cuda:0!", "B1", ("cuda:1", "cuda:0")),
    fixes=(
        replaced(
            DISPATCH_TEXT,
            "model = model.to(device)\n",
            "",
            "take the move away; dispatch has placed the parameters already",
            "unsafe",
            "another part of the script may rely on the whole model being on cuda:0.",
        ),
    ),
    environment=ENVIRONMENT._replace(gpus=2),
)

LIBRARY = os.path.join(os.getcwd(), "site-packages/lib_augmentation/augment.py")
AUGMENT_TEXT = source({10: "images = batch.to(device)", 11: "images = augment(images)"})
AUGMENT = made(
    AUGMENT_TEXT,
    "`Posterize` makes a cpu tensor inside lib_augmentation",
    "library-fault",
    [
        place(AUGMENT_TEXT, 11, "augment", "everything that your code passes is on cuda:0"),
        Place(LIBRARY, 24, function="Posterize.forward"),
    ],
    fixes=(
        replaced(
            AUGMENT_TEXT,
            "images = batch.to(device)\nimages = augment(images)",
            "images = augment(batch).to(device)",
            "run this transform before the move",
            "manual",
            "`augment` must be on cpu too",
        ),
    ),
    notes=(
        "Nothing in your code is on the wrong device. lib_augmentation (version unknown) makes the other "
        "operand itself; a newer version may help.",
    ),
)

BACKWARD_TEXT = source({21: "loss.backward()"})
BACKWARD = made(
    BACKWARD_TEXT,
    "a backward function returned a gradient on cpu for an input on cuda:0",
    "",
    [place(BACKWARD_TEXT, 21)],
    certainty="possible",
    notes=(
        "PyTorch ran the backward in C++: the frame of the function is gone. In your code, one "
        "torch.autograd.Function defines a backward that makes tensors (SinkhornLike, script.py:13).",
    ),
)

ALL = {
    "batch": BATCH,
    "gru": GRU,
    "td": TD,
    "buffer": BUFFER,
    "dispatch": DISPATCH,
    "augment": AUGMENT,
    "backward": BACKWARD,
}
