"""Which instructions a translated block holds: a hash table from (address, size), one for each core.

Unicorn's block hook names a block by address and size; instruction counts need the number of
instructions in it, and a memory hook the position of its pc.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from emu.native import pointer
from emu.state import CODE, PAGE_SHIFT, UNSTABLE, WRITTEN, address_of
from isa.decode import Block

ENDS_RUN = np.uint8(1)
REPEATS = np.uint8(2)

#: An instruction's entry in the offset pool: its byte offset, and whether it is atomic.
ATOMIC = np.uint16(0x8000)
OFFSET_MASK = np.uint16(0x7FFF)

#: One known block. `first` indexes the pool of instruction offsets, `code` the pool of code bytes.
INFO = np.dtype(
    [("address", "<u8"), ("size", "<u4"), ("first", "<u4"), ("code", "<u4"), ("n", "<u2"), ("flags", "u1")]
)

#: `find_block` when the block is not known (or its bytes have changed).
UNKNOWN = np.uint64(0xFFFFFFFFFFFFFFFF)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
_KEY_SHIFT = np.uint64(16)


@njit(cache=True)
def key_of(address, size):
    """Blocks lie below 2**48 and are shorter than 2**16 bytes, so a key is unique."""
    return (address << _KEY_SHIFT) | size


@njit(cache=True)
def find_slot(keys, mask, shift, key):
    """The slot that holds `key`, or the empty one where it belongs."""
    slot = (key * _GOLDEN) >> shift
    while keys[slot] != np.uint64(0) and keys[slot] != key:
        slot = (slot + _ONE) & mask
    return slot


@njit(cache=True)
def block_info(core, index):
    """Row `index` of the core's block table."""
    return carray(pointer(core.infos), np.int64(index) + 1, INFO)[np.int64(index)]


@njit(cache=True)
def _same_code(core, info):
    memory = carray(pointer(core.memory), np.int64(core.memory_bytes), np.uint8)
    code = carray(pointer(core.code_bytes), np.int64(info.code) + np.int64(info.size), np.uint8)
    start, base = np.int64(info.address), np.int64(info.code)
    for k in range(np.int64(info.size)):
        if memory[start + k] != code[base + k]:
            return False
    return True


@njit(cache=True)
def find_block(core, address, size):
    """Table row of the block, UNKNOWN when it must be decoded first."""
    keys = carray(pointer(core.keys), np.int64(core.key_mask) + 1, np.uint64)
    key = key_of(address, size)
    slot = find_slot(keys, core.key_mask, core.key_shift, key)
    if keys[slot] != key:
        return UNKNOWN
    index = carray(pointer(core.values), np.int64(core.key_mask) + 1, np.uint64)[slot]
    flags = carray(pointer(core.page_flags), np.int64(core.memory_bytes >> PAGE_SHIFT), np.uint8)
    last = address + size - _ONE
    touched = flags[address >> PAGE_SHIFT] | flags[last >> PAGE_SHIFT]
    if (touched & np.uint8(UNSTABLE)) != np.uint8(0):
        if not _same_code(core, block_info(core, index)):
            return UNKNOWN
    return index


@njit(cache=True)
def position_of(core, pc):
    """How many instructions of the current block precede `pc`; all of them when pc has left it."""
    info = block_info(core, core.block)
    n = np.int64(info.n)
    offsets = carray(pointer(core.offsets), np.int64(info.first) + n, np.uint16)
    if pc < info.address or pc >= info.address + np.uint64(info.size):
        return np.uint64(n)
    offset = pc - info.address
    for k in range(n):
        if np.uint64(offsets[np.int64(info.first) + k] & OFFSET_MASK) >= offset:
            return np.uint64(k)
    return np.uint64(n)


