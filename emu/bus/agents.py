"""Agents on the bus that are not cores: the DMA engine and the writer of interrupt frames.

What an agent writes reaches a core as an ordinary miss; its own accesses are logged whole, as `EVENT`
rows of the stream after the last core's.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.rows.event import READ, WRITE, Access
from emu.bus.agent_log import log_agent
from emu.bus.lines import claim
from emu.native.state import PAGE_SHIFT, RIGHT_EXECUTE, RIGHT_READ, RIGHT_WRITE
from emu.native.unicorn import pointer

#: Why an agent made an access; in the `pc` field of its events, since an agent has no program counter.
CAUSE_DMA, CAUSE_INTERRUPT = 1, 2

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_EIGHT = np.uint64(8)
#: A page that the image covers; a DMA engine knows no more of it.
_ANY = RIGHT_EXECUTE | RIGHT_WRITE | RIGHT_READ


@njit(cache=True)
def _home_word(machine, address):
    return carray(pointer(machine.home + address), 1, np.uint64)


@njit(cache=True)
def agent_read(cores, machine, address, cause):
    """Read the aligned 8-byte word at `address` through the bus."""
    shift = cores[0].line_shift
    _, flags = claim(cores, machine, address >> shift, False)
    value = _home_word(machine, address)[0]
    log_agent(machine, len(cores), Access(READ, address, 8, value, value), cause, flags)
    return value


@njit(cache=True)
def agent_write(cores, machine, address, value, cause):
    """Write the aligned 8-byte word at `address` through the bus: every core loses the line."""
    shift = cores[0].line_shift
    _, flags = claim(cores, machine, address >> shift, True)
    word = _home_word(machine, address)
    log_agent(machine, len(cores), Access(WRITE, address, 8, word[0], value), cause, flags)
    word[0] = value


@njit(cache=True)
def _reachable(cores, address, rights):
    """Inside RAM, aligned, on a page with one of these rights."""
    if address & np.uint64(7) != _ZERO or address >= cores[0].memory_bytes:
        return False
    pages = carray(pointer(cores[0].page_rights), np.int64(cores[0].memory_bytes >> PAGE_SHIFT), np.uint8)
    return (pages[address >> PAGE_SHIFT] & np.uint8(rights)) != np.uint8(0)


@njit(cache=True)
def reachable(cores, address):
    """Whether a word may be copied from or to `address`: inside RAM, aligned, on a page of the image."""
    return _reachable(cores, address, _ANY)


@njit(cache=True)
def step_dma(cores, machines, words):
    """Copy up to `words` words of the running transfer; words outside the image's pages are left out.

    cores: CORE[n]. machines: MACHINE[1]. Returns the number of words moved.
    """
    machine = machines[0]
    moved = 0
    while moved < words and machine.dma_left >= _EIGHT and machine.agent_n < machine.agent_limit:
        if _reachable(cores, machine.dma_source, _ANY) and _reachable(cores, machine.dma_target, _ANY):
            value = agent_read(cores, machine, machine.dma_source, CAUSE_DMA)
            agent_write(cores, machine, machine.dma_target, value, CAUSE_DMA)
        machine.dma_source += _EIGHT
        machine.dma_target += _EIGHT
        machine.dma_left -= _EIGHT
        moved += 1
    return moved


@njit(cache=True)
def write_frame(cores, machines, address, first, second):
    """The two words of an interrupt frame. False when they do not lie in writable memory."""
    machine = machines[0]
    for k in range(2):
        if not _reachable(cores, address + np.uint64(8 * k), RIGHT_WRITE):
            return False
    agent_write(cores, machine, address, first, CAUSE_INTERRUPT)
    agent_write(cores, machine, address + _EIGHT, second, CAUSE_INTERRUPT)
    return True
