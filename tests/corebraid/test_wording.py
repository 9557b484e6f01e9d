"""Messages name an option as whoever reads them calls it, and only the command line knows how it is typed."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_factory import FIRMWARE, run

import corebraid
from corebraid.base.errors import UsageError
from corebraid.base.wording import Call, Option, Phrase, said
from corebraid.cli.wording import TYPED

ROOT = Path(__file__).resolve().parents[2]
BELOW = (
    "isa",
    "emu",
    "recorder",
    "solver",
    "corebraid/base",
    "corebraid/names",
    "corebraid/study",
    "corebraid/api",
)
#: An option as it is typed, not one of another program's; `-o` only where nothing is said of a whole command.
TYPED_OPTION = re.compile(r"(?<![\w-])--[a-z]|(?<![\w`-])(?<!record )-o\b")
#: Texts that recordings hold, which must stay what they are.
RECORDED = {
    "the guest needs more memory than --memory gives it",
    ", which is not emulated (--strict)",
}


def strings(source: str) -> Iterator[str]:
    """All string constants of a module but docstrings."""
    tree = ast.parse(source)
    described = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            yield node.value


def typed_options(source: str) -> list[str]:
    return [text for text in strings(source) if TYPED_OPTION.search(text) and text not in RECORDED]


@pytest.mark.parametrize("room", BELOW)
def test_no_message_below_the_command_line_names_a_typed_option(room: str) -> None:
    found = {
        path.relative_to(ROOT).as_posix(): options
        for path in sorted((ROOT / room).rglob("*.py"))
        if (options := typed_options(path.read_text()))
    }
    assert found == {}


def test_planted_options_are_found() -> None:
    assert typed_options('raise UsageError("no", remedy="choose another --memory")')
    assert typed_options('remedy = f"give --bind {path}"')
    assert typed_options('remedy = "choose another -o"')
    assert not typed_options('"""Of `--memory`."""\nname = "a -- b, pre-order"')


def test_an_option_is_called_as_its_reader_calls_it() -> None:
    memory, first, hints, fresh = (
        Option("memory"),
        Option("first", 5),
        Option("hints", False),
        Option("fresh", True),
    )
    assert [said(one) for one in (memory, first, hints, fresh)] == [
        "memory=", "first=5", "hints=False", "fresh=True",
    ]  # fmt: skip
    assert [TYPED(one) for one in (memory, first, hints, fresh)] == [
        "--memory", "--from 5", "--no-hints", "--fresh",
    ]  # fmt: skip
    call = Call("check-order", "REC", (Option("core", 2), Option("first")))
    assert said(call) == "corebraid.check_order('REC', core=2, first=...)"
    assert TYPED(call) == "corebraid check-order REC --core 2 --from"
    assert TYPED(Option("directory")) == "-o"


def test_an_error_keeps_its_options_on_the_way_to_another_process() -> None:
    error = UsageError(
        "no", found=Option("addr", "x"), remedy=Phrase("give ", Option("store_buffer"), " a number")
    )
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "no: found addr='x'; give store_buffer= a number"
    assert again.line(TYPED) == "no: found --addr x; give --store-buffer a number"


def test_both_ways_to_record_name_the_option_in_their_own_words(tmp_path: Path) -> None:
    image = FIRMWARE / "fig1.elf"
    with pytest.raises(UsageError, match=r"1 to 64 cores: found 65; choose cores= 1 to 64$"):
        corebraid.record(image, tmp_path / "rec", cores=65)
    ran = run("record", "-o", tmp_path / "rec", "--cores", 65, image)
    assert ran.lines[-1] == "corebraid: a machine has 1 to 64 cores: found 65; choose --cores 1 to 64"
