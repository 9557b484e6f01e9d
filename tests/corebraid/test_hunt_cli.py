"""`corebraid hunt` on real guests, and what its schedules do to them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from cli_factory import ROOT, run
from stack_factory import compiled, needs_gcc

from corebraid.study.causes import passing
from corebraid.study.causes.passing import Comparison

GUESTS = ROOT / "firmware" / "linux" / "x86_64"
FIRMWARE = ROOT / "firmware" / "x86_64"


def same_files(one: Path, other: Path) -> bool:
    """Whether two recordings are the same, but for an order that one has."""
    names = {path.name for path in one.iterdir()} - {"order.cert"}
    return names == {path.name for path in other.iterdir()} and all(
        (one / name).read_bytes() == (other / name).read_bytes() for name in names if (one / name).is_file()
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A lock-order deadlock, found by one process."""
    path = tmp_path_factory.mktemp("hunt") / "rec"
    ran = run(
        "hunt", "--no-reduce", "-o", path, "--runs", 30, "--jobs", 1, "--json", GUESTS / "bug_lock_order"
    )
    assert ran.code == 0, ran.err
    return path, json.loads(ran.out)


@pytest.mark.soak
def test_only_the_failing_recording_is_left(found: tuple[Path, dict[str, object]]) -> None:
    path, facts = found
    assert [entry.name for entry in path.parent.iterdir()] == ["rec"]
    assert facts["found"] is True
    assert facts["condition"] == "deadlock"


def test_who_waits_for_whom(found: tuple[Path, dict[str, object]]) -> None:
    path, facts = found
    lines = facts["deadlock"]
    assert isinstance(lines, list)
    assert "waits for thread" in lines[0]
    assert all("waits for the mutex at" in line and "(accounts" in line for line in lines[1:3])
    assert lines[3].startswith("a cycle: ")
    info = run("info", path)
    assert all(line in info.out for line in lines)


def test_the_explanation_names_the_places(found: tuple[Path, dict[str, object]]) -> None:
    _, facts = found
    suspicions = facts["suspicions"]
    assert isinstance(suspicions, list)
    circle = suspicions[0]
    assert circle["certain"] is True
    assert circle["title"].endswith(": taken by one thread and waited for by another, in a circle")
    took = [" took " in step for step in circle["steps"]]
    assert took == [True, False, True, False]
    assert all(" waits for " in step for step, one in zip(circle["steps"], took, strict=True) if not one)
    assert not any(one["certain"] for one in suspicions[1:])
    text = json.dumps(suspicions)
    assert "called from transfer" in text
    assert "bug_lock_order.c:" in text


