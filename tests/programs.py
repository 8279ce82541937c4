"""Random programs with one device mistake each, and the truth about it: which operand, and the lines of its way.

A program makes a value on the wrong device, hands it on through names, containers, objects, modules and calls, and
at last uses it together with a value on the right one. Everything is drawn from one seed: `program(7)` is always
the same text. What the writer knows of the mistake it knows because it planted it, not from any analysis.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable

from program_parts import FACTORIES, HEAD, NAMES, WAY, Body, Program


class Writer:
    """One program in the making."""

    def __init__(self, seed: int) -> None:
        self.random, self.seed = random.Random(seed), seed
        self.defined: list[list[str]] = []
        self.done: list[Body] = []
        self.names = iter(self._names())
        self.plan: list[str] = []
        self.module = self.random.random() < 0.3
        self.body = Body("", "") if self.module else Body("def main():", "    ")
        self.wrong, self.right, self.layer = "", "", False

    def _names(self) -> list[str]:
        words = list(NAMES)
        names = words + [f"{a}_{b}" for a in words for b in ("in", "out", "next")]
        self.random.shuffle(names)
        return names

    def name(self) -> str:
        return next(self.names)

    def pick(self, options: list[str]) -> str:
        return self.random.choice(options)

    # -- where the two values come from ---------------------------------------------------------------------

    def start(self) -> None:
        at, right = self.name(), self.name()
        if self.random.random() < 0.15:
            self.layer = True
            self.body.add(
                f"{at} = {self.pick(['nn.Linear(4, 4)', 'nn.Sequential(nn.Linear(4, 4), nn.ReLU())'])}", True
            )
            self.plan.append("layer")
        elif self.random.random() < 0.1:
            self.body.add(f"{at} = {self.pick(FACTORIES)}", True)
            self.body.add(f"{at}.to(device)", True)
            self.plan.append("discarded")
        elif self.random.random() < 0.1:
            self.body.add(f"{at} = {self.pick(FACTORIES)}.to(device).cpu()", True)
            self.plan.append("stray")
        else:
            self.body.add(f"{at} = {self.pick(FACTORIES)}", True)
            self.plan.append("made")
        self.body.add(
            f"{right} = {self.pick(['torch.ones(4, device=device)', 'torch.rand(4).to(device)', 'torch.zeros(4).cuda()'])}"
        )
        self.wrong, self.right = at, right

    def distract(self) -> None:
        """Lines that have nothing to do with it: tensors on both devices that the failing line never meets."""
        made = self.name()
        self.body.add(self.pick([
            f"{made} = torch.zeros(3)",
            f"{made} = [torch.ones(2), torch.ones(2, device=device)]",
            f"{made} = torch.rand(4).to(device)",
            f"{made} = {{'log': torch.zeros(1), 'steps': 3}}",
            f"{made} = nn.Linear(4, 2)",
            f"{made} = [i * 2 for i in range(3)]",
        ]))  # fmt: skip

    # -- how they travel within a function --------------------------------------------------------------------

    def assign(self) -> None:
        to = self.name()
        self.body.add(f"{to} = {self.wrong}", True)
        self.wrong = to

    def unpack(self) -> None:
        a, b = self.name(), self.name()
        swap = self.random.random() < 0.5
        pair = f"{self.right}, {self.wrong}" if swap else f"{self.wrong}, {self.right}"
        self.body.add(f"{a}, {b} = {pair}", True)
        self.wrong, self.right = (b, a) if swap else (a, b)

    def in_dict(self) -> None:
        to = self.name()
        self.body.add(f'{to} = {{"x": {self.right}, "y": {self.wrong}}}', True)
        self.wrong, self.right = f'{to}["y"]', f'{to}["x"]'

    def in_list(self) -> None:
        to = self.name()
        self.body.add(f"{to} = [{self.right}, {self.wrong}]", True)
        self.wrong, self.right = f"{to}[1]", f"{to}[0]"

    def appended(self) -> None:
        to = self.name()
        self.body.add(f"{to} = []", True)
        self.body.add(f"{to}.append({self.wrong})", True)
        self.wrong = f"{to}[{self.pick(['0', '-1'])}]"

    def stored(self) -> None:
        to = self.name()
        self.body.add(f"{to} = {{}}", True)
        self.body.add(f'{to}["k"] = {self.wrong}', True)
        self.wrong = f'{to}["k"]'

    def namespace(self) -> None:
        to = self.name()
        self.body.add(f"{to} = SimpleNamespace(v={self.wrong}, n=4)", True)
        self.wrong = f"{to}.v"

    def record(self) -> None:
        cls, to = self.name().title().replace("_", ""), self.name()
        if self.random.random() < 0.5:
            self.defined.append(["@dataclass", f"class {cls}:", "    first: object", "    second: object"])
        else:
            self.defined.append([f'{cls} = namedtuple("{cls}", "first second")'])
        self.body.add(f"{to} = {cls}({self.right}, second={self.wrong})", True)
        self.wrong, self.right = f"{to}.second", f"{to}.first"

    def holder(self) -> None:
        cls, to = self.name().title().replace("_", ""), self.name()
        self.defined.append(
            [f"class {cls}:", "    def __init__(self, given):", f"        self.kept = given{WAY}"]
        )
        self.body.add(f"{to} = {cls}({self.wrong})", True)
        self.wrong = f"{to}.kept"

    def through_function(self) -> None:
        function, to = self.name(), self.name()
        result = (
            "v" if self.layer else self.pick(["v", "v * 2", "v.view(-1)", "torch.relu(v)", "v.clone()", "-v"])
        )
        lines = [f"def {function}(v):", f"    return {result}{WAY}"]
        if self.random.random() < 0.3:
            lines = [f"def {function}(v):", f"    w = {result}{WAY}", f"    return w{WAY}"]
        self.defined.append(lines)
        self.body.add(f"{to} = {function}({self.pick([self.wrong, f'v={self.wrong}'])})", True)
        self.wrong = to

    def through_lambda(self) -> None:
        function, to = self.name(), self.name()
        self.body.add(f"{function} = lambda v: {'v' if self.layer else self.pick(['v', 'v + 1'])}", True)
        self.body.add(f"{to} = {function}({self.wrong})", True)
        self.wrong = to

    def looped(self) -> None:
        to = self.name()
        over = self.pick([f"[{self.wrong}]", f"({self.wrong}, {self.wrong})"])
        self.body.add(f"for {to} in {over}:", True)
        self.body.add("    pass")
        self.wrong = to

    def comprehended(self) -> None:
        to = self.name()
        self.body.add(f"{to} = [t for t in ({self.wrong}, {self.wrong})]", True)
        self.wrong = f"{to}[1]"

    def branched(self) -> None:
        to = self.name()
        wrong = ("if device:", "else:")
        self.body.add(f"{wrong[0]}", True)
        self.body.add(f"    {to} = {self.wrong}", True)
        self.body.add(f"{wrong[1]}")
        self.body.add(f"    {to} = {self.right if not self.layer else self.wrong}")
        self.wrong = to

    def chosen(self) -> None:
        to = self.name()
        other = "None" if self.layer else self.right
        self.body.add(f"{to} = {self.wrong} if device else {other}", True)
        self.wrong = to

    def rebound(self) -> None:
        """The name held a right value first; a branch that is taken puts the wrong one in."""
        if self.layer:
            return self.assign()
        to = self.name()
        self.body.add(f"{to} = {self.right}")
        self.body.add("if device:")
        self.body.add(f"    {to} = {self.wrong}", True)
        self.wrong = to
        return None

    def computed(self) -> None:
        if self.layer:
            return self.assign()
        to = self.name()
        how = self.pick(
            [
                "{} * 0.5",
                "{}.abs()",
                "torch.exp({})",
                "{}.reshape(4)",
                "{} + {}",
                "F.softmax({}, dim=0)",
                "{}[:]",
            ]
        )
        self.body.add(f"{to} = {how.replace('{}', self.wrong)}", True)
        self.wrong = to
        return None

    def nested(self) -> None:
        to = self.name()
        self.body.add(f'{to} = {{"outer": [{self.right}, {{"inner": {self.wrong}}}]}}', True)
        self.wrong, self.right = f'{to}["outer"][1]["inner"]', f'{to}["outer"][0]'

    def starred(self) -> None:
        a, b = self.name(), self.name()
        self.body.add(f"{a}, *{b} = {self.right}, {self.wrong}, 3", True)
        self.right, self.wrong = a, f"{b}[0]"

    def yielded(self) -> None:
        function, to = self.name(), self.name()
        self.defined.append([f"def {function}(v):", f"    yield v{WAY}"])
        self.body.add(f"{to} = next({function}({self.wrong}))", True)
        self.wrong = to

    def zipped(self) -> None:
        a, b = self.name(), self.name()
        self.body.add(f"for {a}, {b} in zip([{self.right}], [{self.wrong}]):", True)
        self.body.add("    pass")
        self.right, self.wrong = a, b

    def set_outside(self) -> None:
        cls, to = self.name().title().replace("_", ""), self.name()
        self.defined.append([f"class {cls}:", "    kept = None"])
        self.body.add(f"{to} = {cls}()", True)
        self.body.add(f"{to}.kept = {self.wrong}", True)
        self.wrong = f"{to}.kept"

    def property_of(self) -> None:
        cls, to = self.name().title().replace("_", ""), self.name()
        self.defined.append([f"class {cls}:", "    def __init__(self, given):", f"        self._given = given{WAY}", "",
                             "    @property", "    def given(self):", f"        return self._given{WAY}"])  # fmt: skip
        self.body.add(f"{to} = {cls}({self.wrong})", True)
        self.wrong = f"{to}.given"

    def walrus(self) -> None:
        to, size = self.name(), self.name()
        self.body.add(f"{size} = [{to} := {self.wrong}]", True)
        self.wrong = to

    # -- into another function ------------------------------------------------------------------------------

    def call(self) -> None:
        function, a, b = self.name(), self.name(), self.name()
        how = self.pick(["positional", "keyword", "mixed", "star", "double", "partial"])
        given = {
            "positional": f"{self.wrong}, {self.right}",
            "keyword": f"{b}={self.right}, {a}={self.wrong}",
            "mixed": f"{self.wrong}, {b}={self.right}",
            "star": f"*({self.wrong}, {self.right})",
            "double": f"**dict({a}={self.wrong}, {b}={self.right})",
            "partial": "",
        }[how]
        called = f"{function}({given})"
        if how == "partial":
            called = f"functools.partial({function}, {self.wrong})({self.right})"
        self.body.add(f"return {called}" if not self.module else called, True)
        self._enter(f"def {function}({a}, {b}):", a, b)

    def closure(self) -> None:
        if self.module or not self.wrong.isidentifier() or not self.right.isidentifier():
            return self.call()
        function, outer = self.name(), self.body
        outer.add(f"def {function}():")
        inner = Body(outer.head, outer.indent + "    ")
        inner.lines = outer.lines
        end = f"{outer.indent}return {function}()"
        self.body = inner
        self.ends = [*getattr(self, "ends", []), end]
        return None

    def method(self) -> None:
        cls, to, b = self.name().title().replace("_", ""), self.name(), self.name()
        base, start = (
            ("(nn.Module)", ["        super().__init__()"]) if self.random.random() < 0.6 else ("", [])
        )
        run = "forward" if base else self.pick(["run", "__call__"])
        kept = self.name()
        self.defined.append([f"class {cls}{base}:", "    def __init__(self, given):", *start,
                             f"        self.{kept} = given{WAY}", "@@"])  # fmt: skip
        moved = ".to(device)" if base and not self.layer else ""
        self.body.add(f"{to} = {cls}({self.wrong}){moved}", True)
        called = f"{to}({self.right})" if run != "run" else f"{to}.run({self.right})"
        self.body.add(f"return {called}" if not self.module else called, True)
        self._enter(f"    def {run}(self, {b}):", f"self.{kept}", b, "        ", self.defined[-1])

    def _enter(
        self, head: str, wrong: str, right: str, indent: str = "    ", into: list[str] | None = None
    ) -> None:
        self._close()
        self.module = False
        self.body = Body(head, indent)
        self.into = into
        self.wrong, self.right = wrong, right

    def _close(self) -> None:
        for end in reversed(getattr(self, "ends", [])):
            self.body.lines.append(end + WAY)
        self.ends: list[str] = []
        into = getattr(self, "into", None)
        if into is not None:
            at = into.index("@@")
            into[at : at + 1] = [self.body.head, *self.body.lines]
        else:
            self.done.append(self.body)
        self.into = None

    # -- the end ---------------------------------------------------------------------------------------------

    def use(self) -> str:
        w, r = self.wrong, self.right
        if self.layer:
            return self.pick(
                [f"{w}({r})", f"{w}({r}).sum()", f"torch.relu({w}({r} * 2))", f"F.relu({w}({r}))"]
            )
        return self.pick([
            f"{r} + {w}", f"{w} * {r}", f"({r} - {w}).sum()", f"torch.cat([{r}, {w}])", f"torch.stack(({w}, {r}))",
            f"torch.maximum({r}, {w})", f"F.mse_loss({r}, {w})", f"{r}.add({w})", f"{r}.mul_({w})", f"torch.where({r} > 0, {r}, {w})",
            f"torch.dot({w}, {r})", f"{r} @ {w}", f"torch.relu({r} * {w} + 1)", f"torch.lerp({r}, {w}, 0.5)", f"{w}.div({r})",
            f"F.l1_loss({w}, target={r})", f"[{r}, {r} + {w}][1]", f"torch.outer(input={r}, vec2={w})",
        ])  # fmt: skip

    def write(self) -> Program:
        self.start()
        hops: list[Callable[[], None]] = [
            self.assign, self.unpack, self.in_dict, self.in_list, self.appended, self.stored, self.namespace, self.record,
            self.holder, self.through_function, self.through_lambda, self.looped, self.comprehended, self.branched,
            self.nested, self.starred, self.yielded, self.zipped, self.set_outside, self.property_of, self.walrus,
            self.chosen, self.rebound, self.computed, self.call, self.call, self.closure, self.method,
        ]  # fmt: skip
        for _ in range(self.random.randint(0, 5)):
            if self.random.random() < 0.3:
                self.distract()
            hop = self.random.choice(hops)
            self.plan.append(hop.__name__)
            hop()
        used = self.use()
        self.plan.append(used.replace(self.wrong, "W").replace(self.right, "R"))
        if self.random.random() < 0.5 or self.module:
            out = self.name()
            self.body.add(f"{out} = {used}", True)
            self.body.add(f"print({out})" if self.module else f"return {out}")
        else:
            self.body.add(f"return {used}", True)
        self._close()
        return self._rendered()

    def _rendered(self) -> Program:
        lines = [*HEAD]
        for block in self.defined:
            lines += ["", "", *block]
        main = []
        for body in self.done:
            if not body.head:
                main = body.lines
            else:
                lines += ["", "", body.head, *body.lines]
        lines += ["", "", *(main or ["main()"])]
        way = frozenset(at for at, line in enumerate(lines, 1) if line.endswith(WAY))
        source = "\n".join(line.removesuffix(WAY) for line in lines) + "\n"
        return Program(self.seed, source, frozenset(_parts(self.wrong)), way, tuple(self.plan))


def _parts(expression: str) -> set[str]:
    """The expression and what it is a part of: `box["y"]` and `box`."""
    found, node = set(), ast.parse(expression, mode="eval").body
    while True:
        found.add(ast.unparse(node))
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return found - {"self"}
        node = node.value


def program(seed: int) -> Program:
    """The program of a seed."""
    return Writer(seed).write()
