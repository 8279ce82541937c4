"""State registered with its Module: buffers, ModuleList, ModuleDict, and the names that torch refuses."""

from __future__ import annotations

import ast

import pytest

from edit_helpers import edited
from whydevice.edits import EditError, attribute_to_buffer, dict_to_moduledict, list_to_modulelist
from whydevice.edits.registration import DICT_NAMES, MODULE_NAMES

CLASS = """from torch import nn
class A(nn.Module):
    y: int
    z = 1
    def __init__(self):
        super().__init__()
        {}
    def f(self): pass
"""


def _assignment(source):
    return source.tree.body[1].body[2].body[1]


def _class(statement):
    return CLASS.format(statement.replace("\n", "\n        "))


BUFFERS = [
    ("self.x = f(1)", 'self.register_buffer("x", f(1), persistent=False)'),
    ("self.x = f(1)  # c", 'self.register_buffer("x", f(1), persistent=False)  # c'),
    ("self.y = f(1)", 'self.register_buffer("y", f(1), persistent=False)'),
    ("self.x=a+b", 'self.register_buffer("x", a+b, persistent=False)'),
    ("self.x = a[None] \\\n    + b", 'self.register_buffer("x", a[None] \\\n    + b, persistent=False)'),
    ("self.x = (a +\n  b)", 'self.register_buffer("x", (a +\n  b), persistent=False)'),
    ("self.x = ((a))", 'self.register_buffer("x", ((a)), persistent=False)'),
    ("self.x = f(\n    1,  # one\n)", 'self.register_buffer("x", f(\n    1,  # one\n), persistent=False)'),
    ("self.x = a if b else c", 'self.register_buffer("x", a if b else c, persistent=False)'),
    ("self.x = f(1); g()", 'self.register_buffer("x", f(1), persistent=False); g()'),
    ("self.x: T = f(1)", 'self.x: T\nself.register_buffer("x", f(1), persistent=False)'),
    ("self.x: T = f(1); g()", 'self.x: T\nself.register_buffer("x", f(1), persistent=False); g()'),
    ("self.a.x = f(1)", 'self.a.register_buffer("x", f(1), persistent=False)'),
    ("self.a, self.b = f()", 'a, b = f()\nself.register_buffer("a", a, persistent=False)\nself.register_buffer("b", b, persistent=False)'),
    ("(self.a, b) = f(), a", '(a_, b) = f(), a\nself.register_buffer("a", a_, persistent=False)'),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "wanted"), BUFFERS)
def test_an_attribute_becomes_a_buffer(statement, wanted):
    assert edited(_class(statement), lambda s: attribute_to_buffer(s, _assignment(s))) == _class(wanted)
    persistent = edited(_class(statement), lambda s: attribute_to_buffer(s, _assignment(s), persistent=True))
    assert persistent == _class(wanted).replace(", persistent=False", "")


def test_only_the_named_attributes_of_a_tuple_become_buffers():
    text = _class("self.a, self.b = f()")
    wanted = _class('a, self.b = f()\nself.register_buffer("a", a, persistent=False)')
    assert edited(text, lambda s: attribute_to_buffer(s, _assignment(s), attributes=("a",))) == wanted
    with pytest.raises(EditError, match="no such attribute"):
        edited(text, lambda s: attribute_to_buffer(s, _assignment(s), attributes=("c",)))


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("self.x = self.y = f()", "no plain assignment"),
        ("self.x += f()", "no plain assignment"),
        ("self.x: T", "no plain assignment"),
        ("x = f()", "no attribute"),
        ("self.x = a, b", "no tensor"),
        ("self.x = [a]", "no tensor"),
        ("self.z = f()", "the class defines `z`"),
        ("self.f = f()", "the class defines `f`"),
        ("self.training = f()", "a name of nn.Module"),
        ("(self.a, *self.b) = f()", "nested"),
        ("self.a, self.b = f(); g()", "more than one statement"),
        ('self.register_buffer("x", f())', "no plain assignment"),
    ],
)
def test_what_cannot_be_a_buffer_is_refused(statement, reason):
    with pytest.raises(EditError, match=reason):
        edited(_class(statement), lambda s: attribute_to_buffer(s, _assignment(s)))


def test_a_buffer_needs_a_free_name_and_a_module_that_is_ready():
    text = _class("pass\nself.x = None\nself.x = f()")
    with pytest.raises(EditError, match="is assigned in line 8 already"):
        edited(text, lambda s: attribute_to_buffer(s, s.tree.body[1].body[2].body[3]))
    text = "class A:\n    def __init__(self):\n        self.x = f()\n        super().__init__()\n"
    with pytest.raises(EditError, match="before the Module's __init__"):
        edited(text, lambda s: attribute_to_buffer(s, s.tree.body[0].body[0].body[0]))


def test_a_buffer_at_the_end_of_a_file_without_a_newline():
    text = "class A:\n    def f(self):\n        self.a, b = g()"
    wanted = text.replace("self.a, b", "a, b") + '\n        self.register_buffer("a", a, persistent=False)'
    assert edited(text, lambda s: attribute_to_buffer(s, s.tree.body[0].body[0].body[0])) == wanted


