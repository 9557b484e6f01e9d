"""Runs a checkout's command line on the cases, and notes a digest of everything that comes out."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.same_bytes.cases import GUESTS, STDIN, BadInput, Case

#: Bytes of a file under one short digest, which tells where two files differ.
BLOCK = 1024
#: What `--json` says that differs from run to run: how long it took, and where the recording lies.
CHANGING = ("seconds", "recording")
#: `order` has what it needs, so that no answer depends on how busy the machine is.
_REGION_SECONDS, _COMMAND_SECONDS = "100000", 900
#: Started with the interpreter of the version that is run.
_WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True)
class Answer:
    """What one command did. code: its exit code, or what ended it otherwise."""

    code: int | str
    out: str
    err: str


#: Runs `corebraid ARGUMENTS...`.
Command = Callable[..., Answer]


@dataclass(frozen=True)
class Tool:
    """One version of corebraid. source: its checkout. python: an interpreter with what that needs. place:
    where guests lie and commands run, since a Linux guest knows its path and its directory."""

    source: Path
    python: Path
    place: Path

    def check(self) -> None:
        """Raises BadInput where the checkout is none, or the interpreter does not run it."""
        if not (self.source / "corebraid").is_dir():
            raise BadInput(f"{self.source} is no checkout of corebraid: check --source")
        where = "import corebraid; print(list(corebraid.__path__)[0])"
        try:
            with self._start("-c", where) as process:
                out, err = process.communicate()
        except OSError as error:
            raise BadInput(f"{self.python} cannot be run ({error.strerror}): check --python") from None
        if process.returncode or Path(out.strip()).resolve() != (self.source / "corebraid").resolve():
            said = last_line(out) if out.strip() else last_line(err)
            raise BadInput(f"{self.python} does not run the corebraid of {self.source}: {said}")

    @contextmanager
    def commands(self) -> Iterator[Command]:
        """A function that runs `corebraid ARGUMENTS...`, several in one process."""
        with self._start(str(_WORKER)) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            asked, answers = process.stdin, process.stdout

            def run(*arguments: str | Path) -> Answer:
                end = threading.Timer(_COMMAND_SECONDS, process.kill)
                end.start()
                try:
                    asked.write(json.dumps([str(argument) for argument in arguments]) + "\n")
                    asked.flush()
                    line = answers.readline()
                except BrokenPipeError:
                    line = ""
                finally:
                    end.cancel()
                if not line:
                    return Answer("no answer", "", f"it died, or took more than {_COMMAND_SECONDS} s")
                return Answer(**json.loads(line))

            try:
                yield run
            finally:
                process.kill()

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        # No hash seed of the caller's: what depends on one must show.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
        return subprocess.Popen(
            [str(self.python), "-P", *arguments],
            cwd=self.place,
            env={**environment, "PYTHONPATH": str(self.source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@contextmanager
def place_for(path: Path, firmware: Path) -> Iterator[Path]:
    """A folder with the guests, while nobody else has it. Raises BadInput."""
    locked = path.with_name(path.name + ".lock")
    ours = locked.exists()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not ours and any(path.iterdir()):
            raise BadInput(f"{path} is not empty: choose another --place")
        lock = locked.open("w")
    except OSError as error:
        raise BadInput(f"{path} cannot be used ({error.strerror}): choose another --place") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"another run has {path}: wait for it, or choose another --place") from None
        shutil.rmtree(path / "guests", ignore_errors=True)
        try:
            shutil.copytree(firmware / GUESTS, path / "guests")
            for file in (path / "guests").rglob("*"):
                os.utime(file, (0, 0))
            yield path
        finally:
            shutil.rmtree(path / "guests", ignore_errors=True)


def make(tool: Tool, cases: list[Case], firmware: Path, jobs: int) -> tuple[dict[str, Any], list[str]]:
    """(case -> what was noted of it, what failed). Says on stderr how it goes."""
    noted: dict[str, Any] = {}
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="same-bytes-") as text, ThreadPoolExecutor(jobs) as pool:
        folder = Path(text)
        (folder / "input").write_bytes(STDIN)
        (folder / "nothing").write_bytes(b"")
        makings = [
            _Making(tool, case, firmware, folder, folder / str(number)) for number, case in enumerate(cases)
        ]
        works = [pool.submit(making.run) for making in makings]
        try:
            for done, (making, work) in enumerate(zip(makings, works, strict=True), 1):
                seconds, name = work.result(), making.case.name
                noted[name] = {"command": making.case.command, "files": making.files}
                failures += [f"{name}: {line}" for line in making.failed]
                print(f"{done}/{len(cases)} {name}: {seconds:.1f} s", file=sys.stderr, flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
    return noted, failures


@dataclass
class _Making:
    """One case being made in a folder of its own. files: what was noted so far. failed: commands that did."""

    tool: Tool
    case: Case
    firmware: Path
    inputs: Path
    folder: Path
    files: dict[str, Any] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def run(self) -> float:
        """Record, order by every engine, and note; returns seconds."""
        began = time.monotonic()
        self.folder.mkdir()
        with self.tool.commands() as command:
            self._record(command)
            if not self.failed:
                held = files_of(self.folder / "recording")
                self.files |= {name: entry_of(file) for name, file in held.items()}
                for engine in self.case.engines:
                    self._order(command, engine, set(held))
                if self.case.crossed:
                    how = ("--engines", self.case.crossed, "--region-timeout", _REGION_SECONDS)
                    self._note(command, "crosscheck", *how)
        shutil.rmtree(self.folder)
        return time.monotonic() - began

    def _record(self, command: Command) -> None:
        case, printed = self.case, self.folder / "printed"
        program = self.tool.place / "guests" / case.short if case.linux else self.firmware / case.program
        given = self.inputs / ("input" if case.short == "input_echo" else "nothing")
        where = ("-o", self.folder / "recording", "--input", given, "--output", printed, "--json")
        self._take("record", command("record", *where, *case.options, program, *case.arguments))
        if not self.failed:
            self.files["printed"] = entry_of(printed)

    def _order(self, command: Command, engine: str, held: set[str]) -> None:
        """Order by one engine. held: names of the files that the recording had before."""
        how = ("--engine", engine, "--region-timeout", _REGION_SECONDS, "--jobs", "1", "--fresh")
        self._note(command, "order", *how, name=f"order --engine {engine}")
        if engine == "auto" and self.case.verified:
            self._note(command, "verify", "--jobs", "1")
        for name, file in files_of(self.folder / "recording").items():
            if name not in held:
                self.files[f"{name} --engine {engine}"] = entry_of(file)
                file.unlink()

    def _note(self, command: Command, what: str, *options: str, name: str = "") -> None:
        self._take(name or what, command(what, self.folder / "recording", "--json", *options))

    def _take(self, name: str, answer: Answer) -> None:
        self.files[f"{name} --json"] = facts_of(answer)
        # 3: the guest failed, as some are meant to; 1: no legal order, or wrong, which is a result.
        if answer.code not in (0, 1, 3) or not answer.out:
            self.failed.append(f"{name} ends with {answer.code}: {last_line(answer.err)}")


def files_of(folder: Path) -> dict[str, Path]:
    """Every file below a folder, by its path in it."""
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}


def entry_of(file: Path) -> dict[str, Any]:
    """What is noted of a file: bytes, sha256, blocks (a short digest of every BLOCK bytes), and of JSON its
    fields, so that a difference has a name."""
    raw = file.read_bytes()
    entry = _digests(raw)
    if file.suffix == ".json":
        entry["fields"] = json.loads(raw)
    return entry


def facts_of(answer: Answer) -> dict[str, Any]:
    """What is noted of a command's --json: as of a file, without CHANGING, and with its exit code."""
    try:
        said = json.loads(answer.out)
    except ValueError:
        said = last_line(answer.out)
    fields = {"exit": answer.code, "said": _lasting(said)}
    return {**_digests(json.dumps(fields).encode()), "fields": fields}


def _digests(raw: bytes) -> dict[str, Any]:
    blocks = (raw[at : at + BLOCK] for at in range(0, len(raw), BLOCK))
    short = [hashlib.blake2b(block, digest_size=4).hexdigest() for block in blocks]
    return {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest(), "blocks": " ".join(short)}


def _lasting(said: Any) -> Any:
    if isinstance(said, list):
        return [_lasting(value) for value in said]
    if not isinstance(said, dict):
        return said
    kept = {name: _lasting(value) for name, value in said.items() if name not in CHANGING}
    if isinstance(path := kept.get("certificate"), str):
        kept["certificate"] = Path(path).name
    return kept


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = text.split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
