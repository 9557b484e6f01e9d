"""One core over Unicorn: its engine, private memory, registers, and what happens around a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from unicorn import unicorn_const as uc
from unicorn.unicorn_py3.unicorn import UcContext

from corebraid.base.host_memory import host_memory
from corebraid.base.memory import DEVICE_BASE, PAGE_BYTES
from emu.code.blocks import TAKEN_BACK, BlockTable
from emu.core.placed_hooks import PlacedHooks
from emu.core.running import (
    LATEST,
    flush_tlb,
    forget_code,
    forget_stale,
    read_registers,
    run_core,
    write_registers,
)
from emu.hooks.fill import on_fill
from emu.hooks.native_isa import InstructionHook
from emu.hooks.registry import native_isa
from emu.native.positions import Positions
from emu.native.state import CORE_AT, RUNNING, address_of, words_of
from emu.native.unicorn import add_hook, address_of_function
from isa.abi import LinuxAbi
from isa.decoded import Block
from isa.decoder import decoder_of, fault_decoder_of
from isa.table import Isa

#: Bytes of an instruction, with as many prefixes as make it illegal.
_MOST_CODE = 16
_ZERO = np.uint64(0)
_COUNT, _LATENCY = CORE_AT.count, CORE_AT.latency


class Core:
    """One emulated processor.

    row: this core's `CORE` row (a view; hooks see the same bytes). words: the same, faster (`CORE_AT`).
    memory, line_state, page_flags, page_rights: uint8 arrays over bytes, lines and pages of its private
    memory. dirty_pages: uint64[], whose first `CORE.dirty_n` are the pages that changed since the last
    digest.
    """

    def __init__(
        self, row: np.ndarray, isa: Isa, memory_bytes: int, line_bytes: int, fill: object = on_fill
    ) -> None:
        self.rows = row
        self.row = row[0]
        self.words = words_of(row)
        self.isa = isa
        self.pc = 0
        self.memory = host_memory(memory_bytes)
        self.line_state = host_memory(memory_bytes // line_bytes)
        self.page_flags = host_memory(memory_bytes // PAGE_BYTES)
        self.page_rights = host_memory(memory_bytes // PAGE_BYTES)
        self.dirty_pages = host_memory(8 * (memory_bytes // PAGE_BYTES + 1)).view(np.uint64)
        self._lost = np.zeros(4096, np.uint64)
        self._scratch = np.zeros(2, np.uint64)
        self.native = native_isa(isa)
        self._engine = self.native.new_engine(isa.revision)
        self._engine.mem_map_ptr(0, memory_bytes, uc.UC_PROT_ALL, address_of(self.memory))
        self._engine.ctl_set_tlb_mode(uc.UC_TLB_VIRTUAL)
        self.native.place_memory(self._engine, address_of(self.memory), memory_bytes, address_of(self.rows))
        handle = self._engine._uch
        self.handle = int(handle.value if hasattr(handle, "value") else handle)
        names = [register.name for register in isa.registers]
        self._register_ids = np.array([*map(self.native.register_number, names)], np.int32)
        self._register_offsets = np.array([*map(isa.offset, names), isa.context_bytes], np.int64)
        self._context = np.zeros(isa.context_bytes + 16, np.uint8)
        self._context_bytes = self._context.data
        self._pc_at = isa.offset(isa.program_counter)
        for name, value in (
            ("handle", self.handle),
            ("memory", address_of(self.memory)),
            ("memory_bytes", memory_bytes),
            ("line_state", address_of(self.line_state)),
            ("line_shift", line_bytes.bit_length() - 1),
            ("page_flags", address_of(self.page_flags)),
            ("page_rights", address_of(self.page_rights)),
            ("dirty_pages", address_of(self.dirty_pages)),
            ("lost", address_of(self._lost)),
            ("scratch", address_of(self._scratch)),
            ("entry_fetch", isa.entry_fetch),
            ("pc_register", self.native.register_number(isa.program_counter)),
            ("unaligned", isa.vectors.alignment + 1),
            ("forbidden", isa.vectors.general_protection + 1),
            ("invalid", isa.vectors.invalid_opcode + 1),
            ("stepped", isa.vectors.single_step + 1),
            ("plain_block", self.native.plain_block.address if self.native.plain_block else 0),
            ("stale_low", int(LATEST)),
            ("tlb", self.native.tlb(self._engine)),
            ("tlb_modes", self.native.tlb_modes),
        ):
            self.row[name] = value
        self._asked = 0
        #: It has met an instruction of its coprocessor.
        self.coprocessor = False
        self._before_due = b""
        self._page_end = 0
        self.placed = PlacedHooks(self.handle, address_of(row), self.native)
        self.blocks = BlockTable(row)
        self.add_hook(uc.UC_HOOK_TLB_FILL, fill)
        self._unharmed = self._engine.context_save()

    def add_hook(self, kind: int, callback: object, *extra: int) -> None:
        """Install a native hook whose user pointer is this core's row."""
        add_hook(self.handle, kind, callback, address_of(self.rows), *extra)

    def add_instruction_hooks(self, hooks: Iterable[InstructionHook]) -> None:
        """Install hooks on single instructions (`NativeIsa`)."""
        for hook in hooks:
            self.add_hook(uc.UC_HOOK_INSN, hook.callback, hook.instruction)

    def set_call_registers(self, abi: LinuxAbi) -> None:
        """Where system calls have their number and arguments, and where their result goes."""
        names = (abi.number, *abi.arguments, abi.result)
        self._call_registers = np.array([*map(self.native.register_number, names)], np.int64)
        self.row["call_registers"] = address_of(self._call_registers)

    def tell_of_accesses(self) -> None:
        """Its accesses to watched pages are rows of its trace from now on. Before the first run."""
        self.locate_when_asked()
        self.native.watch(self._engine, address_of(self.rows))
        self.row["forget_page"] = address_of_function(self.native.forget_page)
        self._unharmed = self._engine.context_save()

    def locate_when_asked(self) -> None:
        """The instruction that makes an access is found when a hook asks for it. Each hook on accesses has to
        forget in its end what was not asked, one that fills a page too; one on an instruction asks at once
        (`emu.native.positions.locate`)."""
        self._positions = Positions(self.rows)
        self.row["locate"] = address_of_function(self.native.locate)

    def try_stores(self) -> None:
        """Have the emulator store all of an operand or nothing."""
        self.native.try_stores(self._engine)

    def run_programs(self) -> None:
        """What runs here from now on are programs of an operating system."""
        self.native.run_programs(self._engine, self.isa.revision)
        self._unharmed = self._engine.context_save()

    def set_identity(self) -> None:
        """Let the processor say what it is from the ISA's table (a hook of `NativeIsa.calls`)."""
        self._identity = np.array(self.isa.identity, np.uint64)
        self.row["identity"], self.row["identity_n"] = address_of(self._identity), len(self._identity)

    def map_devices(self, page: NDArray[np.uint8]) -> None:
        """Let the core meet device registers. page: uint8[PAGE_BYTES], as it sees them."""
        self.map_plain_page(DEVICE_BASE, page)

    def map_plain_page(self, address: int, page: NDArray[np.uint8]) -> None:
        """Map a host page as it is (device registers while recording)."""
        self._engine.mem_map_ptr(address, len(page), uc.UC_PROT_READ | uc.UC_PROT_WRITE, address_of(page))

    @property
    def count(self) -> int:
        """The core's instruction count."""
        return self.words[_COUNT]

    @property
    def cycles(self) -> int:
        """Modelled cycles: one for each instruction, plus latencies and waiting."""
        words = self.words
        return words[_COUNT] + words[_LATENCY]

    def run(self, until: int = 0, *, renew: bool = False) -> int:
        """Run from the current pc until a hook stops it. Returns libunicorn's status. renew: STOP_STALE is
        dealt with."""
        began, rows, end = self.pc, self.rows, until
        if began < self._page_end <= began + PAGE_BYTES and not until:
            end = self._page_end
        self._page_end = 0
        status, pc = self._run(rows, np.uint64(began), np.uint64(end), renew)
        if end and not until:
            self.forget_code(began, end)
            if int(pc) == end and status == uc.UC_ERR_OK and self.words[CORE_AT.stop_reason] == RUNNING:
                status, pc = self._run(rows, np.uint64(pc), _ZERO, renew)
        self.pc = int(pc)
        return int(status)

    @cached_property
    def _run(self) -> Callable[..., tuple[int, int]]:
        called: Callable[..., tuple[int, int]] = run_core.like(self.rows, _ZERO, _ZERO, True)
        return called

    def ran_out_of_page(self) -> bool:
        """A fetch was refused. The emulator fetches a whole block before it runs any of it: whether
        instructions of it stand before the page that was refused. If so, the next `run` goes through them,
        to what will be refused then."""
        page = self.words[CORE_AT.fault_address] & -PAGE_BYTES
        if not self.pc < page < self.pc + PAGE_BYTES or page > len(self.memory):
            return False
        code = self.memory[self.pc : page].tobytes()
        block = decoder_of(self.isa).decode_block(code, self.pc)
        ends = [at for at in (block.unknown, *block.illegal) if at >= 0]
        self._page_end = self.pc + min(ends, default=len(code))
        if self._page_end == self.pc:
            self._page_end = 0
        return self._page_end > 0

    def learn_block(self) -> Block:
        """Decode the block at which the core stopped, and make it known."""
        address, size = self.words[CORE_AT.block_address], self.words[CORE_AT.block_size]
        if self.words[CORE_AT.doubtful]:
            self._judge(address)
        code = self.memory[address : address + size].tobytes()
        block = decoder_of(self.isa).decode_block(code, address)
        self.blocks.insert(address, code, block, self.page_flags)
        if block.coprocessor and self.isa.revision and not self.coprocessor:
            self.coprocessor = True
            self.native.load_coprocessor()
        for place in self.placed.place(address, block):
            self.forget_code(place, place + 1)
        return block

    def _judge(self, pc: int) -> None:
        """What the instruction at `pc`, broken off, had stored before its block was taken back: with what
        another one had, if one before it in the block stores."""
        doubtful, self.words[CORE_AT.doubtful] = self.words[CORE_AT.doubtful], 0
        address, code = self.blocks.before(doubtful, pc)
        if fault_decoder_of(self.isa).may_store(code, address):
            self.words[CORE_AT.own_code] |= TAKEN_BACK

    def was_misled(self) -> bool:
        """Whether a hook has stopped the core where what it was placed for stands no more (`PlacedHooks`). It
        is removed, and the core can go on."""
        unstable, refused = self.words[CORE_AT.unstable], self.placed.refused_at(self.pc)
        return bool(unstable and refused and self.remove_misplaced())

    def remove_misplaced(self) -> bool:
        """Remove the hooks where the core has stopped that were placed for what stands there no more. Returns
        whether there were any."""
        code = self.memory[self.pc : self.pc + _MOST_CODE].tobytes()
        misled = self.placed.remove_wrong(self.pc, decoder_of(self.isa).decode_block(code, self.pc))
        if misled:
            self.forget_code(self.pc, self.pc + 1)
        return misled

    def forget_stale(self) -> None:
        """Throw away translations whose code bytes have changed."""
        if self.words[CORE_AT.stale_high]:
            forget_stale(self.rows)

    def forget_code(self, low: int, high: int) -> None:
        """Throw away the translations of [low, high)."""
        forget_code(self.rows, np.uint64(low), np.uint64(high))

    def protect_again(self) -> None:
        """Start a new interval of dirty-page tracking."""
        flush_tlb(self.rows)

    def context(self) -> bytes:
        """The registers, as `Isa.registers` lays them out."""
        if self.coprocessor:
            self.native.settle_coprocessor(self._engine)
        read_registers(self.rows, self._register_ids, self._register_offsets, self._context)
        self._context_bytes[self._pc_at : self._pc_at + 8] = self.pc.to_bytes(8, "little")
        self.native.show_coprocessor(self.isa, self._context_bytes)
        return bytes(self._context_bytes[: self.isa.context_bytes])

    @property
    def approximated(self) -> int:
        """Which of `Isa.approximations` and `Isa.omissions` the core was asked for, a bit each."""
        own_code = self.isa.own_code_bits(self.words[CORE_AT.own_code])
        return self._asked | own_code | self.native.approximated(self._engine)

    def restore(self, context: bytes) -> None:
        """Set every register from a context header's block."""
        if self.coprocessor:
            self.native.settle_coprocessor(self._engine)
        self._context_bytes[: len(context)] = context
        write_registers(self.rows, self._register_ids, self._register_offsets, self._context)
        self._asked |= self.isa.omitted(context)
        self.pc = self.isa.read(context, self.isa.program_counter)

    def unlisted(self) -> tuple[int, ...]:
        """The registers that a context header does not hold (`NativeIsa.unlisted`)."""
        return tuple(int(self._engine.reg_read(number)) for number in self.native.unlisted)

    def restore_unlisted(self, values: Sequence[int]) -> None:
        """Set them."""
        for number, value in zip(self.native.unlisted, values, strict=True):
            self._engine.reg_write(number, value)

    def save_engine(self) -> UcContext:
        """All that the emulator has in registers."""
        return self._engine.context_save()

    def restore_engine(self, saved: UcContext) -> None:
        """Set it. What it has translated, and what of memory it has filled, stays."""
        self._engine.context_restore(saved)

    def forget_exception(self) -> int:
        """An exception is dealt with: the emulator would take the next one for a double fault. What it
        changes in registers is changed now: the instruction that failed with it is not replayed. Returns its
        error code."""
        context, self._asked = self.context(), self.approximated
        due, code = self.native.due(self._engine), self.native.fault_code(self._engine)
        unlisted = self.unlisted()
        self._engine.context_restore(self._unharmed)
        self.restore(context)
        self.restore_unlisted(unlisted)
        if due:
            self._before_due = context
            self.native.deliver(self._engine, due)
        return code

    def withdraw_exception(self) -> None:
        """Nobody was there to take the exception that was just dealt with, and nothing comes after the
        instruction that failed: what the exception has changed in registers is as it was."""
        context, self._before_due = self._before_due, b""
        if context and self.pc == self.isa.read(context, self.isa.program_counter):
            self.restore(context)

    def read_register(self, name: str) -> int:
        """One 64-bit register."""
        return int(self._engine.reg_read(self.native.register_number(name)))

    def write_register(self, name: str, value: int) -> None:
        """Set one 64-bit register."""
        self._engine.reg_write(self.native.register_number(name), value)
