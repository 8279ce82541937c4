"""A fix of a notebook's cell: shown as the cell's new text, as the user wrote it."""

from __future__ import annotations

from whydevice.catch.notebook import with_cell_names
from whydevice.edits import cell_text
from whydevice.render.html import html
from whydevice.types import DeviceError, Edit, Environment, Explanation, Fix

PATH = "/tmp/ipykernel_7/42.py"
RAN = "get_ipython().run_line_magic('time', 'f()')\nx = torch.ones(3)\ny = x + z\n"
WROTE = "%time f()\nx = torch.ones(3)\ny = x + z"
EDIT = Edit(PATH, 2, 16, 2, 16, ", device=z.device")


def test_the_text_that_was_written_is_what_is_edited() -> None:
    wanted = WROTE.replace("ones(3)", "ones(3, device=z.device)")
    assert cell_text([EDIT], PATH, RAN, WROTE) == wanted
    assert cell_text([EDIT], PATH, WROTE + "\n", WROTE) == wanted + "\n"
    assert cell_text([EDIT], PATH, WROTE + "\n") == wanted + "\n"


def test_a_cell_whose_lines_are_not_those_that_ran_is_not_edited() -> None:
    assert cell_text([EDIT], PATH, RAN, "%%time\n" + WROTE) is None
    assert cell_text([Edit(PATH, 1, 0, 1, 3, "a")], PATH, RAN, WROTE) is None
    assert cell_text([Edit(PATH, 9, 0, 9, 0, "a")], PATH, RAN, RAN) is None


class _Compiler:
    def format_code_name(self, name: str) -> tuple[str, str] | None:
        return ("Cell", "In[2]") if name == PATH else None


def test_the_html_has_the_cell() -> None:
    explanation = Explanation(
        DeviceError("RuntimeError", "m", "A1"),
        "certain",
        "`x` is on cpu",
        Environment("3", "2"),
        fixes=(Fix("make it there", "safe", (EDIT,)),),
        sources={PATH: RAN},
    )
    named = with_cell_names(explanation, _Compiler(), ["", "import torch", WROTE])
    [fix] = named.fixes
    assert fix.cells == (("cell [2]", WROTE.replace("ones(3)", "ones(3, device=z.device)")),)
    assert "%time f()\nx = torch.ones(3, device=z.device)\ny = x + z" in html(named)
    assert "cell [2] with the fix" in html(named)
