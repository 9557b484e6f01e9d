"""The examples of the README, the docs and --help can be repeated: what pages show is what is printed."""

from __future__ import annotations

import platform
import re
import shutil
from pathlib import Path

import pytest
from cli_factory import ROOT, run
from doc_pages import (
    Example,
    commands_named,
    examples,
    first_difference,
    help_examples,
    options_of,
    unmarked,
    wrong_examples,
)

from bench.__main__ import _BENCHMARKS
from corebraid.cli.group import _COMMANDS, cli
from corebraid.study.causes import passing

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("firmware/**/README.md"))
)
#: Commands whose answer is no, by the page that has them.
CODES = {
    "README.md": {
        "corebraid check sb.axe --model sc --explain": 1,
        "corebraid hunt --exhaustive --cores 2 -- ./small_races peterson": 1,
    },
    "docs/exhaustive.md": {
        "corebraid hunt --exhaustive --cores 2 -- ./small_races ticket": 1,
        "corebraid hunt --exhaustive --cores 2 --input test.txt tiny_races.elf": 1,
        "corebraid hunt --exhaustive --model tso --cores 2 --input test.txt tiny_races.elf": 1,
        "corebraid hunt --exhaustive --model tso --cores 2 -- ./small_races peterson+fence": 1,
    },
    "docs/hunt.md": {
        "corebraid hunt --schedule pct:2 --seed 151 --runs 20 -o NONE -- fixed/good_cache": 1,
    },
    "docs/stack.md": {"corebraid record -o REC ./crash": 3},
    "docs/races.md": {"corebraid races REC": 1},
    "docs/rpc.md": {"corebraid rpc REC --seed 7 --free": 1},
    "docs/tso.md": {"corebraid trace REC --format axe | corebraid check - --model sc": 1},
    "check --help": {f"corebraid check traces.axe --model {model}": 1 for model in ("sc", "tso --explain")},
    "races --help": {
        f"corebraid races REC{options}": 1
        for options in ("", " --spinning", " --spinning --sync search_over --limit 5")
    },
    "rpc --help": {"corebraid rpc REC --seed 7 --free": 1},
}
#: What begins examples that are not run: why. Their options are looked up.
NOT_RUN = {
    "corebraid order REC --cluster": "needs a scheduler of the reader's own",
    "python -m bench": "measures for minutes to hours; test_bench_smoke runs them with little work",
    "make bench": "an hour",
    "corebraid record -o REC --env": "python3 may be a script that starts another program, which is refused",
}
#: What begins examples that take long: `make soak` runs them.
_GALLERY = ("LOST", "CYCLE", "SECTIONS", "FREED", "MISSED", "ABA")
LONG = {
    "corebraid order REC --engine smt --encoding paper": "minutes of z3",
    "corebraid record -- pigz": "hundreds of millions of instructions",
    "corebraid record -o REC -- pigz": "the same",
    **{f"corebraid hunt --no-reduce -o {name} ": "one more program" for name in _GALLERY},
    "corebraid hunt --no-reduce --schedule cover -- ": "shown on docs/hunt.md too",
    "corebraid hunt --until 'output~found [0-3]' --jobs 8 ": "more processes than processors",
    "corebraid hunt --cores 2 bug_dcl.elf": "one more program",
    "corebraid hunt --schedule cover --seed 2000 ": "shown by tests of that schedule too",
    "corebraid hunt --exhaustive --model tso --cores 2 -o TSO ": "minutes of compilation",
}
#: What examples name besides corebraid: without it they, and those on its recording, are not run.
NEEDS = {"pigz": "pigz"}
#: Text in backticks that is no command line.
NO_COMMANDS = {"corebraid recording"}
#: The C library that is seen in what pages show of Linux programs.
GLIBC = "2.36"
LINUX_PAGES = ("docs/hunt.md", "docs/who-wrote.md")


