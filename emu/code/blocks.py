"""Which instructions a translated block holds: a hash table from (address, size), one for each core.

Unicorn's block hook names a block by address and size; instruction counts need the number of
instructions in it, and a memory hook the position of its pc. A slot is two words: the key, and an entry
that packs all that the hot path needs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import carray, njit
from corebraid.base.golden_ratio import GOLDEN
from emu.code.broken_off import keep_before, put_before
from emu.native.positions import BEFORE, ENTRY, known_position
from emu.native.recursion import hear_again, runs_again
from emu.native.state import CODE, CORE_AT, PAGE_SHIFT, UNSTABLE, WRITTEN, address_of, words_of
from emu.native.unicorn import peek8, peek16, peek64, pointer, row_getter
from isa.decoded import Block

#: Bits of an entry: VALID always; ENDS_RUN, REPEATS, FRAMES: see `isa.x86_64.decode.Block`; then the number
#: of instructions (16 bits) and the row in the table of infos (32 bits).
VALID, ENDS_RUN, REPEATS, FRAMES = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(8)
N_SHIFT, _N_MASK, ROW_SHIFT = np.uint64(8), np.uint64(0xFFFF), np.uint64(32)

#: An instruction's entry in the offset pool: its byte offset, and whether it is atomic, helped and rewrites
#: (`isa.decoded.Block`).
ATOMIC, HELPED, REWRITES = np.uint16(0x8000), np.uint16(0x4000), np.uint16(0x2000)
OFFSET_MASK = np.uint16(0x1FFF)

#: Bits of a core's `own_code`: a repeated instruction went on as what it had stored over itself; what an
#: instruction had stored before its block was taken back with what a later one of the block, broken off, had.
BECAME_ANOTHER, TAKEN_BACK = 1, 2

#: One known block. `first` indexes the pool of instruction offsets, `code` the pool of code bytes.
INFO = np.dtype([("address", "<u8"), ("size", "<u8"), ("first", "<u8"), ("code", "<u8"), ("n", "<u8")])

#: `position` when the emulator did not restart the block.
_NOT = np.uint64(0xFFFFFFFFFFFFFFFF)

_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)
_KEY_SHIFT, _SLOT_SHIFT = np.uint64(16), np.uint64(4)
INFO_BYTES = np.uint64(INFO.itemsize)

info_at = row_getter(INFO)


@njit(cache=True, inline="always")
def block_key(address, size):
    """A block's key. Blocks lie below 2**48 and are shorter than 2**16 bytes, so it is unique."""
    return (address << _KEY_SHIFT) | size


@njit(cache=True)
def find_slot(table, mask, shift, key):
    """Address of the slot that holds `key`, or of the empty one where it belongs. table: an address."""
    slot = (key * GOLDEN) >> shift
    while True:
        found = peek64(table + (slot << _SLOT_SHIFT))
        if found in (key, _ZERO):
            return table + (slot << _SLOT_SHIFT)
        slot = (slot + _ONE) & mask


@njit(cache=True, inline="always")
def instructions_of(entry):
    """Number of instructions of the block with this entry."""
    return (entry >> N_SHIFT) & _N_MASK


@njit(cache=True)
def block_info(core):
    """The INFO row of the block that runs (`core.entered`)."""
    return info_at(core.infos + (core.entered >> ROW_SHIFT) * INFO_BYTES)


@njit(cache=True)
def instruction_offset(core, info, k):
    """Offset-pool entry of the block's instruction `k`."""
    return peek16(core.offsets + ((info.first + k) << _ONE))


@njit(cache=True)
def _same_code(core, entry):
    info = info_at(core.infos + (entry >> ROW_SHIFT) * INFO_BYTES)
    for k in range(info.size):
        if peek8(core.memory + info.address + k) != peek8(core.code_bytes + info.code + k):
            return False
    return True


@njit(cache=True)
def _on_unstable_page(core, address, size):
    first = peek8(core.page_flags + (address >> PAGE_SHIFT))
    last = peek8(core.page_flags + ((address + size - _ONE) >> PAGE_SHIFT))
    return ((first | last) & np.uint8(UNSTABLE)) != np.uint8(0)


@njit(cache=True)
def mark_unstable(core, page):
    """A page that has been executed from may change, or has changed: compare its blocks from here on."""
    carray(pointer(core.page_flags), np.int64(page) + 1, np.uint8)[page] |= np.uint8(UNSTABLE)
    core.unstable = _ONE
    if core.entered != _ZERO:
        address = block_info(core).address
        if core.before_of != address:
            keep_before(core, address)


@njit(cache=True)
def _bring_home(core, key, slot):
    """Swap an entry with the one at the slot where its search begins, so that `probe` finds it next time.

    All slots between are taken, so a search for the other one still reaches it.
    """
    home = core.table + (((key * GOLDEN) >> core.key_shift) << _SLOT_SHIFT)
    if home != slot:
        here = carray(pointer(slot), 2, np.uint64)
        there = carray(pointer(home), 2, np.uint64)
        for k in range(2):
            here[k], there[k] = there[k], here[k]


