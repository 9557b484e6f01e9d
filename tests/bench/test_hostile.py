"""The campaign of hostile input finds what is planted, makes its cases again, and takes its recordings apart
and together without loss. It forks, and runs in processes of its own: only one with one thread may."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bench.hostile import varints
from bench.hostile.asked import evidence_of
from bench.hostile.judging import Ended, fault_of
from bench.hostile.kinds import KINDS as KINDS_OF_CASES
from bench.hostile.line_table import with_lines
from bench.hostile.mutate_much import much
from bench.hostile.mutating import KINDS, draw_of, mutate
from bench.hostile.mutations import Cases
from bench.hostile.random_guests import code_of
from bench.hostile.recordings import GOLDEN, HOW, ROOT, TINY, make
from bench.hostile.resources import scenarios
from bench.hostile.sample import Sample
from bench.hostile.tally import Tally
from corebraid.base.errors import FormatError
from corebraid.names.lines import LineTable
from recorder.files.frame import iter_frames, read_header
from recorder.files.reader import Recording

SMALL = GOLDEN / "v2" / "tiny"

#: Ways in which a reader can fail, and what is told of each.
PLANTED = {
    "raise KeyError('planted')": "Traceback: KeyError: 'planted'",
    "raise RuntimeError('planted\\ntwice')": "Traceback",
    "while True: pass": "time limit",
    "kept = [bytearray(b'x') * (1 << 24) for _ in range(60)]; sys.exit(0)": "memory limit",
    "os.kill(os.getpid(), 11)": "signal SIGSEGV",
    "sys.exit(5)": "exit code 5",
    "sys.exit(2)": "exit code 2 without a word",
    "sys.exit(0)": "output lost",
    "print('a line', file=sys.stderr); sys.exit(1)": "a strange line on stderr",
}

_SCRIPT = """
import json, os, sys, tempfile
from collections.abc import Iterable
from pathlib import Path
from corebraid.base.kernel_cache import use_kernel_cache
use_kernel_cache()
from bench.hostile import mutations
from bench.hostile.campaign import run_campaign
from bench.hostile.slot import Limits
from bench.hostile.inside import run_command
from bench.hostile.sample import Sample
from bench.hostile.tally import Tally
from recorder.files import manifest

def planted(*_):
    {planted}

manifest.parse = planted
small = {{"small": Sample.read(Path({small!r}))}}
with tempfile.TemporaryDirectory() as folder:
    trials = mutations.prepare(range(3), 0, Path(folder), lambda _: run_command(["info", {small!r}]), small)
    limits = Limits(300 << 20, {seconds})
    tally = run_campaign(Tally("mutations", 0), trials, range(3), Path(folder), 2, limits)
print(json.dumps([one["fault"] for one in tally.failures]))
"""


def campaign(*arguments: object) -> Any:
    """What `python -m bench.hostile` prints with --json."""
    command = [sys.executable, "-m", "bench.hostile", *map(str, arguments), "--jobs", "2", "--json"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(ran.stderr)
    found = json.loads(ran.stdout)
    assert ran.returncode == bool(found["failures"])
    return found


#: What a case may leave behind, and what comes of it: (cases that fail, those that fail only behind others,
#: whether the next case has a process of its own).
LEFT = {
    "pass": ([], [], False),
    "kept.append(number); assert number != 7 or len(kept) < 3": ([], [7], False),
    "if number == 7: os.abort()": ([7], [], True),
    "if number == 7: os._exit(0)": ([], [], True),
    "if number == 7: sys.exit(9)": ([7], [], False),
    "if number == 7: raise KeyError": ([7], [], False),
    "while number == 7: pass": ([7], [], True),
    "if number == 7: kept.append(b'x' * (400 << 20))": ([7], [], True),
    "if number == 7: threading.Thread(target=time.sleep, args=(9,), daemon=True).start()": ([], [], True),
    "if number == 7: subprocess.Popen(['sleep', '9'])": ([], [], True),
    "if number == 7: kept.extend(open('/dev/null') for _ in range(99))": ([], [], True),
    "if number == 7: os.dup2(os.open('/dev/null', os.O_RDWR), 1); os.chdir('/')": ([7], [], False),
}

_IN_TURN = """
import json, os, subprocess, sys, tempfile, threading, time
from collections.abc import Iterable
from pathlib import Path
from bench.hostile.campaign import Verdict, run_campaign
from bench.hostile.slot import Limits
from bench.hostile.tally import Tally