def test_the_command_that_is_printed_makes_the_same_recording(
    found: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    path, facts = found
    words = shlex.split(str(facts["again"]))
    at = words.index("-o") + 1
    words[at] = str(tmp_path / "again")
    assert words[0] == "corebraid"
    ran = run(*words[1:])
    assert ran.code == 3, ran.err
    assert "a cycle" in ran.err
    assert same_files(path, tmp_path / "again")


def test_the_recording_replays_and_has_a_legal_order(found: tuple[Path, dict[str, object]]) -> None:
    path, _ = found
    assert run("verify", path).code == 0
    assert run("check-order", path).code == 0
    assert run("replay", path, "--all").code == 0


def test_the_number_of_processes_does_not_matter(
    found: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    path, facts = found
    ran = run(
        "hunt", "--no-reduce", "-o", tmp_path / "rec", "--runs", 30, "--jobs", 3, "--no-explain", "--json",
        GUESTS / "bug_lock_order",
    )  # fmt: skip
    other = json.loads(ran.out)
    assert [other[name] for name in ("run", "seed", "schedule")] == [
        facts[name] for name in ("run", "seed", "schedule")
    ]
    assert same_files(path, tmp_path / "rec")
    assert [entry.name for entry in tmp_path.iterdir()] == ["rec"]


@pytest.mark.parametrize("program", ["/bin/true", "/bin/false"])
def test_a_program_of_one_thread_is_said_to_be_one(program: str, tmp_path: Path) -> None:
    ran = run("hunt", "--no-reduce", "-o", tmp_path / "rec", "--runs", 2, "--jobs", 1, "--json", program)
    assert ran.code == (program == "/bin/true")
    assert json.loads(ran.out)["one_thread"] is True
    assert "the program had one thread in every run: runs differ by --seed alone" in ran.err


#: How many threads it has is drawn; some of their counting is lost.
_DRAWN = """
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
static volatile int sum;
static void *work(void *p) {
    for (int i = 0; i < 20; i++) { int old = sum; sum = old + 1; }
    return p;
}
int main(void) {
    unsigned char drawn;
    getrandom(&drawn, 1, 0);
    int many = drawn % 4;
    pthread_t threads[4];
    for (int i = 0; i < many; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < many; i++) pthread_join(threads[i], 0);
    return sum != 20 * many;
}
"""


@needs_gcc
def test_threads_that_only_other_seeds_show(tmp_path: Path) -> None:
    program = compiled(tmp_path, "drawn.c", _DRAWN, "-O1")
    alone = next(seed for seed in range(20) if _tasks(program, tmp_path / f"{seed}", seed) == 1)
    ran = run("hunt", "-o", tmp_path / "rec", "--seed", alone, "--runs", 400, "--json", program)
    assert ran.code == 0
    facts = json.loads(ran.out)
    assert facts["one_thread"] is False
    assert facts["schedule_seed"] == facts["seed"] > alone
    assert facts["suspicions"][0]["title"].endswith(": a lost update")
    assert facts["reduction"]["recording"]
    other = facts["several_threads_with_seed"]
    assert _tasks(program, tmp_path / "other", other) > 1
    assert f"and several with --seed {other}: hunt with that one" in ran.err
    assert "one thread in every run" not in ran.err
    run(*shlex.split(facts["again"])[1:])
    assert same_files(tmp_path / "rec", tmp_path / "rec.again")


def _tasks(program: Path, folder: Path, seed: int) -> int:
    run("record", "-o", folder, "--seed", seed, program)
    return int(json.loads((folder / "manifest.json").read_text())["totals"]["tasks"])


def test_not_found(tmp_path: Path) -> None:
    ran = run(
        "hunt", "--no-reduce", "-o", tmp_path / "rec", "--runs", 2, "--jobs", 1, GUESTS / "good_lock_order"
    )
    assert ran.code == 1
    assert "not found in 2 runs" in ran.err
    assert "two threads" not in ran.err
    assert "each was taken as one; --model tso" in ran.err
    assert "did not end" not in ran.err
    assert ran.out == ""
    assert list(tmp_path.iterdir()) == []


def test_runs_that_did_not_end_are_counted(tmp_path: Path) -> None:
    hunt = (
        "hunt",
        "--no-reduce",
        "-o",
        tmp_path / "rec",
        "--runs",
        3,
        "--limit",
        400_000,
        "--json",
        "--model",
        "tso",
    )
    ran = run(*hunt, "--", GUESTS / "loop_forever")
    assert ran.code == 1
    assert "3 of these runs did not end" in ran.err
    assert json.loads(ran.out)["cut"] == 3
    assert "taken as one" not in ran.err
    found = run(*hunt, "--until", "timeout", "--no-explain", "--", GUESTS / "loop_forever")
    assert found.code == 0


@pytest.mark.soak
def test_nothing_suspicious_is_said_only_where_somebody_looked(tmp_path: Path) -> None:
    said = "no access looks suspicious by itself"
    for name, more in (("looked", ()), ("not", ("--no-explain",))):
        ran = run(
            "hunt",
            "--no-reduce",
            "-o",
            tmp_path / name,
            "--runs",
            1,
            "--jobs",
            1,
            *more,
            GUESTS / "exit_seven",
        )
        assert ran.code == 0, ran.err
        assert (said in ran.out) == (name == "looked")


def test_what_was_found_is_shown_though_the_explanation_is_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Comparison, "runs", broken)
    ran = run("hunt", "--no-reduce", "-o", tmp_path / "rec", "--runs", 1, "--jobs", 1, GUESTS / "exit_seven")
    assert ran.code == 130
    assert "found in run 1 " in ran.out
    assert [entry.name for entry in tmp_path.iterdir()] == ["rec"]


def test_switches_that_did_not_take_place_are_named(tmp_path: Path) -> None:
    ran = run("record", "-o", tmp_path / "rec", "--schedule", "switches:1001@4=1002,7777@3=1001", "--json",
              GUESTS / "bug_lost_update")  # fmt: skip
    assert ran.code == 0
    assert "1 switch(es) of the schedule did not take place" in ran.err
    assert "7777@3=1001" in ran.err
    assert json.loads(ran.out[ran.out.index("{") :])["missed"] == ["7777@3=1001"]


@pytest.mark.parametrize(
    ("name", "function", "processes"),
    [
        ("bug_lost_update", "add_one", (1, 2)),
        pytest.param("bug_publication", "fill", (2,), marks=pytest.mark.soak),
        pytest.param("bug_atomicity", "enough", (2,), marks=pytest.mark.soak),
    ],
)  # fmt: skip
def test_what_no_run_has_that_passed_is_said_first(
    name: str,
    function: str,
    processes: tuple[int, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of processes does not matter to that, and nothing of those runs is left."""
    monkeypatch.setattr(passing, "COMPARED", 6)
    told = []
    for jobs in processes:
        place = tmp_path / str(jobs)
        place.mkdir()
        ran = run("hunt", "--no-reduce", "-o", place / "rec", "--jobs", jobs, "--json", GUESTS / name)
        assert ran.code == 0, ran.err
        told.append(json.loads(ran.out[ran.out.index("{") :])["suspicions"])
        assert [entry.name for entry in place.iterdir()] == ["rec"]
    assert told[0] == told[-1]
    first = told[0][0]
    assert any(f"{function}" in step for step in first["steps"])
    assert first["passed"][0] == 0
    assert first["passed"][1] > 3


def test_output_is_a_condition_and_is_shown(tmp_path: Path) -> None:
    ran = run(
        "hunt", "--no-reduce", "-o", tmp_path / "rec", "--runs", 2, "--jobs", 1,
        "--until", "output~expected [0-9]+ found",
        "--schedule", "random", "--no-explain", GUESTS / "good_counter",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert ran.out.startswith("good_counter: expected 40 found 40\nfound in run 1 ")
    assert "--bus mesi" in next(line for line in ran.out.splitlines() if line.startswith("once more: "))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("stdin", "more"), [(b"x", ()), (b"", ()), (b"x", ("--input", "file"))])
def test_that_it_read_standard_input_is_said(stdin: bytes, more: tuple[str, ...], tmp_path: Path) -> None:
    """The command that is printed needs the same."""
    (tmp_path / "file").write_bytes(b"y")
    given = [tmp_path / one if one == "file" else one for one in more]
    ran = run(
        "hunt", "--no-reduce", "-o", tmp_path / "rec", "--runs", 1, "--jobs", 1, "--no-explain", *given,
        GUESTS / "exit_seven", stdin=stdin,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert ("the same standard input" in ran.err) == (stdin != b"" and not more)


def test_a_run_that_does_not_end(tmp_path: Path) -> None:
    ran = run(
        "hunt", "--no-reduce", "-o", tmp_path / "rec", "--runs", 2, "--jobs", 1,
        "--until", "timeout", "--limit", 200_000,
        "--no-explain", "--json", GUESTS / "loop_forever",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    facts = json.loads(ran.out[ran.out.index("{") :])
    assert facts["end"]["reason"] == "limit"
    assert "--limit 200000" in facts["again"]


def test_a_run_that_never_ends_needs_a_limit(tmp_path: Path) -> None:
    """The first run was broken off: there is no length to go by, so a hunt for time-outs would never end."""
    ran = run("hunt", "--no-reduce", "-o", tmp_path / "rec", "--until", "timeout", GUESTS / "loop_forever")
    assert ran.code == 2
    assert "give --limit or --time-limit" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_firmware(tmp_path: Path) -> None:
    ran = run(
        "hunt", "--no-reduce", "-o", tmp_path / "rec", "--cores", 2, "--jobs", 1, "--runs", 30, "--json",
        FIRMWARE / "bug_lost_update.elf",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    facts = json.loads(ran.out[ran.out.index("{") :])
    assert any("lost update" in one["title"] and "hits" in one["title"] for one in facts["suspicions"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--until", "bogus"], ["bogus"]),
        (["--until", "output~("], ["regular expression"]),
        (["--schedule", "round-robin"], ["round-robin"]),
        (["--schedule", "pct:0"], ["the depth of pct"]),
        (["--schedule", "late:x"], ["the depth of late"]),
        (["--until", "idles"], ["no such condition", "idle"]),
        (["--runs", "0"], ["--runs"]),
        (["--until", "exit==256"], ["up to 255"]),
        (["--seed", str((1 << 64) - 1), "--runs", "2"], ["seeds are below 2**64"]),
        (["--time-limit", "nan"], ["--time-limit"]),
        (["--output", str(GUESTS / "crash")], ["there is already a file here"]),
        (["--output", "nowhere/out"], ["cannot be written"]),
        (["--keep-writes", "kept"], ["--keep-writes"]),
        (["--bind", "/:/x:rw"], ["/:/x:rw"]),
    ],
)
def test_wrong_use(options: list[str], words: list[str], tmp_path: Path) -> None:
    ran = run("hunt", "--no-reduce", "-o", tmp_path / "rec", *options, GUESTS / "good_counter")
    assert ran.code == 2
    assert all(word in ran.err for word in words), ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "rec").mkdir()
    ran = run("hunt", "--no-reduce", "-o", tmp_path / "rec", GUESTS / "good_counter")
    assert ran.code == 2
    assert "there is already something here" in ran.err


@pytest.mark.parametrize(
    ("model", "schedule", "cores"),
    [("sc", "chaos", 4), ("sc", "pct:4", 2), ("tso", "chaos", 3), ("sc", "chaos", 1)],
)
@pytest.mark.sampled(1)
def test_recordings_of_these_schedules_are_exact(
    model: str, schedule: str, cores: int, tmp_path: Path
) -> None:
    """Slices that end before a shared access, also before the store of an instruction, replay bit for bit."""
    for seed in (1, 2):
        path = tmp_path / f"{seed}"
        ran = run(
            "record", "-o", path, "--model", model, "--schedule", schedule, "--seed", seed, "--cores", cores,
            GUESTS / "bug_atomicity",
        )  # fmt: skip
        assert ran.code == 0, ran.err
        assert run("replay", path, "--all").code == 0
        assert run("order", path).code == 0
        ran = run("verify", path)
        assert ran.code == 0, ran.err + ran.out
