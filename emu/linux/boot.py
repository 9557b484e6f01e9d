"""Putting a Linux guest together: file system, program, memory, process and kernel."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from corebraid.base.errors import ImageError
from corebraid.base.wording import Option, Phrase
from emu.linux.calls import table
from emu.linux.files.descriptors import Descriptors
from emu.linux.files.standard_streams import StandardInput, StandardOutput
from emu.linux.ground.clock import Clock, HostClock, VirtualClock
from emu.linux.ground.failure import Errno
from emu.linux.ground.limits import Limits
from emu.linux.guest import Guest
from emu.linux.kernel import Kernel
from emu.linux.loader import Executable, Loaded, load_process
from emu.linux.machine import LinuxMachine
from emu.linux.memory.address_space import AddressSpace
from emu.linux.memory.bus_memory import BusMemory
from emu.linux.program import MOST_SCRIPTS, found_by_env, parse_program, script_interpreter
from emu.linux.signals.of_process import ProcessSignals
from emu.linux.signals.timers import Alarms
from emu.linux.tasks.facts import Facts
from emu.linux.tasks.futex import Futexes
from emu.linux.tasks.process import Process
from emu.linux.tasks.task import Task
from emu.linux.tree.filesystem import Filesystem
from emu.linux.tree.root_spec import RootSpec
from isa.abi import PATH, LinuxAbi
from isa.registry import isa_of_machine
from isa.table import Isa

#: The process's identifier; those of threads follow.
_PID = 1000
#: File pages of program and interpreter that are there from the start, at most.
_EAGER_BYTES = 32 << 20

Sink = Callable[[bytes], None]


@dataclass(frozen=True)
class GuestSpec:
    """What is to run. program: a guest path. arguments: argv, program name included. memory: bytes that may
    be in use. isa: of the program. clock: "virtual" or "host". strict: unknown calls end the run."""

    program: str
    arguments: tuple[bytes, ...]
    environment: tuple[bytes, ...] = ()
    root: RootSpec = field(default_factory=RootSpec)
    memory: int = 2 << 30
    clock: str = "virtual"
    strict: bool = False
    input: bytes = b""
    isa: Isa = field(default_factory=lambda: isa_of_machine(None))


def boot(
    machine: LinuxMachine,
    abi: LinuxAbi,
    spec: GuestSpec,
    output: Sink,
    error: Sink,
    drain: Callable[[], None],
) -> Guest:
    """Load the program into the machine's home memory; its first task is ready. drain: empties the agents'
    rows. Raises ImageError, UsageError."""
    seed = machine.config.seed
    clock: Clock = VirtualClock() if spec.clock == "virtual" else HostClock()
    filesystem = Filesystem(spec.root, clock, random.Random(f"files/{seed}"))
    try:
        return _boot(machine, abi, spec, output, error, drain, clock, filesystem)
    except Errno as failure:
        filesystem.close()
        what = "it needs more memory than it may have" if failure.number == errno.ENOMEM else str(failure)
        raise ImageError(
            f"the program cannot be loaded ({what})",
            where=spec.program,
            remedy=Phrase("try more ", Option("memory")),
        ) from None
    except BaseException:
        filesystem.close()
        raise


def _boot(
    machine: LinuxMachine,
    abi: LinuxAbi,
    spec: GuestSpec,
    output: Sink,
    error: Sink,
    drain: Callable[[], None],
    clock: Clock,
    filesystem: Filesystem,
) -> Guest:
    seed, n_cores = machine.config.seed, machine.config.n_cores
    program, arguments = find_program(filesystem, spec.program, spec.arguments, machine.isa)
    interpreter = _find_interpreter(filesystem, program, machine.isa)
    space = AddressSpace(machine.config.memory_bytes, spec.memory)

    def store(address: int, data: bytes) -> None:
        machine.home[address : address + len(data)] = np.frombuffer(data, np.uint8)

    space.fill = store
    loaded = load_process(
        space, store, program, interpreter, arguments, spec.environment, abi, random.Random(f"stack/{seed}")
    )
    _bring_files(space)
    memory = BusMemory(machine, space, drain)
    tasks: dict[int, Task] = {}
    limits = Limits()
    signals = ProcessSignals(tasks, _PID, limits)
    facts = Facts(loaded.auxiliary, _PID, program.path, n_cores, spec.memory, clock)
    process = Process(
        abi=abi,
        isa=machine.isa,
        pid=_PID,
        name=os.path.basename(spec.program)[:15],
        executable=program.path,
        arguments=arguments,
        environment=spec.environment,
        n_cores=n_cores,
        random=random.Random(f"guest/{seed}"),
        clock=clock,
        memory=memory,
        space=space,
        filesystem=filesystem,
        descriptors=_standard_descriptors(spec.input, output, error, limits),
        limits=limits,
        futexes=Futexes(),
        signals=signals,
        alarms=Alarms(signals, facts.used),
        tasks=tasks,
        memory_limit=spec.memory,
        next_tid=_PID + 1,
    )
    facts.process = process
    filesystem.attach(facts)
    _first_task(process, loaded)
    kernel = Kernel(process, table.CALLS, spec.strict)
    return Guest(process, kernel, memory, facts, filesystem)


def _first_task(process: Process, loaded: Loaded) -> None:
    isa = process.isa
    context = bytes(isa.context_bytes)
    for name, value in (
        *isa.reset,
        (isa.flags_register, dict(isa.reset)[isa.flags_register] | isa.interrupt_enable),
        (isa.program_counter, loaded.entry),
        (isa.stack_pointer, loaded.stack_pointer),
    ):
        context = isa.with_register(context, name, value)
    process.tasks[process.pid] = Task(process.pid, process, context, (1 << process.n_cores) - 1)


def _standard_descriptors(given: bytes, output: Sink, error: Sink, limits: Limits) -> Descriptors:
    descriptors = Descriptors(limits)
    descriptors.add(StandardInput(given))
    descriptors.add(StandardOutput(output))
    descriptors.add(StandardOutput(error, error=True))
    return descriptors


def _bring_files(space: AddressSpace) -> None:
    """Program and interpreter are in memory before anything runs, unless they are very large."""
    left = _EAGER_BYTES
    for mapping in list(space.mappings):
        if mapping.file is None or not mapping.rights:
            continue
        size = min(mapping.end - mapping.start, max(0, left))
        left -= size
        space.reach(mapping.start, size, mapping.rights & -mapping.rights)


_REASONS = {
    errno.ENOENT: "there is no such program in the guest",
    errno.ENOTDIR: "there is no such program in the guest",
    errno.EACCES: "not an executable file (no execute permission)",
    errno.EISDIR: "a directory, not a program",
    errno.ELOOP: "too many symbolic links",
}


def find_program(
    filesystem: Filesystem, path: str, arguments: tuple[bytes, ...], isa: Isa
) -> tuple[Executable, tuple[bytes, ...]]:
    """The program to load and its arguments: of a script its interpreter's. Raises ImageError."""
    wanted_by = ""
    for _ in range(MOST_SCRIPTS + 1):
        try:
            resolved, raw, file = filesystem.read_program(path)
        except Errno as failure:
            what = _REASONS.get(failure.number, f"the program cannot be read ({failure})")
            if wanted_by:
                what = f"the interpreter of {wanted_by}: {what}"
            remedy = Phrase("check the path, or give it to the guest with ", Option("bind"), " HOST:GUEST")
            raise ImageError(what, where=path, remedy=remedy) from None
        script = script_interpreter(raw)
        if script is None:
            return Executable(resolved, raw, parse_program(raw, resolved, isa), file), arguments
        interpreter, argument = script
        if not interpreter:
            raise ImageError("a script that names no interpreter", where=path, remedy="write one behind #!")
        if (wanted := found_by_env(interpreter, argument)) is not None:
            interpreter, argument = _in_path(filesystem, wanted), ""
        more = [argument.encode("utf-8", "surrogateescape")] if argument else []
        called = arguments[0] if not wanted_by and arguments and b"/" in arguments[0] else b""
        name = called or path.encode("utf-8", "surrogateescape")
        arguments = (interpreter.encode("utf-8", "surrogateescape"), *more, name, *arguments[1:])
        wanted_by, path = f"the script {path}", interpreter
    raise ImageError("scripts that interpret each other", where=path, remedy="name the interpreter itself")


def _in_path(filesystem: Filesystem, name: str) -> str:
    """Where the guest has the program."""
    for directory in PATH.split(":"):
        try:
            filesystem.lookup(f"{directory}/{name}")
        except Errno:
            continue
        return f"{directory}/{name}"
    return name


def _find_interpreter(filesystem: Filesystem, program: Executable, isa: Isa) -> Executable | None:
    path = program.program.interpreter
    if not path:
        return None
    try:
        resolved, raw, file = filesystem.read_program(path)
    except Errno as failure:
        raise ImageError(
            f"the program's dynamic linker cannot be used ({_REASONS.get(failure.number, failure)})",
            where=f"{path}, named by {program.path}",
            remedy=Phrase("install it, or give it to the guest with ", Option("bind"), " HOST:GUEST"),
        ) from None
    return Executable(resolved, raw, parse_program(raw, resolved, isa), file)