kept, processes = [], {{}}

class Trials:
    limits, turns = Limits(200 << 20, 2), 100

    def work(self, number, folder, note):
        os.write(note, str(os.getpid()).encode())
        (folder / "file").touch(exist_ok=False)
        (folder / "folder" / "deep").mkdir(parents=True)
        {left}
        print(number)
        return 0

    def judge(self, number, how, note):
        processes.setdefault(number, note)
        right = (how.code, how.stopped, how.out) == (0, "", b"%d\\n" % number)
        return Verdict("", "", "", "" if right or {quiet} else "wrong", "")

with tempfile.TemporaryDirectory() as folder:
    tally = run_campaign(Tally("mutations", 0), Trials(), range(12), Path(folder))
told = [[one["case"] for one in some] for some in (tally.failures, tally.alone)]
print(json.dumps([*told, processes[7] != processes[8], len(set(processes.values()))]))
"""


def in_one_thread(script: str) -> Any:
    """What a process with one thread prints as JSON."""
    one = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, cwd=ROOT, env=one, capture_output=True, text=True, check=False)
    print(ran.stderr)
    return json.loads(ran.stdout)


def _every_third(cases: Iterable[str]) -> list[Any]:
    """All of them in a long campaign."""
    return [
        pytest.param(one, id=str(k), marks=pytest.mark.soak if k % 3 else ()) for k, one in enumerate(cases)
    ]


@pytest.mark.parametrize("left", _every_third(LEFT))
@pytest.mark.sampled(1)
def test_cases_in_one_process_are_as_good_as_alone(left: str) -> None:
    """A case that ends or spoils its process has it for itself, and is blamed only for what it does alone."""
    quiet = "number == 7 and how.code == 0 and not how.stopped" if "_exit" in left else "False"
    failed, not_alone, ends, n = in_one_thread(_IN_TURN.format(left=left, quiet=quiet))
    assert (failed, not_alone, ends) == LEFT[left]
    assert n == 1 + ends


@pytest.mark.parametrize("planted", _every_third(PLANTED))
@pytest.mark.sampled(2)
def test_a_planted_failure_is_reported(planted: str) -> None:
    seconds = 2 if "while" in planted else 60
    faults = in_one_thread(_SCRIPT.format(planted=planted, small=str(SMALL), seconds=seconds))
    assert len(faults) == 3
    assert all(fault.startswith(PLANTED[planted]) for fault in faults), faults


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["mutations", "commands"])
def test_a_few_mutations(kind: str) -> None:
    found = campaign(kind, "--cases", 3 if kind == "mutations" else 2, "--seed", 3)
    assert found["cases"] == (3 if kind == "mutations" else 2)
    assert found["failures"] == []


@pytest.mark.soak
def test_a_few_kills() -> None:
    found = campaign("kills", "--cases", 2, "--seed", 2)
    assert (found["cases"], found["failures"]) == (2, [])
    assert len({row["command"] for row in found["counts"]} & {"SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"}) == 2


@pytest.mark.soak
def test_a_few_instructions() -> None:
    found = campaign("instructions", "--cases", 4, "--seed", 1)
    assert (found["cases"], found["failures"]) == (4, [])


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to make guests")
@pytest.mark.soak
def test_a_few_resources() -> None:
    """A full disk, a removed output, too few descriptors, a guest that takes all descriptors."""
    numbers = [part for number in (4, 9, 42, 44) for part in ("--only", number)]
    found = campaign("resources", *numbers)
    assert (found["cases"], found["failures"]) == (4, [])


def test_all_scenarios_are_tried() -> None:
    assert KINDS_OF_CASES["resources"].cases == len(scenarios())


def files(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


@pytest.mark.parametrize("name", ["v1/tiny", "v1/timer", "v2/tiny", "v2/dma_race"])
def test_a_recording_is_put_together_as_it_was(name: str, tmp_path: Path) -> None:
    Sample.read(GOLDEN / name).copy().write(tmp_path / "rec")
    assert files(tmp_path / "rec") == files(GOLDEN / name)


def test_a_ring_that_was_never_put_together_is_taken_apart_as_it_was(tmp_path: Path) -> None:
    """And its intervals' manifests and beginnings are among what is changed."""
    make(HOW["unfinished ring"], tmp_path / "ring")
    sample = Sample.read(tmp_path / "ring")
    sample.copy().write(tmp_path / "rec")
    assert files(tmp_path / "rec") == files(tmp_path / "ring")
    assert len([name for name in sample.parts if name.endswith("base.json")]) > 2
    made = [mutate(sample.copy(), draw_of(4, number))[1] for number in range(200)]
    assert {"base.json", "manifest.json"} <= {
        Path(what.split(":")[0]).name for what in made if "intervals/" in what
    }


