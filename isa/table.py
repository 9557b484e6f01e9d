"""The shape of an instruction-set table. An ISA is data: a frozen `Isa`, not a subclass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Register:
    """One register of a context header: its name and its size in bytes there."""

    name: str
    size: int


@dataclass(frozen=True)
class Vectors:
    """Numbers of the processor exceptions that the emulator raises itself. single_step: after an instruction.
    double_fault: one while another is delivered. faults: those below are faults, but for traps, which come
    behind their instruction."""

    single_step: int
    invalid_opcode: int
    double_fault: int
    general_protection: int
    alignment: int
    faults: int
    traps: frozenset[int] = frozenset()

    def is_fault(self, number: int) -> bool:
        """Whether the instruction that fails with this exception has done nothing, and can be tried again."""
        return number < self.faults and number not in self.traps


@dataclass(frozen=True)
class Isa:
    """What the machine, the recorder and the exporters need to know of an instruction set.

    registers: the context header's layout, in the order in which they are stored and restored.
    arguments: registers that hold (core id, core count) when a firmware core starts.
    reset: (register, value) pairs that differ from zero when a core starts.
    red_zone: bytes below the stack pointer that an interrupt must not touch.
    interrupt_enable: the mask of the interrupt-enable bit in `flags_register`.
    entry_fetch: a one-byte instruction that ends a block; fills code lines not yet received.
    elf_machine, elf_machine_number: `e_machine` of its ELF files, as pyelftools calls it and as it is there.
    vectors, exceptions: numbers of processor exceptions, and what each is called.
    system_call: the instruction that asks a kernel for something.
    identity: what a Linux guest is told when it asks what processor this is, in rows of numbers that the
    ISA's own hook reads; none: it cannot ask.
    approximations: of kinds of instructions whose results differ from one processor to the next, their names.
    omissions: what a program can ask for and is not done. The emulator tells both by bits, in this order.
    omission_flags: (mask, name of an omission): a program asks for it by these bits of `flags_register`.
    own_code: names of omissions: what code that changes itself does, in the order of the bits of
    `emu.code.blocks`.
    refusals: numbers in the place of an exception's, and what a program did that is not emulated.
    revision: of what is computed. 0: whatever the emulator does; 1: results as the processor's; 2: its
    exception flags and faults too.
    """

    name: str
    elf_machine: str
    elf_machine_number: int
    registers: tuple[Register, ...]
    program_counter: str
    stack_pointer: str
    flags_register: str
    interrupt_enable: int
    red_zone: int
    arguments: tuple[str, str]
    reset: tuple[tuple[str, int], ...]
    entry_fetch: int
    vectors: Vectors
    exceptions: tuple[tuple[int, str], ...]
    system_call: str
    identity: tuple[tuple[int, ...], ...] = ()
    approximations: tuple[str, ...] = ()
    omissions: tuple[str, ...] = ()
    omission_flags: tuple[tuple[int, str], ...] = ()
    own_code: tuple[str, ...] = ()
    refusals: tuple[tuple[int, str], ...] = ()
    revision: int = 2

    @cached_property
    def context_bytes(self) -> int:
        """Size of a context header's register block, bytes."""
        return sum(register.size for register in self.registers)

    @cached_property
    def _layout(self) -> dict[str, tuple[int, int]]:
        """(offset, size) of every register in the context header."""
        layout, position = {}, 0
        for register in self.registers:
            layout[register.name] = (position, register.size)
            position += register.size
        return layout

    def offset(self, name: str) -> int:
        """Byte offset of register `name` in the context header. Raises KeyError."""
        return self._layout[name][0]

    def read(self, context: bytes, name: str) -> int:
        """The value of register `name` in the context header `context`."""
        start, size = self._layout[name]
        return int.from_bytes(context[start : start + size], "little")

    def omitted(self, context: bytes) -> int:
        """What the flags in `context` ask for and is not done: a bit each, as the emulator tells it."""
        named, found = self.approximations + self.omissions, 0
        for mask, name in self.omission_flags:
            if self.read(context, self.flags_register) & mask:
                found |= 1 << named.index(name)
        return found

    def own_code_bits(self, done: int) -> int:
        """The bits of `done`, one for each of `own_code`, as the emulator tells omissions."""
        named = self.approximations + self.omissions
        return sum(1 << named.index(name) for k, name in enumerate(self.own_code) if done >> k & 1)

    def with_register(self, context: bytes, name: str, value: int) -> bytes:
        """A copy of `context` in which register `name` holds `value`."""
        start, size = self._layout[name]
        return context[:start] + value.to_bytes(size, "little") + context[start + size :]
