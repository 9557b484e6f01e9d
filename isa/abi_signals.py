"""What differs by instruction set in how Linux delivers signals. Data only."""

from __future__ import annotations

from dataclasses import dataclass

from isa.layout import Layout


@dataclass(frozen=True)
class FloatImage:
    """How a signal frame stores floating-point and vector registers.

    size, alignment: of the image, bytes. boundary: its address must be a multiple of it. registers: offset of
    every register that is stored whole.
    tags: (the x87 tag word's register, offset of its byte): one bit a physical register, set if it is in use.
    status: the register that holds the top of the x87 stack. stack: the x87 registers from the top on.
    control: (register, bits that it may have). constants: (offset, size, value) of what never changes.
    initial: registers that are not 0 when a handler starts.
    """

    size: int
    alignment: int
    boundary: int
    registers: dict[str, int]
    tags: tuple[str, int]
    status: str
    stack: tuple[str, ...]
    control: tuple[str, int]
    constants: tuple[tuple[int, int, int], ...]
    initial: dict[str, int]


@dataclass(frozen=True)
class Selector:
    """A segment register in a frame, and what the processor has to say of it when a handler returns.

    field: of the frame's layout. own: the one that programs have. strict: a bit of the frame's `uc_flags`,
    without which any other is taken for it; 0: there is none. untold: a bit of those of which the error code
    tells nothing. unsupported: what is not emulated, by selector.
    """

    field: str
    own: int
    strict: int = 0
    untold: int = 0
    unsupported: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class SignalFrame:
    """The frame that a handler runs on (`struct rt_sigframe`).

    layout: its fields other than the general registers. registers: offset of every general register. info,
    context: offsets of what the handler's second and third arguments point to. alignment: (n, k): the frame
    lies k bytes below a multiple of n. constants: fields that never change. arguments: registers of the
    handler's arguments. result: a register that is 0 at its entry. restored_flags: bits that a return takes
    from the frame. cleared_flags: bits that are 0 at a handler's entry. returned: bytes that the
    handler's own return took from the stack. floats: the registers to which the field `fpstate` points.
    selectors: in the order in which they are looked at. privilege: bits that a return sets in each.
    """

    layout: Layout
    registers: dict[str, int]
    info: int
    context: int
    alignment: tuple[int, int]
    constants: dict[str, int]
    arguments: tuple[str, str, str]
    result: str
    restored_flags: int
    cleared_flags: int
    returned: int
    floats: FloatImage
    selectors: tuple[Selector, ...] = ()
    privilege: int = 0


@dataclass(frozen=True)
class FaultSignal:
    """What a processor exception becomes. code: si_code, or 0: as the floating-point status tells.

    addressed: si_addr is the instruction's address.
    """

    signal: int
    code: int
    addressed: bool


@dataclass(frozen=True)
class FloatStatus:
    """Where a floating-point exception tells what is wrong: bits of the register `raised` whose mask, `shift`
    bits higher in the register `masked`, is 0."""

    raised: str
    masked: str
    shift: int


@dataclass(frozen=True)
class SignalAbi:
    """Signals on one instruction set.

    action: `struct kernel_sigaction`. exceptions: by the processor's number. page_fault: the number of that
    for bad accesses, whose signal depends on why. address_bits: those of an address; the bits above them
    repeat the highest. no_address, no_stack: the exceptions for an address where they do not, of data and as
    the stack is addressed; None: there are none. fault_flag: a bit of the flags in the frame of what is to be
    tried again. debug, asked_debug: a debugger's exception, and what one becomes that was asked for. traps:
    exceptions that come after their instruction. program_end: of addresses from there on programs do not
    learn whether anything is there.
    float_status: by the number of an exception whose code is 0. float_codes: (bits there, si_code), the first
    counts.
    """

    action: Layout
    frame: SignalFrame
    exceptions: dict[int, FaultSignal]
    page_fault: int
    address_bits: int
    no_address: int | None
    no_stack: int | None
    fault_flag: int
    debug: int
    asked_debug: FaultSignal
    traps: tuple[int, ...]
    program_end: int
    float_status: dict[int, FloatStatus]
    float_codes: tuple[tuple[int, int], ...]