def test_cases_are_made_again_from_seed_and_number(tmp_path: Path) -> None:
    sample = {"small": Sample.read(SMALL)}
    for number in range(40):
        for turn in ("first", "second"):
            (tmp_path / f"{turn}-{number}").mkdir()
            Cases(sample, 7).make(number, tmp_path / f"{turn}-{number}")
        assert files(tmp_path / f"first-{number}") == files(tmp_path / f"second-{number}")
    assert Cases(sample, 7).chosen(5) == Cases(sample, 7).chosen(5)


def test_most_mutations_are_of_sound_files(tmp_path: Path) -> None:
    """Checksums are made right: what is opened is opened, and every kind is drawn."""
    sample, opened, kinds = Sample.read(SMALL), 0, set()
    for number in range(200):
        changed = sample.copy()
        kinds.add(mutate(changed, draw_of(11, number))[0])
        changed.write(tmp_path / str(number))
        with suppress(FormatError):
            opened += Recording.open(tmp_path / str(number)) is not None
    assert kinds >= set(KINDS) - {"order"}
    assert opened > 120


@pytest.mark.soak
def test_bombs_are_small_sound_and_say_much(tmp_path: Path) -> None:
    """Streams of a megabyte at most, whose headers are right, of a million records and more."""
    sample, whole, kinds, most = Sample.read(SMALL), 0, set(), 0
    for number in range(8):
        changed, path = sample.copy(), tmp_path / str(number)
        kinds.add(much(changed, draw_of(3, number))[0])
        changed.write(path)
        assert all((path / name).stat().st_size < 1_000_000 for name in changed.streams)
        with suppress(FormatError):
            opened = Recording.open(path)
            for name in changed.streams:
                frames = iter_frames(path / name, read_header(path / name))
                most = max(most, sum(frame.records for frame, _ in frames))
            whole += opened is not None
        shutil.rmtree(path)
    assert len(kinds - {"none"}) > 3
    assert whole > 4
    assert most > 1_000_000


def test_varints_are_taken_apart_and_put_together() -> None:
    for number in range(200):
        draw = draw_of(1, number)
        values = [draw.getrandbits(draw.randrange(1, 65)) for _ in range(draw.randrange(1, 30))]
        assert varints.split(varints.join(values)) == values
    assert varints.join([0, 127, 128, 300]) == bytes.fromhex("00 7f 80 01 ac 02")


def test_a_program_with_lines_tells_them() -> None:
    for ranges in (True, False):
        table = LineTable(with_lines(TINY.read_bytes(), ranges=ranges))
        assert (table.at(0x401000), table.at(0x401008)) == ("src/guest.c:1", "src/guest.c:4")


def test_guests_are_made_again_and_begin_alike() -> None:
    assert code_of("x") == code_of("x") != code_of("y")
    assert code_of("x")[:2] == b"\x48\xb8"


def test_evidence_is_known_by_its_files() -> None:
    assert evidence_of(Sample.read(SMALL)) == ()


def test_ends_are_judged() -> None:
    line = b"corebraid: what is wrong\n"
    assert fault_of(("info",), Ended(2, b"", line)) == ""
    assert fault_of(("verify",), Ended(1, b"", line * 20)) == ""
    assert "20 lines" in fault_of(("info",), Ended(2, b"", line * 20))
    assert "--json" in fault_of(("info", "--json"), Ended(0, b"{", b""))
    assert fault_of(("info",), Ended(3, b"x", line)).startswith("exit code 3")


def test_a_failure_is_told_with_the_command_that_makes_it_again() -> None:
    tally = Tally("mutations", 5)
    tally.add(12, "json", "info", "exit code 0", "")
    tally.add(13, "json", "info", "exit code 1", "time limit", "what")
    assert (tally.cases, len(tally.failures)) == (2, 1)
    assert any("python -m bench.hostile mutations --seed 5 --only 13" in line for line in tally.lines())
    assert json.loads(tally.facts())["cases"] == 2
