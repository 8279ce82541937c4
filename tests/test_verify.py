"""A fix is judged before it is run: true only where the edited call passes, false where it cannot."""

from __future__ import annotations

import difflib
import linecache
from pathlib import Path

import pytest

from whydevice import messages
from whydevice.edits import EditError, plan
from whydevice.evidence.collect import collect
from whydevice.explain import explain
from whydevice.propose import judged
from whydevice.simulate import simulate_cuda
from whydevice.source import Source
from whydevice.types import Edit
from whydevice.verify import Operand, Verdict, judge

HEAD = "import torch\nfrom torch import nn\ndevice = torch.device('cuda')\n"

NAMES = "x = torch.ones(3)\nw = torch.ones(3, device=device)\nif w.numel() > 9:\n    pass\ny = x + w\n"
FACTORY = """\
def noise(x):
    eps = torch.randn(3)
    return x + eps
noise(torch.ones(3, device=device))
"""
LOOP = """\
model = nn.Linear(3, 2).to(device)
for x, y in [(torch.ones(4, 3), torch.ones(4))]:
    out = model(x)
"""
CLASS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.scale = torch.ones(3)
    def forward(self, x):
        return self.fc(x) * self.scale
net = Net().to(device)
net(torch.ones(2, 3, device=device))
"""
STAGED = """\
class Grid:
    def lay_out(self, n):
        steps = torch.linspace(0, 1, n)
        self.steps = steps