@njit(cache=True)
def find_block(core, address, size):
    """The block's entry; 0 when it must be decoded first (or its bytes have changed since)."""
    key = block_key(address, size)
    slot = find_slot(core.table, core.key_mask, core.key_shift, key)
    entry = peek64(slot + _EIGHT)
    if entry != _ZERO:
        _bring_home(core, key, slot)
    if entry == _ZERO or core.unstable == _ZERO or not _on_unstable_page(core, address, size):
        return entry
    return entry if _same_code(core, entry) else _ZERO


@njit(cache=True)
def position_of(core, pc):
    """How many instructions of the current block precede `pc`; all of them when pc has left it."""
    info = block_info(core)
    if pc < info.address or pc >= info.address + info.size:
        return info.n
    offset = pc - info.address
    for k in range(info.n):
        if np.uint64(instruction_offset(core, info, k) & OFFSET_MASK) >= offset:
            return np.uint64(k)
    return info.n


@njit(cache=True)
def position_here(core, pc):
    """`position_of` inside a hook on an access, of the instruction that makes it. pc: its, by `read_pc`."""
    if core.unlocated == _ZERO:
        return position_of(core, pc)
    row, _ = known_position(core)
    if row[ENTRY] != core.entered:
        row[ENTRY], row[BEFORE] = core.entered, position_of(core, pc)
    return row[BEFORE]


@njit(cache=True)
def _restarted(core, address, size):
    """Position at which the emulator broke the block off to run one instruction again, or _NOT.

    A store into the block that executes it makes QEMU restart that store as a block of its own; seen from
    the hooks, a one-instruction block inside the previous one that nothing branched to; where the last one
    may branch to itself, the emulator's own note of it tells.
    """
    info = block_info(core)
    if address < info.address or address >= info.address + info.size:
        return _NOT
    if not _on_unstable_page(core, info.address, info.size):
        return _NOT
    k = position_of(core, address)
    start = np.uint64(instruction_offset(core, info, k) & OFFSET_MASK)
    end = info.size
    if k + _ONE < info.n:
        end = np.uint64(instruction_offset(core, info, k + _ONE) & OFFSET_MASK)
    if start != address - info.address or end - start != size:
        return _NOT
    last = k + _ONE == info.n and (core.entered & (ENDS_RUN | REPEATS)) != _ZERO
    return _NOT if last and not runs_again(core.handle, address) else k


@njit(cache=True)
def _became_another(core, address):
    """Whether the repeated instruction at `address`, which the block that runs ends with, is another one now:
    it has more to do, and has stored over itself."""
    info = block_info(core)
    start = np.uint64(instruction_offset(core, info, info.n - _ONE) & OFFSET_MASK)
    if address != info.address + start:
        return False
    for k in range(start, info.size):
        if peek8(core.memory + info.address + k) != peek8(core.code_bytes + info.code + k):
            return True
    return False


@njit(cache=True)
def account(core, address, size):
    """Add the previous block's instructions to the count, now that the block at `address` is entered.

    Returns True when the run of instructions ended with it.
    """
    entry = core.entered
    if entry == _ZERO:
        return False
    if core.unstable != _ZERO:
        k = _restarted(core, address, size)
        if k != _NOT:
            size = hear_again(core.handle)
            info = block_info(core)
            if instruction_offset(core, info, k) & REWRITES != np.uint16(0):
                changed = put_before(core, info.address, size)
                where = entry ^ address
                if changed and k != _ZERO and core.judged != where:
                    core.doubtful, core.judged = entry, where
            core.count += k
            core.entered = _ZERO
            return False
        if (entry & REPEATS) != _ZERO and _became_another(core, address):
            core.own_code |= np.uint64(BECAME_ANOTHER)
    core.entered = _ZERO
    core.count += instructions_of(entry)
    return (entry & ENDS_RUN) != _ZERO


@njit(cache=True, inline="always")
def probe(core, address, size):
    """The block's entry if it is known, found at first look and sure to be unchanged; else 0: `find_block`
    has the answer. Short, as it runs for every block."""
    key = block_key(address, size)
    slot = core.table + (((key * GOLDEN) >> core.key_shift) << _SLOT_SHIFT)
    entry = peek64(slot + _EIGHT)
    if peek64(slot) != key or core.unstable != _ZERO:
        entry = _ZERO
    return entry


@njit(cache=True)
def _fill_table(table, shift, infos, entries):
    """Enter blocks into the hash table (uint64[slots, 2]). infos: INFO[n]. entries: uint64[n]."""
    mask = np.uint64(table.shape[0] - 1)
    for k in range(infos.size):
        key = block_key(infos[k].address, infos[k].size)
        slot = (key * GOLDEN) >> shift
        while table[slot, 0] != key and table[slot, 0] != _ZERO:
            slot = (slot + _ONE) & mask
        table[slot, 0] = key
        table[slot, 1] = entries[k]