@njit(cache=True)
def _restarted(core, info, address, size):
    """Position at which the emulator broke the block off to run one instruction again, or UNKNOWN.

    A store into the block that executes it makes QEMU restart that store as a block of its own; seen from
    the hooks, a one-instruction block inside the previous one that nothing branched to.
    """
    if address < info.address or address >= info.address + np.uint64(info.size):
        return UNKNOWN
    n = np.int64(info.n)
    offsets = carray(pointer(core.offsets), np.int64(info.first) + n, np.uint16)
    k = np.int64(position_of(core, address))
    start = np.uint64(offsets[np.int64(info.first) + k] & OFFSET_MASK)
    end = np.uint64(info.size)
    if k + 1 < n:
        end = np.uint64(offsets[np.int64(info.first) + k + 1] & OFFSET_MASK)
    if start != address - info.address or end - start != size:
        return UNKNOWN
    if k == n - 1 and (info.flags & (ENDS_RUN | REPEATS)) != np.uint8(0):
        return UNKNOWN
    return np.uint64(k)


@njit(cache=True)
def account(core, address, size):
    """Add the previous block's instructions to the count, now that the block at `address` is entered.

    Returns True when the run of instructions ended with it.
    """
    if core.entered == np.uint64(0):
        return False
    core.entered = np.uint64(0)
    info = block_info(core, core.block)
    flags = carray(pointer(core.page_flags), np.int64(core.memory_bytes >> PAGE_SHIFT), np.uint8)
    if (flags[info.address >> PAGE_SHIFT] & np.uint8(UNSTABLE)) != np.uint8(0):
        k = _restarted(core, info, address, size)
        if k != UNKNOWN:
            core.count += k
            return False
    core.count += np.uint64(info.n)
    return (info.flags & ENDS_RUN) != np.uint8(0)


class BlockTable:
    """The block table of one core; `insert` is called from outside hooks only."""

    def __init__(self, core: np.void) -> None:
        self._core = core
        self._known = 0
        self._first = 0
        self._code = 0
        self._infos = np.zeros(1024, INFO)
        self._offsets = np.zeros(8192, np.uint16)
        self._bytes = np.zeros(32768, np.uint8)
        self._resize(4096)

    def _resize(self, slots: int) -> None:
        self._keys = np.zeros(slots, np.uint64)
        self._values = np.zeros(slots, np.uint64)
        self._core["key_mask"] = slots - 1
        self._core["key_shift"] = 64 - (slots.bit_length() - 1)
        for index in range(self._known):
            self._put(index)
        self._bind()

    def _bind(self) -> None:
        for name, array in (
            ("keys", self._keys),
            ("values", self._values),
            ("infos", self._infos),
            ("offsets", self._offsets),
            ("code_bytes", self._bytes),
        ):
            self._core[name] = address_of(array)

    def _put(self, index: int) -> None:
        info = self._infos[index]
        key = np.uint64(int(info["address"]) << 16 | int(info["size"]))
        slot = find_slot(self._keys, self._core["key_mask"], self._core["key_shift"], key)
        self._keys[slot], self._values[slot] = key, index

    def insert(self, address: int, code: bytes, block: Block, page_flags: np.ndarray) -> None:
        """Make the block known. `page_flags`: uint8 flags of this core's pages, updated."""
        while self._known >= len(self._infos):
            self._infos = np.concatenate([self._infos, np.zeros_like(self._infos)])
        while self._first + len(block.offsets) > len(self._offsets):
            self._offsets = np.concatenate([self._offsets, np.zeros_like(self._offsets)])
        while self._code + len(code) > len(self._bytes):
            self._bytes = np.concatenate([self._bytes, np.zeros_like(self._bytes)])
        flags = int(ENDS_RUN) * block.ends_run | int(REPEATS) * block.repeats
        self._infos[self._known] = (
            address, len(code), self._first, self._code, len(block.offsets), flags
        )  # fmt: skip
        pool = np.array(block.offsets, np.uint16)
        pool[list(block.atomic)] |= ATOMIC
        self._offsets[self._first : self._first + len(pool)] = pool
        self._bytes[self._code : self._code + len(code)] = np.frombuffer(code, np.uint8)
        self._first += len(block.offsets)
        self._code += len(code)
        self._known += 1
        self._put(self._known - 1)
        if self._known * 2 > len(self._keys):
            self._resize(len(self._keys) * 2)
        self._bind()
        for page in {address >> 12, (address + len(code) - 1) >> 12}:
            page_flags[page] |= CODE | (UNSTABLE if page_flags[page] & WRITTEN else 0)