def is_run(command: str, whole: bool) -> bool:
    """Whether an example is run, in `make soak` (whole) or otherwise."""
    if any(command.startswith(one) for one in NOT_RUN):
        return False
    long = [name for name, program in NEEDS.items() if re.search(rf"\b{name}\b", command)]
    if long or any(command.startswith(one) for one in LONG):
        return whole and all(shutil.which(NEEDS[name]) for name in long)
    return True


def chosen(page: str, whole: bool) -> list[Example]:
    """The examples of a page that are run."""
    found = examples((ROOT / page).read_text())
    return [example for example in found if example.language or is_run(example.command, whole)]


def check_page(page: str, folder: Path, *, whole: bool) -> None:
    """Hold a page against what its commands print. whole: with those that take long."""
    if page in LINUX_PAGES and platform.libc_ver()[1] != GLIBC:
        pytest.skip(f"shows places in glibc {GLIBC}")
    wrong = wrong_examples(chosen(page, whole), folder, CODES.get(page, {}), compared=whole)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("page", [page for page in PAGES if chosen(page, whole=False)])
def test_a_page_shows_what_is_printed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hunts compare what they find with few runs that pass, which changes how many there are alone."""
    monkeypatch.setattr(passing, "COMPARED", 4)
    check_page(page, tmp_path, whole=False)


@pytest.mark.soak
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page in LINUX_PAGES or chosen(page, False) != chosen(page, True)]
)
def test_a_page_shows_what_is_printed_with_long_examples_too(page: str, tmp_path: Path) -> None:
    check_page(page, tmp_path, whole=True)


@pytest.mark.parametrize("page", PAGES)
def test_no_command_is_shown_without_being_an_example(page: str) -> None:
    assert unmarked((ROOT / page).read_text()) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_option_that_a_page_names_is_there(page: str) -> None:
    assert [wrong for one in commands_named((ROOT / page).read_text()) if (wrong := missing(one))] == []


def missing(command: str) -> str:
    """What a command line names that there is not: command, bench, option; '' if all is there."""
    words = command.split()
    if words[0] == "corebraid":
        return _missing_of_command(command, words[1] if len(words) > 1 else "--help")
    module = words[2]
    if module == "bench":
        name = words[3] if len(words) > 3 and words[3] != "..." else ""
        if name and name not in _BENCHMARKS:
            return f"{command}: {name}"
        module = "bench.__main__"
    path = ROOT / f"{module.replace('.', '/')}.py"
    path = path if path.is_file() else path.with_suffix("") / "__main__.py"
    source = path.read_text() if path.is_file() else ""
    wrong = [option for option in options_of(command) if f'"{option}"' not in source]
    return "" if source and not wrong else f"{command}: {wrong or module}"


def _missing_of_command(command: str, name: str) -> str:
    if not re.fullmatch("[a-z]+(-[a-z]+)*", name) or command in NO_COMMANDS:
        return ""
    found = cli.get_command(None, name)  # type: ignore[arg-type]
    if found is None:
        return f"{command}: {name}"
    known = {text for option in found.params for text in (*option.opts, *option.secondary_opts)}
    wrong = sorted(set(options_of(command)) - known)
    return f"{command}: {wrong}" if wrong else ""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The README's recording, ordered, and its program."""
    folder = tmp_path_factory.mktemp("help")
    assert run("example", "uts", "-o", folder).code == 0
    rec = folder / "REC"
    recorded = run("record", "-o", rec, "--cores", 4, "--strata", "cycles:10000", folder / "uts.elf")
    assert recorded.code == 0
    assert run("order", rec).code == 0
    return folder