class BlockTable:
    """The block table of one core. core: its CORE[1].

    Hooks enter plain blocks by themselves (`emu.code.plain_blocks`) while there is room; `insert` is called
    from outside hooks only.
    """

    def __init__(self, core: NDArray[np.void]) -> None:
        self._words = words_of(core)
        self._infos = np.zeros(1024, INFO)
        self._entries = np.zeros(1024, np.uint64)
        self._offsets = np.zeros(8192, np.uint16)
        self._bytes = np.zeros(32768, np.uint8)
        self._resize(4096)

    def _resize(self, slots: int) -> None:
        words = self._words
        self._table = np.zeros((slots, 2), np.uint64)
        words[CORE_AT.key_mask] = slots - 1
        words[CORE_AT.key_shift] = shift = 64 - (slots.bit_length() - 1)
        words[CORE_AT.table] = address_of(self._table)
        known = words[CORE_AT.known]
        _fill_table(self._table, np.uint64(shift), self._infos[:known], self._entries[:known])
        self._bind()

    def last_instruction(self) -> int | None:
        """Address of the last instruction of the block that the core left last; None: it has left none."""
        left = self._words[CORE_AT.left]
        if not left:
            return None
        info = self._infos[left >> int(ROW_SHIFT)]
        last = self._offsets[int(info["first"]) + int(info["n"]) - 1] & OFFSET_MASK
        return int(info["address"]) + int(last)

    def before(self, entry: int, pc: int) -> tuple[int, bytes]:
        """(address, code) of the instructions before `pc` in the block with this entry."""
        info = self._infos[entry >> int(ROW_SHIFT)]
        address, first = int(info["address"]), int(info["code"])
        return address, self._bytes[first : first + pc - address].tobytes()

    def _bind(self) -> None:
        words = self._words
        words[CORE_AT.infos], words[CORE_AT.entries] = address_of(self._infos), address_of(self._entries)
        words[CORE_AT.offsets], words[CORE_AT.code_bytes] = address_of(self._offsets), address_of(self._bytes)
        words[CORE_AT.known_limit] = min(len(self._infos), len(self._table) // 2)
        words[CORE_AT.offsets_limit], words[CORE_AT.code_limit] = len(self._offsets), len(self._bytes)

    def _reserve(self, instructions: int, code: int) -> None:
        words = self._words
        known = words[CORE_AT.known]
        first, length = words[CORE_AT.offsets_n] + instructions, words[CORE_AT.code_n] + code
        if known < len(self._infos) and first <= len(self._offsets) and length <= len(self._bytes):
            return
        while known >= len(self._infos):
            self._infos = np.concatenate([self._infos, np.zeros_like(self._infos)])
            self._entries = np.concatenate([self._entries, np.zeros_like(self._entries)])
        while first > len(self._offsets):
            self._offsets = np.concatenate([self._offsets, np.zeros_like(self._offsets)])
        while length > len(self._bytes):
            self._bytes = np.concatenate([self._bytes, np.zeros_like(self._bytes)])
        self._bind()

    def insert(self, address: int, code: bytes, block: Block, page_flags: np.ndarray) -> None:
        """Make the block known. `page_flags`: uint8 flags of this core's pages, updated."""
        words, n = self._words, len(block.offsets)
        # A hook asks for one offset a byte, since it does not know yet how many it needs.
        self._reserve(len(code), len(code))
        known, first, at = words[CORE_AT.known], words[CORE_AT.offsets_n], words[CORE_AT.code_n]
        flags = int(VALID) | int(ENDS_RUN) * block.ends_run | int(REPEATS) * block.repeats
        flags |= int(FRAMES) * block.frames
        self._entries[known] = flags | n << int(N_SHIFT) | known << int(ROW_SHIFT)
        self._infos[known] = (address, len(code), first, at, n)
        pool = np.array(block.offsets, np.uint16)
        if block.atomic:
            pool[list(block.atomic)] |= ATOMIC
        if block.helped:
            pool[list(block.helped)] |= HELPED
        if block.rewrites:
            pool[list(block.rewrites)] |= REWRITES
        self._offsets[first : first + n] = pool
        self._bytes[at : at + len(code)] = np.frombuffer(code, np.uint8)
        words[CORE_AT.known], words[CORE_AT.offsets_n], words[CORE_AT.code_n] = (
            known + 1,
            first + n,
            at + len(code),
        )
        if (known + 1) * 2 > len(self._table):
            self._resize(len(self._table) * 2)
        else:
            last, shift = slice(known, known + 1), np.uint64(words[CORE_AT.key_shift])
            _fill_table(self._table, shift, self._infos[last], self._entries[last])
        for page in {address >> 12, (address + len(code) - 1) >> 12}:
            page_flags[page] |= CODE
            if page_flags[page] & WRITTEN:
                page_flags[page] |= UNSTABLE
                words[CORE_AT.unstable] = 1
