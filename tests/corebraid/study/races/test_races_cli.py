"""`corebraid races` on recorded programs whose races are known."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_factory import FIRMWARE, record, run
from linux_guest_factory import PROGRAMS as LINUX_PROGRAMS

import corebraid
from corebraid.study.races.candidates import candidates
from corebraid.study.races.steps import Step
from recorder.files.reader import Recording

Recorded = Callable[[str], Path]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Programs, recorded and ordered when they are asked for."""
    folder, done = tmp_path_factory.mktemp("races"), dict[str, Path]()

    def of(name: str) -> Path:
        if name not in done:
            done[name] = folder / name
            program = FIRMWARE / name if name.endswith(".elf") else LINUX_PROGRAMS / name
            assert run("record", "-o", done[name], "--cores", 3, "--output", "/dev/null", program).code in (
                0,
                1,
            )
            assert run("order", done[name]).code == 0
        return done[name]

    return of


def told(*arguments: object, code: int) -> dict[str, object]:
    ran = run("races", "--json", *arguments)
    assert ran.code == code, ran.err
    found: dict[str, object] = json.loads(ran.out)
    return found


def data(found: dict[str, object]) -> set[str]:
    races = found["races"]
    assert isinstance(races, list)
    return {race["data"].partition("+")[0] for race in races}


def test_a_lost_update(recorded: Recorded) -> None:
    found = told(recorded("bug_lost_update"), code=1)
    assert data(found) == {"counter"}
    races = found["races"]
    assert isinstance(races, list)
    # Each pair of places once: store and store, store and load.
    kinds = [{race["first"]["kind"], race["second"]["kind"]} for race in races]
    assert sorted(kinds, key=len) == [{"W"}, {"R", "W"}]
    assert [race["order"] for race in races] == ["held", "held"]
    for race in races:
        for side in (race["first"], race["second"]):
            assert side["symbol"].startswith("add_one")
            names = [frame["symbol"].partition("+")[0] for frame in side["stack"]["frames"]]
            assert names[:2] == ["add_one", "count"]
    text = run("races", recorded("bug_lost_update"))
    assert text.code == 1
    assert "1. race on counter" in text.out
    assert "#1 count+" in text.out
    assert "the order shows" in text.out


def test_the_function_says_what_the_command_says(recorded: Recorded) -> None:
    rec = recorded("bug_lost_update")
    assert json.loads(json.dumps(corebraid.races(rec, quick=True).facts())) == told(rec, "--quick", code=1)
    with pytest.raises(corebraid.CorebraidError, match="budget"):
        corebraid.races(rec, budget=0)


def test_programs_that_do_it_right(recorded: Recorded) -> None:
    assert told(recorded("good_counter"), "--quick", code=0)["races"] == []
    suppressed = told(recorded("good_missed_wakeup"), "--quick", "--no-default-suppressions", code=1)
    assert suppressed["suppressions"] == []
    ran = run("races", recorded("good_missed_wakeup"), "--quick")
    assert ran.code == 0
    assert "no races, 2 suppressed" in ran.out
    assert "*pthread_cond_*" in ran.err


def test_a_flag_is_taken_as_synchronising_where_it_is_named(recorded: Recorded) -> None:
    found = told(recorded("good_publication"), "--quick", code=1)
    assert data(found) == {"shared", "storage"}
    named = told(recorded("good_publication"), "--quick", "--sync", "shared", code=0)
    assert named["synchronising_bytes"] == int(str(found["synchronising_bytes"])) + 8


@pytest.mark.parametrize(("name", "step"), [("good_counter", "start"), ("signal_waits", "signal")])
def test_a_step_that_is_missing_is_seen(recorded: Recorded, name: str, step: str) -> None:
    """Correct programs race as soon as what puts them in order is not looked at."""
    recording = Recording.open(recorded(name))

    def found(chosen: Callable[[list[Step]], list[Step]]) -> set[tuple[int, int]]:
        every = candidates(recording, lambda _: None, lambda _shared, _words: [], chosen)
        return {one.places for one in every.found}

    whole = found(lambda steps: steps)
    assert found(lambda steps: [one for one in steps if one.thing[0] != step]) > whole


def test_words_that_threads_wait_at(recorded: Recorded) -> None:
    """Firmware that waits at plain words: with them left out nothing races but what does."""
    found = told(recorded("radix.elf"), "--quick", code=1)
    assert "all_cores" in data(found)
    assert told(recorded("radix.elf"), "--quick", "--spinning", code=0)["races"] == []


def test_a_device_races_with_a_core(recorded: Recorded) -> None:
    found = told(recorded("dma_race.elf"), "--quick", "--spinning", code=1)
    assert data(found) == {"dma_source", "dma_destination"}
    races = found["races"]
    assert isinstance(races, list)
    assert {race["second"]["agent"] for race in races} == {"dma"}


def test_suppressions(recorded: Recorded, tmp_path: Path) -> None:
    file, rec = tmp_path / "known", recorded("bug_lost_update")
    file.write_text("# of this program\nadd_* add_one count*er  so it is taught\nmemcpy * *\n")
    found = told(rec, "--quick", "--suppressions", file, code=0)
    assert (found["races"], found["suppressed"]) == ([], 2)
    hits = found["suppressions"]
    assert isinstance(hits, list)
    assert [(hit["reason"], hit["races"]) for hit in hits[:2]] == [("so it is taught", 2), (None, 0)]
    text = run("races", rec, "--quick", "--suppressions", file)
    assert text.code == 0
    assert f"{file}:3: this suppression hid nothing: memcpy * *" in text.err
    file.write_text("* * other\n")
    assert told(rec, "--quick", "--suppressions", file, code=1)["suppressed"] == 0


def test_bad_input(recorded: Recorded, tmp_path: Path) -> None:
    file, rec = tmp_path / "known", recorded("bug_lost_update")
    file.write_text("*\nadd_one counter\n")
    ran = run("races", rec, "--suppressions", file)
    assert ran.code == 2
    assert "known:1: not a suppression" in ran.err
    assert run("races", rec, "--suppressions", tmp_path / "none").code == 2
    ran = run("races", rec, "--sync", "no_such_data")
    assert ran.code == 2
    assert "no_such_data" in ran.err
    assert record(tmp_path / "fig1", "fig1", "--cores", 2).code == 0
    ran = run("races", tmp_path / "fig1")
    assert ran.code == 2
    assert "corebraid order" in ran.err
    assert run("races", tmp_path / "nothing").code == 2


@pytest.mark.soak
def test_other_recordings(tmp_path: Path) -> None:
    """Under TSO, of the end of a run, and with strata between the accesses that race."""
    program = LINUX_PROGRAMS / "bug_lost_update"
    for name, options in {
        "tso": ("--model", "tso"),
        "ring": ("--last", "20k", "--strata", "cycles:5000"),
        "strata": ("--strata", "events:50"),
    }.items():
        path = tmp_path / name
        recorded = run("record", "-o", path, "--cores", 2, "--output", "/dev/null", *options, program)
        assert recorded.code in (0, 1), recorded.err
        assert run("order", path).code == 0
        assert data(told(path, "--quick", "--limit", 1, code=1)) == {"counter"}, name
