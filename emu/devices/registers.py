"""Device registers (firmware/include/machine.h), as kernels that memory hooks call."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.random_bits import next_random
from emu.bus.sync_points import ENTER, note_left, note_sync
from emu.devices.mailbox import MAIL_AWAIT, MAIL_END, MAIL_FIRST, MAIL_POST, MAIL_TAKE, mail_read, mail_write
from emu.devices.one_sided import FIRST as ONE_SIDED_FIRST
from emu.devices.one_sided import LAST as ONE_SIDED_LAST
from emu.devices.one_sided import RMA_GET, RMA_OUTSTANDING, RMA_PUT, one_sided_read, one_sided_write
from emu.native.unicorn import pointer

#: The registers' offsets in their page.
CONSOLE_TX, CONSOLE_RX, POWER_OFF = np.uint64(0x00), np.uint64(0x08), np.uint64(0x10)
CORE_ID, CORE_COUNT, CYCLES, RANDOM = np.uint64(0x18), np.uint64(0x20), np.uint64(0x28), np.uint64(0x30)
TIMER_PERIOD, INT_HANDLER, INT_CAUSE = np.uint64(0x40), np.uint64(0x48), np.uint64(0x50)
IPI_SEND = np.uint64(0x58)
DMA_SRC, DMA_DST, DMA_LEN = np.uint64(0x80), np.uint64(0x88), np.uint64(0x90)
DMA_START, DMA_STATUS = np.uint64(0x98), np.uint64(0xA0)

#: Bits of INT_CAUSE.
CAUSE_TIMER, CAUSE_IPI = np.uint64(1), np.uint64(2)

_ZERO = np.uint64(0)
_LONGEST_PERIOD = np.uint64(1 << 40)
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(cache=True)
def _next_input(machine):
    if machine.input_next >= machine.input_n:
        return _ALL
    data = carray(pointer(machine.input), np.int64(machine.input_n), np.uint8)
    value = np.uint64(data[np.int64(machine.input_next)])
    machine.input_next += _ONE
    return value


@njit(cache=True)
def _has_come(register, value):
    """Whether an answer tells a core that something is there for it: a transfer has ended, a message came."""
    if register in (MAIL_TAKE, MAIL_AWAIT):
        return value != _ZERO
    return register in (DMA_STATUS, RMA_OUTSTANDING) and value == _ZERO


@njit(cache=True)
def _sets_off(register):
    """Whether a write makes an agent, or by way of one another core, do something."""
    return register in (IPI_SEND, DMA_START, MAIL_POST, RMA_PUT, RMA_GET)


@njit(cache=True)
def device_read(core, machine, register):
    """What the register answers; an unknown or write-only register reads 0. The instruction that asks is the
    one before `core.shared_at`."""
    value = _ZERO
    if register == CONSOLE_RX:
        value = _next_input(machine)
    elif register == CORE_ID:
        value = core.core_id
    elif register == CORE_COUNT:
        value = core.n_cores
    elif register == CYCLES:
        value = core.count + core.latency
    elif register == RANDOM:
        machine.random, value = next_random(machine.random)
    elif register == INT_CAUSE:
        value = core.cause
        core.cause = _ZERO
    elif register == DMA_STATUS:
        value = machine.dma_left
    elif MAIL_FIRST <= register < MAIL_END:
        value = mail_read(core, machine, register)
    elif ONE_SIDED_FIRST <= register <= ONE_SIDED_LAST:
        value = one_sided_read(core, machine, register)
    if _has_come(register, value):
        note_left(core, machine, core.shared_at)
    return value


@njit(cache=True)
def _put_character(machine, value):
    if machine.console_n < machine.console_limit:
        console = carray(pointer(machine.console), np.int64(machine.console_limit), np.uint8)
        console[np.int64(machine.console_n)] = np.uint8(value & np.uint64(0xFF))
        machine.console_n += _ONE
        if machine.console_n >= machine.console_limit >> _ONE:
            machine.attention = _ONE


@njit(cache=True)
def device_write(core, cores, machine, register, value):
    """Act on a write to a device register; unknown and read-only registers ignore it. The instruction that
    writes is the one before `core.shared_at`."""
    if _sets_off(register):
        note_sync(machine, core.core_id, core.shared_at, ENTER, 0)
    if register == CONSOLE_TX:
        _put_character(machine, value)
    elif register == POWER_OFF:
        if machine.power == _ZERO:
            machine.power = _ONE
            machine.attention = _ONE
            machine.exit_code = value & np.uint64(0xFF)
    elif register == TIMER_PERIOD:
        # A period past the end of time is none; a core's clock must not run over.
        if value >= _LONGEST_PERIOD:
            value = _ZERO
        core.timer_period = value
        core.timer_due = core.count + core.latency + value
        machine.timers = _ONE
    elif register == INT_HANDLER:
        core.handler = value
    elif register == IPI_SEND:
        if value < core.n_cores:
            cores[np.int64(value)].pending |= CAUSE_IPI
            machine.interrupts = _ONE
    elif register == DMA_SRC:
        machine.dma_source = value
    elif register == DMA_DST:
        machine.dma_target = value
    elif register == DMA_LEN:
        machine.dma_length = value
    elif register == DMA_START:
        machine.dma_left = machine.dma_length & ~np.uint64(7)
    elif MAIL_FIRST <= register < MAIL_END:
        mail_write(core, machine, register, value)
    elif ONE_SIDED_FIRST <= register <= ONE_SIDED_LAST:
        one_sided_write(core, machine, register, value)
