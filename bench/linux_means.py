"""The means of ours by which a Linux program is run and measured: a line of JSON for each."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path

from bench.linux_bare import run_bare_linux
from bench.linux_programs import OURS
from bench.programs import total_of
from corebraid.base.memory import ADDRESS_SPACE
from emu.bus.names import MESI, PAGE
from emu.linux.boot import GuestSpec
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64
from recorder.capture.guest import DEFAULT_MEMORY, LinuxOptions, guest_spec
from recorder.capture.linux import LinuxCapture
from recorder.capture.options import RecordOptions
from recorder.capture.strata_policy import STRATA_OF_LINES, STRATA_OF_PAGES
from recorder.files.constraints import LOSSES
from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay

Result = dict[str, float | int | str | None]

MANY_CORES = 4


def _drop(_: bytes) -> None:
    """What the guest says on standard error."""


def _bare(spec: GuestSpec, _: Path) -> Result:
    printed = hashlib.sha256()
    done = run_bare_linux(spec, X86_64, LINUX_X86_64, printed.update, _drop)
    return {"run": done.run, "exit": done.exit_code, "calls": done.calls, "printed": printed.hexdigest()}


def _record(cores: int, bus: str = PAGE) -> Callable[[GuestSpec, Path], Result]:
    strata = STRATA_OF_PAGES if bus == PAGE else STRATA_OF_LINES

    def record(spec: GuestSpec, folder: Path) -> Result:
        options = RecordOptions(
            cores=cores, seed=1, memory_bytes=ADDRESS_SPACE, bus=bus, strata=strata, evidence=(LOSSES,)
        )
        place = folder / f"{cores}-{bus}.rec"
        times: list[float] = []
        printed = hashlib.sha256()
        capture = LinuxCapture(spec, place, X86_64, LINUX_X86_64, options, printed.update, _drop)
        began = time.process_time()
        with capture.writer:
            outcome = capture.run(lambda _: times.append(time.process_time()))
        ended = time.process_time()
        manifest = outcome.manifest
        return {
            "run": times[-1] - began,
            "all": ended - began,
            "exit": outcome.end.exit_code,
            "printed": printed.hexdigest(),
            "instructions": sum(manifest.instructions),
            "calls": total_of(manifest, "calls"),
            "core_log": sum((place / f"core-{k}.log").stat().st_size for k in range(cores)),
            "agent_log": (place / "agent.log").stat().st_size,
            "whole": sum(path.stat().st_size for path in place.rglob("*") if path.is_file()),
        }

    return record


def _replay(cores: int, *, traced: bool) -> Callable[[GuestSpec, Path], Result]:
    def replay(_: GuestSpec, folder: Path) -> Result:
        recording = Recording.open(folder / f"{cores}-{PAGE}.rec")
        seconds = 0.0
        for core in range(cores):
            one = CoreReplay(recording, core, traced=traced)
            began = time.process_time()
            for _piece in one.run():
                pass
            seconds += time.process_time() - began
        return {"run": seconds, "instructions": sum(recording.manifest.instructions)}

    return replay


#: Everything that is measured in a process of ours, by name.
MEANS: dict[str, Callable[[GuestSpec, Path], Result]] = {
    "bare": _bare,
    "record, 1 core": _record(1),
    "replay, 1 core": _replay(1, traced=False),
    "traced replay, 1 core": _replay(1, traced=True),
    "record mesi, 1 core": _record(1, MESI),
    f"record, {MANY_CORES} cores": _record(MANY_CORES),
    f"replay, {MANY_CORES} cores": _replay(MANY_CORES, traced=False),
    f"traced replay, {MANY_CORES} cores": _replay(MANY_CORES, traced=True),
    f"record mesi, {MANY_CORES} cores": _record(MANY_CORES, MESI),
}


def spec_of(command: list[str]) -> GuestSpec:
    """What `corebraid record -- COMMAND` would run."""
    return guest_spec(
        Path(command[0]).absolute(), command[0], command[1:], DEFAULT_MEMORY, b"", LinuxOptions()
    )


def measure(folder: Path, names: list[str], command: list[str]) -> None:
    """Print a line for each means; each is warmed up on a small program, so that all kernels are loaded."""
    small, spec = spec_of([str(OURS / "mutexes")]), spec_of(command)
    warm = folder / "warm"
    warm.mkdir()
    for name in names:
        MEANS[name](small, warm)
    for name in names:
        try:
            result = MEANS[name](spec, folder)
        except Exception as failure:
            result = {"failure": str(failure)}
        print(json.dumps({"means": name, **result}), flush=True)
