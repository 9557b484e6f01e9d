"""What the design relies on in Unicorn 2.1.x, one small test a fact, by its plain Python interface.

A failure here means that the installed emulator behaves otherwise than the one that was measured, and
that what is built on the fact must be looked at again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
from unicorn import Uc, UcError
from unicorn import unicorn_const as uc
from unicorn import x86_const as x86

CODE, DATA = 0x1000, 0x8000
END = bytes.fromhex("f4")


class Guest:
    """An emulator with one page of code and eight of data, and lists of what its hooks saw."""

    def __init__(self, code: str, *, paged: bool = False, **registers: int) -> None:
        self.code = bytes.fromhex(code)
        self.engine = Uc(uc.UC_ARCH_X86, uc.UC_MODE_64)
        self.engine.ctl_set_cpu_model(x86.UC_CPU_X86_SANDYBRIDGE)
        self.engine.mem_map(CODE, 0x1000)
        self.engine.mem_map(DATA, 0x8000)
        self.engine.mem_write(CODE, self.code + END)
        if paged:
            self.engine.ctl_set_tlb_mode(uc.UC_TLB_VIRTUAL)
        self.seen: list[Any] = []
        for name, value in registers.items():
            self.engine.reg_write(getattr(x86, f"UC_X86_REG_{name.upper()}"), value)

    def hook(self, kind: int, callback: Callable[..., Any]) -> Guest:
        self.engine.hook_add(kind, callback)
        return self

    def watch(self, kinds: int = uc.UC_HOOK_MEM_READ | uc.UC_HOOK_MEM_WRITE) -> Guest:
        return self.hook(
            kinds, lambda engine, kind, address, size, value, user: self.seen.append((kind, address, size))
        )

    def blocks(self) -> Guest:
        return self.hook(
            uc.UC_HOOK_BLOCK, lambda engine, address, size, user: self.seen.append((address - CODE, size))
        )

    def run(self, begin: int = CODE, until: int = 0) -> Guest:
        self.engine.emu_start(begin, until)
        return self

    def register(self, name: str) -> int:
        return int(self.engine.reg_read(getattr(x86, f"UC_X86_REG_{name.upper()}")))

    def word(self, address: int = DATA) -> int:
        return int.from_bytes(self.engine.mem_read(address, 8), "little")


R, W = uc.UC_MEM_READ, uc.UC_MEM_WRITE


def test_page_fill_precedes_the_memory_hook_and_names_the_page() -> None:
    guest = Guest("48 8b 06  48 89 06", paged=True, rsi=DATA + 0x10)

    def fill(engine: Uc, address: int, access: int, entry: Any, user: Any) -> bool:
        guest.seen.append(("fill", access, address))
        entry.paddr = address & ~0xFFF
        entry.perms = uc.UC_PROT_READ | uc.UC_PROT_EXEC
        if access == W:
            entry.perms |= uc.UC_PROT_WRITE
        return True

    guest.hook(uc.UC_HOOK_TLB_FILL, fill).watch().run()
    data = [event for event in guest.seen if event[0] != "fill" or event[1] != uc.UC_MEM_FETCH]
    assert data == [("fill", R, DATA), (R, DATA + 0x10, 8), ("fill", W, DATA), (W, DATA + 0x10, 8)]


def test_a_page_given_for_reading_alone_asks_for_its_first_fetch() -> None:
    guest = Guest("ff e6", paged=True, rsi=DATA, rdi=DATA)
    guest.engine.mem_write(CODE, bytes.fromhex("48 8b 07 ff e6"))
    guest.engine.mem_write(DATA, END)

    def fill(engine: Uc, address: int, access: int, entry: Any, user: Any) -> bool:
        guest.seen.append((access, address))
        entry.paddr = address & ~0xFFF
        entry.perms = uc.UC_PROT_READ | (uc.UC_PROT_EXEC if access == uc.UC_MEM_FETCH else 0)
        return True

    guest.hook(uc.UC_HOOK_TLB_FILL, fill).run()
    assert guest.seen == [(uc.UC_MEM_FETCH, CODE), (R, DATA), (uc.UC_MEM_FETCH, DATA)]


def test_a_refused_fill_ends_the_run_at_the_instruction() -> None:
    guest = Guest("90 48 8b 06", paged=True, rsi=DATA)

    def fill(engine: Uc, address: int, access: int, entry: Any, user: Any) -> bool:
        entry.paddr, entry.perms = address & ~0xFFF, uc.UC_PROT_ALL
        return access == uc.UC_MEM_FETCH

    guest.hook(uc.UC_HOOK_TLB_FILL, fill).watch()
    with pytest.raises(UcError) as error:
        guest.run()
    assert error.value.errno == uc.UC_ERR_EXCEPTION
    assert guest.register("rip") == CODE + 1
    assert guest.seen == []


def test_a_store_across_pages_reaches_the_memory_hook_before_the_second_page_is_asked_for() -> None:
    guest = Guest(
        "48 89 06",
        paged=True,
        rsi=DATA + 0xFFC,
    )

    def fill(engine: Uc, address: int, access: int, entry: Any, user: Any) -> bool:
        entry.paddr, entry.perms = address & ~0xFFF, uc.UC_PROT_ALL
        return address & ~0xFFF != DATA + 0x1000

    guest.hook(uc.UC_HOOK_TLB_FILL, fill).watch()
    with pytest.raises(UcError):
        guest.run()
    assert guest.seen == [(W, DATA + 0xFFC, 8)]
    assert guest.word(DATA + 0xFF8) == 0


def test_block_hook_fires_again_after_a_stop_in_it() -> None:
    guest = Guest("48 ff c0")
    guest.blocks().hook(
        uc.UC_HOOK_BLOCK, lambda engine, *_: engine.emu_stop() if len(guest.seen) == 1 else None
    )
    guest.run()
    assert (guest.register("rip"), guest.register("rax")) == (CODE, 0)
    guest.run()
    assert guest.register("rax") == 1
    assert guest.seen == [(0, 4), (0, 4)]


def test_stop_in_a_read_hook_takes_the_instruction_back() -> None:
    guest = Guest("48 ff c0  48 03 06  48 ff c0", rsi=DATA)
    guest.engine.mem_write(DATA, b"\5")
    guest.watch().hook(uc.UC_HOOK_MEM_READ, lambda engine, *_: engine.emu_stop())
    guest.run()
    assert (guest.register("rip"), guest.register("rax")) == (CODE + 3, 1)


def test_stop_in_a_write_hook_rolls_back_registers_but_not_memory() -> None:
    guest = Guest("48 ff c0  50  48 ff c0", rsp=DATA + 0x100)
    guest.hook(uc.UC_HOOK_MEM_WRITE, lambda engine, *_: engine.emu_stop())
    guest.run()
    assert (guest.register("rip"), guest.register("rsp")) == (CODE + 3, DATA + 0x100)
    assert guest.word(DATA + 0xF8) == 1


@pytest.mark.parametrize("code", ["0f ae 06", "db 3e"], ids=["fxsave", "fstp tbyte"])
def test_a_helper_runs_to_its_end_and_the_stop_takes_hold_at_the_next_access(code: str) -> None:
    length = len(bytes.fromhex(code))
    guest = Guest(f"{code}  48 ff c0  48 8b 16  48 ff c0", rsi=DATA)
    stops = []

    def stop(engine: Uc, *_: Any) -> None:
        if not stops:
            stops.append(engine.reg_read(x86.UC_X86_REG_RIP))
            engine.emu_stop()

    guest.watch().hook(uc.UC_HOOK_MEM_WRITE, stop).run()
    assert stops == [CODE]
    assert len([event for event in guest.seen if event[0] == W]) >= 2, guest.seen
    assert (guest.register("rip"), guest.register("rax")) == (CODE + length + 3, 1)


def test_the_flags_after_cmpxchg16b_depend_on_where_its_block_begins() -> None:
    """All flags but ZF come from an instruction before the block, unless it begins one: it must."""
    flags = []
    for between in ("", "eb 00"):
        guest = Guest(f"48 83 c1 01  {between}  f0 48 0f c7 0e", rsi=DATA, rcx=2).run()
        flags.append(guest.register("rflags") & 0x8D5)
    assert flags[0] & 0x40 == flags[1] & 0x40 == 0x40
    assert flags[1] == 0x44
    assert flags[0] != flags[1]


def test_a_stop_in_a_code_hook_begins_a_block_there_with_the_flags_stored() -> None:
    guest = Guest("48 83 c1 01  f0 48 0f c7 0e", rsi=DATA, rcx=2).blocks()

    def split(engine: Uc, address: int, *_: Any) -> None:
        if guest.seen[-1][0] != address - CODE:
            engine.emu_stop()

    guest.engine.hook_add(uc.UC_HOOK_CODE, split, None, CODE + 4, CODE + 4)
    guest.run()
    assert (guest.register("rip"), guest.register("rflags") & 0x8D5) == (CODE + 4, 0x04)
    guest.run(CODE + 4)
    assert guest.seen == [(0, 10), (4, 6)]
    assert guest.register("rflags") & 0x8D5 == 0x44


def test_the_code_behind_a_code_hook_spoils_the_flags_of_cmpxchg16b_unless_the_hook_writes_them() -> None:
    flags = []
    for write in (True, False):
        guest = Guest("48 83 c1 01  eb 00  f0 48 0f c7 0e", rsi=DATA, rcx=2)

        def settle(engine: Uc, *_: Any, write: bool = write) -> None:
            if write:
                engine.reg_write(x86.UC_X86_REG_RFLAGS, engine.reg_read(x86.UC_X86_REG_RFLAGS))

        guest.engine.hook_add(uc.UC_HOOK_CODE, settle, None, CODE + 6, CODE + 6)
        flags.append(guest.run().register("rflags") & 0x8D5)
    assert flags[0] == 0x44
    assert flags[1] != 0x44


def test_until_ends_the_translation_and_it_must_be_thrown_away_before_and_after() -> None:
    code = "48 ff c0  48 ff c0  48 ff c0  f4"
    guest = Guest(code).blocks().run()
    guest.seen.clear()
    guest.run(until=CODE + 3)
    before = guest.seen[-1]
    guest.engine.ctl_remove_cache(CODE, CODE + 10)
    guest.seen.clear()
    guest.engine.reg_write(x86.UC_X86_REG_RAX, 0)
    guest.run(until=CODE + 3)
    assert (guest.register("rip"), guest.register("rax")) == (CODE + 3, 1)
    assert guest.seen == [(0, 3)]
    guest.engine.ctl_remove_cache(CODE, CODE + 10)
    guest.seen.clear()
    guest.run()
    assert guest.seen == [(0, 10)], before


def test_a_store_into_its_own_block_shows_as_a_block_of_one_instruction() -> None:
    # mov [rip + 1], cl; nop; add al, 1 (its constant is patched); hlt
    guest = Guest("88 0d 02 00 00 00  90  04 01", rcx=0x41).blocks().watch(uc.UC_HOOK_MEM_WRITE).run()
    assert guest.register("rax") == 0x41
    block, write = (0, 10), (W, CODE + 8, 1)
    assert guest.seen == [block, write, (0, 6), write, (6, 4)]


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_repeated_string_instruction_enters_a_block_for_each_iteration(n: int) -> None:
    guest = Guest("90 f3 a4", rsi=DATA, rdi=DATA + 0x100, rcx=n).blocks().run()
    assert guest.seen == [(0, 3), *[(1, 2)] * n, (3, 1)]


@pytest.mark.parametrize(
    ("code", "events"),
    [
        ("f0 48 ff 06", [(R, 0, 8), (W, 0, 8)]),
        ("87 06", [(R, 0, 4), (W, 0, 4)]),
        ("f0 48 0f b1 16", [(R, 0, 8), (W, 0, 8)]),
        ("f0 48 f7 1e", [(R, 0, 8), (R, 0, 8), (W, 0, 8)]),
        ("f0 48 0f c7 0e", [(R, 0, 8), (R, 8, 8), (W, 0, 8), (W, 8, 8)]),
        ("0f 10 06", [(R, 0, 8), (R, 8, 8)]),
        ("db 2e", [(R, 0, 8), (R, 8, 2)]),
    ],
    ids=["lock inc", "xchg", "cmpxchg fails", "lock neg", "cmpxchg16b", "movups", "fld tbyte"],
)
def test_accesses_of(code: str, events: list[tuple[int, int, int]]) -> None:
    guest = Guest(code, rsi=DATA, rax=0 if "c7" in code else 7).watch().run()
    assert guest.seen == [(kind, DATA + offset, size) for kind, offset, size in events]


@pytest.mark.parametrize("address", [DATA + 0x3D, DATA + 0xFFD])
def test_an_access_across_lines_or_pages_is_one_event(address: int) -> None:
    guest = Guest("48 8b 06  48 89 06", rsi=address).watch().run()
    assert guest.seen == [(R, address, 8), (W, address, 8)]


def test_what_a_read_hook_writes_is_what_the_load_sees() -> None:
    guest = Guest("48 8b 06", rsi=DATA)
    guest.hook(uc.UC_HOOK_MEM_READ, lambda engine, *_: engine.mem_write(DATA, b"\7")).run()
    assert guest.register("rax") == 7


def test_mmio_reads_come_in_pieces_of_at_most_four_bytes() -> None:
    guest = Guest("48 8b 06  8b 0e", rsi=0x20010)
    pieces: list[tuple[int, int]] = []

    def read(engine: Uc, offset: int, size: int, user: Any) -> int:
        pieces.append((offset, size))
        return offset

    guest.engine.mmio_map(0x20000, 0x1000, read, None, None, None)
    guest.run()
    assert pieces == [(0x10, 4), (0x14, 4), (0x10, 4)]
    assert guest.register("rax") == 0x14_0000_0010


def test_the_processor_model_has_rdtscp_and_no_rdrand() -> None:
    assert Guest("0f 01 f9").run().register("rip") > CODE
    for code in ("0f c7 f0", "48 0f c7 f8"):
        guest = Guest(f"90 {code}")
        with pytest.raises(UcError) as error:
            guest.run()
        assert error.value.errno == uc.UC_ERR_INSN_INVALID
        assert guest.register("rip") == CODE + 1


def test_illegal_instructions_are_not_told_to_the_interrupt_hook() -> None:
    guest = Guest("0f 0b")
    guest.hook(uc.UC_HOOK_INTR, lambda engine, number, user: guest.seen.append(number))
    with pytest.raises(UcError) as error:
        guest.run()
    assert (error.value.errno, guest.seen) == (uc.UC_ERR_INSN_INVALID, [])


@pytest.mark.parametrize(
    ("code", "number", "after"),
    [("48 f7 f1", 0, 0), ("cc", 3, 1), ("cd 80", 0x80, 2)],
    ids=["div", "int3", "int"],
)
def test_exceptions_arrive_in_the_interrupt_hook(code: str, number: int, after: int) -> None:
    guest = Guest(code)

    def interrupt(engine: Uc, found: int, user: Any) -> None:
        guest.seen.append(found)
        engine.emu_stop()

    guest.hook(uc.UC_HOOK_INTR, interrupt).run()
    assert guest.seen == [number]
    assert guest.register("rip") == CODE + after


def test_an_unhooked_system_call_is_skipped_silently() -> None:
    guest = Guest("0f 05 48 ff c0", rcx=5).run()
    assert (guest.register("rax"), guest.register("rcx")) == (1, 5)


def test_a_vex_instruction_is_computed_as_its_sse_twin() -> None:
    """vpaddq xmm0, xmm1, xmm2 must not read xmm0; here it adds two registers, not three."""
    guest = Guest("c5 f1 d4 c2", xmm0=1, xmm1=16, xmm2=256).run()
    assert guest.register("xmm0") != 16 + 256


def test_bytes_changed_from_outside_leave_a_stale_translation_until_it_is_removed() -> None:
    guest = Guest("b0 01").run()
    memory = (ctypes.c_ubyte * 0x1000)()
    engine = Uc(uc.UC_ARCH_X86, uc.UC_MODE_64)
    engine.mem_map_ptr(CODE, 0x1000, uc.UC_PROT_ALL, ctypes.addressof(memory))
    memory[0:3] = guest.code + END
    engine.emu_start(CODE, 0)
    memory[1] = 2
    engine.emu_start(CODE, 0)
    assert engine.reg_read(x86.UC_X86_REG_AL) == 1
    engine.ctl_remove_cache(CODE + 1, CODE + 2)
    engine.emu_start(CODE, 0)
    assert engine.reg_read(x86.UC_X86_REG_AL) == 2