def check_help(name: str, recording: Path, folder: Path, *, whole: bool) -> None:
    text = run(*([name] if name else []), "--help").out
    commands = help_examples(text)
    assert commands, text
    shutil.copytree(recording / "REC", folder / "REC")
    if name == "check":
        sample = text.split("A trace:")[1].split("Exit code")[0].splitlines()[1:]
        (folder / "traces.axe").write_text("\n".join(line[:36].split("  T: ")[0].rstrip() for line in sample))
    codes = CODES.get(f"{name} --help", {})
    (folder / "big.txt").write_text("all work and no play\n" * 5000)
    wrong = []
    for command in commands:
        if re.search(r"(record|hunt)\b.* -o REC\b", command):
            shutil.rmtree(folder / "REC", ignore_errors=True)
        if is_run(command, whole):
            wrong += wrong_examples([Example(command, ())], folder, codes)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("name", ["", *_COMMANDS])
def test_what_help_shows_can_be_done(
    name: str, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a hunt says of what it finds is not looked at here.
    monkeypatch.setattr(passing, "COMPARED", 2)
    check_help(name, recording, tmp_path, whole=False)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["order", "record", "hunt"])
def test_what_help_shows_can_be_done_with_long_examples_too(
    name: str, recording: Path, tmp_path: Path
) -> None:
    check_help(name, recording, tmp_path, whole=True)


SHOWN = ("a 0.1234 s", "b", "...", "d and ...", "e")


@pytest.mark.parametrize(
    ("printed", "wrong"),
    [
        ("a 7.77777 s|b|c|c|d and more|e", ""),
        ("a 0.1 s|b|d and|e", "a S s"),
        ("a 0.1234 s|b|d and more|e", ""),
        ("a 0.1234 s|x|b|d and more|e", "b"),
        ("a 0.1234 s|b|e|d and more", "e"),
        ("a 0.1234 s|b|d and more|e|f", "e"),
        ("b|a 0.1234 s|d and more|e", "b"),
        ("", "a S s"),
    ],
)
def test_lines_shown_are_compared_in_their_order(printed: str, wrong: str) -> None:
    assert first_difference(SHOWN, printed.split("|")) == wrong


def test_more_than_is_shown_is_found() -> None:
    assert "there is:) more" in first_difference(("a",), ["a", "more"])
    assert first_difference(("a", "..."), ["a", "more"]) == ""
    assert first_difference(("...", "b"), ["a", "b", "a"]) == "b"


PLANTED = """\
```
$ corebraid example fig1
fig1.elf
fig1.c
$ corebraid record -o REC --cores 2 fig1.elf
fig1: R1 1 R6 2 R3 4 x 3
...
$ corebraid order REC | head -n 1
 region verdict   engine ...
$ cat > word <<END
> two  # blanks
> END
$ cat word
two  # blanks
```
```python
import corebraid
```
```python
print(corebraid.__name__)
```
"""


def test_a_planted_line_is_found(tmp_path: Path) -> None:
    (tmp_path / "right").mkdir()
    assert wrong_examples(examples(PLANTED), tmp_path / "right", {}) == []
    planted = {
        "fig1.c\n": "fig2.c\n",
        "x 3": "x 4",
        "engine ...": "motor ...",
        "--cores 2": "--coers 2",
        "two  # blanks\n```": "three\n```",
        "corebraid.__name__": "corebraid.no_such_name",
    }
    for number, (old, new) in enumerate(planted.items()):
        assert old in PLANTED
        folder = tmp_path / str(number)
        folder.mkdir()
        wrong = wrong_examples(examples(PLANTED.replace(old, new)), folder, {})
        assert wrong, new


def test_a_planted_option_and_a_planted_command_are_found() -> None:
    assert missing("corebraid order REC --engine cut") == ""
    assert "--egnine" in missing("corebraid order REC --egnine cut")
    assert "ordre" in missing("corebraid ordre REC")
    assert missing("python -m bench.scored --programs uts") == ""
    assert missing("python -m bench.scored --progarms uts")
    assert missing("python -m bench sped")
    assert unmarked("Text.\n\n    corebraid order REC\n") == ["corebraid order REC"]
    assert unmarked("```\ncorebraid order REC\n```\n") == ["corebraid order REC"]