class Base(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.parts(n)

class Net(Grid, Base):
    def parts(self, n):
        self.fc = nn.Linear(n, n)
        self.lay_out(n)
    def forward(self, x):
        return self.fc(x) * self.steps
net = Net(3).to(device)
net(torch.ones(2, 3, device=device))
"""
STAGED_THERE = STAGED.replace("nn.Linear(n, n)", "nn.Linear(n, n, device=device)")
RESTARTED = STAGED.replace("net(torch", "net.lay_out(3)\nnet(torch")
CALL = """\
def add(a, b):
    return a + b
add(torch.ones(3, device=device), torch.ones(3))
"""
BOTH = "a = torch.ones(3)\nb = torch.ones(3)\nw = torch.ones(3, device=device)\ny = torch.stack([a, w, b])\n"
DISCARDED = "x = torch.ones(3)\nx.to(device)\ny = x + torch.ones(3, device=device)\n"
STRAY = "w = torch.ones(3, device=device)\ny = w.cpu() + w\n"
HELD = "t = torch.ones(3)\nbox = {'t': t}\nw = torch.ones(3, device=device)\ny = box['t'] + w\n"
MADE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def forward(self, x):
        return self.fc(x)
def run(x):
    net = Net()
    return net(x)
run(torch.ones(2, 3, device=device))
"""
ATTACHED = MADE.replace("    return net(x)", "    net.fc = nn.Linear(3, 3)\n    return net(x)")
WRAPPED = MADE.replace(
    "    return net(x)", "    net = nn.Sequential(nn.Linear(3, 3), net)\n    return net(x)"
)
LISTED = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.heads = [nn.Linear(3, 2)]
    def forward(self, x):
        for head in self.heads:
            y = head(self.fc(x))
        return y
net = Net().to(device)
net(torch.ones(2, 3, device=device))
"""
DICT = """\
model = nn.Linear(3, 2).to(device)
for batch in [{"x": torch.ones(4, 3), "y": torch.ones(4)}]:
    out = model(batch["x"])
"""
GIVEN = """\
def start(n):
    state = torch.zeros(n)
    state.to(device)
    return state
w = torch.ones(3, device=device)
y = start(3) + w
"""
BRANCHED = """\
def start(n, fast):
    state = torch.ones(n)
    if fast:
        state = torch.zeros(n)
    return state
w = torch.ones(3, device=device)
y = start(3, w.numel() > 2) + w
"""
SKIPPED = BRANCHED.replace("w.numel() > 2", "w.numel() > 9")
LITERAL = "x = torch.ones(3)\nw = torch.ones(3, device=device)\ny = torch.cat([x, w, w[:2]])\n"
FILLED = "x = torch.ones(3)\nw = torch.ones(3, device=device)\ny = torch.where(w > 0, x, float('-inf'))\n"
WALRUS = "w = torch.ones(3, device=device)\nif (k := torch.bernoulli(torch.full((3,), 0.5))).numel():\n    y = k * w\n"
FIRST_USE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = None
    def forward(self, x):
        if self.proj is None:
            self.proj = nn.Linear(3, 3)
        return self.proj(x)
Net()(torch.ones(2, 3, device=device))
"""

HOST = "a = torch.ones(3, device=device)\nb = torch.ones(3, device=device)\ny = (a * 2 + b).numpy()\n"
HOST_LAYER = "net = nn.Linear(3, 2).to(device)\nx = torch.ones(4, 3, device=device)\ny = net(x).numpy()\n"
HOST_SCALE = HOST.replace("torch.ones(3, device=device)\nb", "torch.tensor(2.0, device=device)\nb")

CASES = [
    ("for NumPy, the whole", HOST, "(a * 2 + b)", "(a * 2 + b).cpu()", True),
    ("for NumPy, one operand", HOST, "a * 2", "a.cpu() * 2", False),
    ("for NumPy, the other", HOST, "+ b", "+ b.detach().cpu()", False),
    ("for NumPy, each operand", HOST, "a * 2 + b", "a.cpu() * 2 + b.cpu()", True),
    ("for NumPy, a scalar", HOST_SCALE, "a * 2", "a.cpu() * 2", None),
    ("for NumPy, a layer's input", HOST_LAYER, "net(x)", "net(x.cpu())", False),
    ("module where it is made", MADE, "Net()", "Net().to(device)", True),
    ("module, and more called on it", MADE, "Net()", "Net().to(device).eval()", True),
    ("module, a line below", MADE, "net = Net()\n", "net = Net()\n    net = net.to(device)\n", True),
    ("module, to where it was", MADE, "Net()", "Net().to('cpu')", None),
    ("module, its result discarded", MADE, "net = Net()\n", "net = Net()\n    other = Net().to(device)\n", None),
    ("part attached after the move", ATTACHED, "Net()", "Net().to(device)", None),
    ("name bound again", WRAPPED, "Net()", "Net().to(device)", None),
    ("module list", LISTED, "[nn.Linear(3, 2)]", "nn.ModuleList([nn.Linear(3, 2)])", True),
    ("a list no more", LISTED, "[nn.Linear(3, 2)]", "(nn.Linear(3, 2),)", None),
    ("dict as a whole", DICT, "    out", "    batch = {k: v.to(device) for k, v in batch.items()}\n    out", True),
    ("dict, not moved", DICT, "    out", "    batch = {k: v for k, v in batch.items()}\n    out", None),
    ("item of a dict", DICT, "    out", '    batch["x"] = batch["x"].to(device)\n    out', True),
    ("another item", DICT, "    out", '    batch["y"] = batch["y"].to(device)\n    out', None),
    ("item, too late", DICT, 'model(batch["x"])\n', 'model(batch["x"])\n    batch["x"] = batch["x"].to(device)\n', None),
    ("through a call", GIVEN, "state.to(device)", "state = state.to(device)", True),
    ("the branch that ran not", SKIPPED, "torch.zeros(n)", "torch.zeros(n, device=device)", None),
    ("the other branch", BRANCHED, "torch.ones(n)", "torch.ones(n, device=device)", None),
    ("in a literal", LITERAL, "torch.ones(3)\n", "torch.ones(3, device=device)\n", True),
    ("beside a number", FILLED, "torch.ones(3)\n", "torch.ones(3, device=device)\n", True),
    ("within a walrus", WALRUS, "0.5)", "0.5, device=device)", True),
    ("in the branch that it came from", FIRST_USE, "nn.Linear(3, 3)", "nn.Linear(3, 3).to(x.device)", True),
    ("appended", NAMES, "x = torch.ones(3)\n", "x = torch.ones(3).to(device)\n", True),
    ("cuda call", NAMES, "y = x + w", "y = x.cuda() + w", True),
    ("keyword", NAMES, "ones(3)\n", "ones(3, device=device)\n", True),
    ("string", NAMES, "ones(3)\n", "ones(3, device='cuda')\n", True),
    ("like", NAMES, "y = x + w", "y = torch.zeros_like(w) + w", True),
    ("device of another", NAMES, "y = x + w", "y = x.to(w.device) + w", True),
    ("line below", NAMES, "x = torch.ones(3)\n", "x = torch.ones(3)\nx = x.to(device)\n", True),
    ("not to be evaluated", NAMES, "y = x + w", "y = x.to(next(iter([w])).device) + w", None),
    ("to where it was", NAMES, "y = x + w", "y = x.to('cpu') + w", False),
    ("dtype only", NAMES, "y = x + w", "y = x.to(torch.float64) + w", False),
    ("another name", NAMES, "x = torch.ones(3)\n", "x = torch.ones(3)\nz = x.to(device)\n", None),
    ("result discarded", NAMES, "x = torch.ones(3)\n", "x = torch.ones(3)\nx.to(device)\n", None),
    ("too late", NAMES, "y = x + w\n", "y = x + w\nx = x.to(device)\n", None),
    ("in a branch", NAMES, "    pass\n", "    x = x.to(device)\n", None),
    ("the right one", NAMES, "torch.ones(3, device=device)", "torch.ones(3, device=device).cuda()", False),
    ("factory", FACTORY, "randn(3)", "randn(3, device=x.device)", True),
    ("factory, not at its use", FACTORY, "randn(3)", "randn(3, dtype=torch.float64)", None),
    ("like in a function", FACTORY, "torch.randn(3)", "torch.randn_like(x)", True),
    ("returned", FACTORY, "return x + eps", "return x + eps.to(x)", True),
    ("loop", LOOP, "    out", "    x, y = x.to(device), y.to(device)\n    out", True),
    ("loop, the other", LOOP, "    out", "    y = y.to(device)\n    out", None),
    ("buffer", CLASS, "self.scale = torch.ones(3)", "self.register_buffer('scale', torch.ones(3))", True),
    ("the module's own device, before its move", CLASS, "ones(3)\n", "ones(3, device=self.fc.weight.device)\n", False),
    ("the same in what builds it", STAGED, "n)\n        self.steps", "n, device=self.fc.weight.device)\n        self.steps", False),
    ("moved by that", STAGED, "= steps", "= steps.to(self.fc.weight.device)", False),
    ("built on the device", STAGED_THERE, "n)\n        self.steps", "n, device=self.fc.weight.device)\n        self.steps", True),
    ("again after the move", RESTARTED, "n)\n        self.steps", "n, device=self.fc.weight.device)\n        self.steps", True),
    ("buffer in what builds it", STAGED, "self.steps = steps", "self.register_buffer('steps', steps)", True),
    ("buffer, made anew after the move", RESTARTED, "self.steps = steps", "self.register_buffer('steps', steps)", None),
    ("other buffer", CLASS, "self.scale = ", "self.register_buffer('other', torch.ones(3))\n        self.scale = ", None),
    ("argument", CALL, "torch.ones(3))", "torch.ones(3).to(device))", True),
    ("argument, the other", CALL, "torch.ones(3, device=device), ", "torch.ones(3, device=device).cuda(), ", False),
    ("parameter", CALL, "return a + b", "return a + b.to(a.device)", True),
    ("assigned", DISCARDED, "x.to(device)", "x = x.to(device)", True),
    ("stray", STRAY, "w.cpu()", "w", True),
]  # fmt: skip


def verdict(tmp_path: Path, text: str, old: str, new: str) -> Verdict:
    before = HEAD + text
    assert before.count(old) >= 1
    at = before.rindex(old)
    after = before[:at] + new + before[at + len(old) :]
    path = str(tmp_path / "script.py")
    Path(path).write_text(before)
    linecache.clearcache()
    with simulate_cuda(1):
        try:
            exec(compile(before, path, "exec"), {"__name__": "__main__", "__file__": path})
        except (RuntimeError, TypeError) as error:
            read = messages.read(type(error).__name__, str(error))
            assert read is not None
            evidence = collect(error, read)
            source = evidence.sources.get(path)
            made = tuple(_edits(path, source, after))
            assert plan(made, {path: source})[path] == after
            try:
                return judged(evidence, made, {path: source})
            finally:
                evidence.release()
    raise AssertionError("the devices agreed")


def _edits(path: str, source: Source, after: str) -> list[Edit]:
    matcher = difflib.SequenceMatcher(None, source.text, after, autojunk=False)
    return [
        source.edit(i1, i2, after[j1:j2]) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"
    ]


@pytest.mark.parametrize(("text", "old", "new", "passes"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_edited_call_is_judged(
    text: str, old: str, new: str, passes: bool | None, tmp_path: Path
) -> None:
    assert verdict(tmp_path, text, old, new).passes is passes


@pytest.mark.parametrize(("text", "old", "new", "passes"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_is_judged_is_what_happens(text: str, old: str, new: str, passes: bool | None) -> None:
    before = HEAD + text
    at = before.rindex(old)
    code = compile(before[:at] + new + before[at + len(old) :], "edited", "exec")
    with simulate_cuda(1):
        try:
            exec(code, {"__name__": "__main__"})
            passed = True
        except (RuntimeError, TypeError):
            passed = False
    assert passes is None or passed is passes


def test_what_would_still_fail_is_mended_by_the_same_fix(tmp_path: Path) -> None:
    """The cause is about `x` alone; `z` would fail next."""
    text = HEAD + "w = torch.ones(3, device=device)\nx = torch.ones(3)\nx.to(device)\n"
    text += "z = torch.ones(3)\ny = torch.addcmul(w, x, z)\n"
    path = tmp_path / "script.py"
    path.write_text(text)
    linecache.clearcache()
    with simulate_cuda(1):
        try:
            exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
        except RuntimeError as error:
            found = explain(error)
            assert found is not None
        [fix] = found.fixes
        assert (found.cause.name, fix.verified) == ("to-result-discarded", True)
        mended = plan(fix.edits)[str(path)]
        assert "x = x.to(device)" in mended
        exec(compile(mended, str(path), "exec"), {"__name__": "__main__"})


LISTED_BY = """\
def parts(n):
    found = []
    for _ in range(n):
        found.append(torch.ones(3))
    return found
w = torch.ones(3, device=device)
rows = parts(2)
y = rows[0] + w
"""


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (HELD, "{'t': t}", "{'t': t}.to(device)"),
        (HELD, "box['t'] + w", "box.to(device)['t'] + w"),
        (LISTED_BY, "parts(2)", "parts(2).to(device)"),
        (LISTED_BY, "return found", "return found.cuda()"),
    ],
)
def test_what_has_no_move_is_not_moved(text: str, old: str, new: str, tmp_path: Path) -> None:
    with pytest.raises(EditError, match=r"has no `\.(to|cuda)\(\)`"):
        verdict(tmp_path, text, old, new)


def test_one_of_two_is_not_proven_enough(tmp_path: Path) -> None:
    assert verdict(tmp_path, BOTH, "a = torch.ones(3)", "a = torch.ones(3).cuda()").passes is not True
    assert verdict(tmp_path, HELD, "torch.ones(3)\nbox", "torch.ones(3).cuda()\nbox").passes is not False


def test_the_verdict() -> None:
    moved, stays = Operand("x", "cpu", "cuda:0", True), Operand("y", "cpu", "cpu", True)
    gone, minor = Operand("z", "cpu", None, True), Operand("n", "cpu", "cpu")
    assert judge("cuda:0", [moved], complete=True) == Verdict(True)
    assert judge("cuda:0", [moved], complete=False) == Verdict(None)
    assert judge("cuda:0", [moved, stays], complete=True) == Verdict(False, ("y",))
    assert judge("cuda:0", [moved, gone], complete=True) == Verdict(None)
    assert judge("cuda:0", [moved, minor], complete=True) == Verdict(None, ("n",))
    assert judge("cuda:0", [], complete=True) == Verdict(None)