LISTS = [
    ("[]", "nn.ModuleList()"),
    ("[  # c\n]", "nn.ModuleList([  # c\n])"),
    ("[a, b]", "nn.ModuleList([a, b])"),
    ("[\n    a,  # one\n    b,\n]", "nn.ModuleList([\n    a,  # one\n    b,\n])"),
    ("[a for a in b]", "nn.ModuleList([a for a in b])"),
    ("(a, b)", "nn.ModuleList((a, b))"),
    ("a, b", "nn.ModuleList((a, b))"),
    ("list(b)", "nn.ModuleList(b)"),
    ("list()", "nn.ModuleList()"),
    ("list(a for a in b)", "nn.ModuleList(a for a in b)"),
    ("[a] * 3", "nn.ModuleList([a] * 3)"),
    ("nn.ModuleList([a])", "nn.ModuleList([a])"),
]


@pytest.mark.parametrize(("value", "wanted"), LISTS)
def test_a_list_becomes_a_module_list(value, wanted):
    text = _class(f"self.x = {value}")
    result = _class(f"self.x = {wanted}")
    assert edited(text, lambda s: list_to_modulelist(s, _assignment(s).value)) == result
    assert edited(result, lambda s: list_to_modulelist(s, _assignment(s).value)) == result


DICTS = [
    ("{}", "nn.ModuleDict()"),
    ("{'a': b}", "nn.ModuleDict({'a': b})"),
    ("{\n    'a': b,\n    **c,\n}", "nn.ModuleDict({\n    'a': b,\n    **c,\n})"),
    ("{a: b for a in c}", "nn.ModuleDict({a: b for a in c})"),
    ("dict(a=b)", "nn.ModuleDict(dict(a=b))"),
    ("dict(b)", "nn.ModuleDict(b)"),
]


@pytest.mark.parametrize(("value", "wanted"), DICTS)
def test_a_dict_becomes_a_module_dict(value, wanted):
    text = _class(f"self.x = {value}")
    result = _class(f"self.x = {wanted}")
    assert edited(text, lambda s: dict_to_moduledict(s, _assignment(s).value)) == result
    assert edited(result, lambda s: dict_to_moduledict(s, _assignment(s).value)) == result


@pytest.mark.parametrize(
    "value", ["{'a.b': c}", "{'': c}", "{1: c}", "{'keys': c}", "{'train': c}", "dict(forward=c)"]
)
def test_keys_that_a_module_dict_refuses_are_refused(value):
    with pytest.raises(EditError, match="takes no key"):
        edited(_class(f"self.x = {value}"), lambda s: dict_to_moduledict(s, _assignment(s).value))


@pytest.mark.parametrize(
    ("imports", "name", "added"),
    [
        ("from torch import nn", "nn", ""),
        ("from torch import (\n    optim,\n    nn as N,\n)", "N", ""),
        ("import torch.nn as nn", "nn", ""),
        ("import torch", "torch.nn", ""),
        ("import torch as th", "th.nn", ""),
        ("import torch.nn", "torch.nn", ""),
        ("import torch\nfrom torch.nn import Linear", "torch.nn", ""),
        ("try:\n    import torch\nexcept ImportError: pass", "torch.nn", ""),
        ("from torch.nn import ModuleList", "", ""),
        ("import os", "nn", "from torch import nn\n"),
        ("def f():\n    import torch", "nn", "from torch import nn\n"),
        ("'''\nimport torch\n'''\nimport os", "nn", "from torch import nn\n"),
    ],
)
def test_the_files_own_name_for_torch_nn_is_used(imports, name, added):
    text = f"{imports}\nx = [a]\n"
    prefix = name + "." if name else ""
    result = edited(text, lambda s: list_to_modulelist(s, s.tree.body[-1].value))
    if added:
        first = "import os" if "import os" in imports else imports
        wanted = f"{imports}\nx = {prefix}ModuleList([a])\n".replace(first, added + first, 1)
    else:
        wanted = f"{imports}\nx = {prefix}ModuleList([a])\n"
    assert result == wanted


def test_imports_in_the_function_itself_count():
    text = "def f():\n    import torch\n    x = [a]\n"
    result = edited(text, lambda s: list_to_modulelist(s, s.tree.body[0].body[1].value))
    assert result == "def f():\n    import torch\n    x = torch.nn.ModuleList([a])\n"


def test_the_names_that_torch_refuses_are_known():
    torch = pytest.importorskip("torch")
    module, holder = torch.nn.Module(), torch.nn.ModuleDict()
    public = {name for name in dir(module) if not name.startswith("_")}
    assert public <= MODULE_NAMES
    for name in {n for n in dir(holder) if not n.startswith("_")}:
        assert name in DICT_NAMES
        with pytest.raises(KeyError):
            holder[name] = torch.nn.Linear(1, 1)


def test_what_is_refused_here_is_what_torch_refuses():
    torch = pytest.importorskip("torch")
    module = torch.nn.Module()
    module.x = 1
    with pytest.raises(KeyError):
        module.register_buffer("x", torch.zeros(1))
    assert isinstance(ast.parse("x"), ast.Module)
