"""What a recording's cores did with their mailboxes and the console, from their isolated replays.

Every access to a device register is in a core's traced replay. This needs no evidence, so that a re-execution
which followed the evidence can be judged by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.memory import DEVICE_BASE, PAGE_BYTES
from corebraid.base.rows.event import EVENT, UNCACHED, WRITE
from emu.devices.mail_state import ANSWERED, MAIL_EVENT, POSTED, RECEIVED, REPLY, REQUEST, TESTED
from emu.devices.mailbox import (
    MAIL_AWAIT,
    MAIL_END,
    MAIL_FIRST,
    MAIL_FROM,
    MAIL_ID,
    MAIL_OUT,
    MAIL_POST,
    MAIL_TAKE,
    MAIL_TEST,
)
from emu.devices.registers import CONSOLE_RX, CONSOLE_TX
from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay

Rows = npt.NDArray[np.void]
Progress = Callable[[int, int], None]

_BASE, _PAGE = np.uint64(DEVICE_BASE), np.uint64(PAGE_BYTES)
_U0, _U1, _U8 = np.uint64(0), np.uint64(1), np.uint64(8)
_HEAD, _LOW63 = np.uint64(0xFFFFFF), np.uint64((1 << 63) - 1)
_END_OF_INPUT = np.uint64(0xFFFFFFFFFFFFFFFF)
#: Words of a core's state between two pieces of its trace: identifier, words, head taken, what is tested.
_ID, _WORDS, _TAKEN, _TESTED, _STATE = 0, 1, 5, 6, 7


@dataclass(frozen=True)
class RecordedMail:
    """events: MAIL_EVENT[n], core after core, each in its program order; words only where a message was
    posted. printed, read: of each core that used the console, the bytes it wrote and those it was given."""

    events: Rows
    printed: dict[int, bytes]
    read: dict[int, bytes]


@njit(cache=True)
def follow_registers(rows, core, state, out):  # type: ignore[no-untyped-def]
    """Read a core's device accesses (EVENT[n]) as what happened to its mail; returns how many rows of `out`
    (MAIL_EVENT[], room for one an access) were made. state: uint64 (_STATE,), from piece to piece."""
    n = 0
    for k in range(rows.shape[0]):
        register, value = rows[k].addr - _BASE, rows[k].new
        writes = rows[k].kind == np.uint8(WRITE)
        what = 0
        if writes:
            if register == MAIL_ID:
                state[_ID] = value
            elif MAIL_OUT <= register < MAIL_OUT + np.uint64(32):
                state[_WORDS + np.int64((register - MAIL_OUT) // _U8)] = value
            elif register == MAIL_TEST:
                state[_TESTED] = value & _LOW63
            elif register == MAIL_POST:
                what = POSTED
                out[n].head, out[n].id = value & _HEAD, state[_ID]
        elif register in (MAIL_TAKE, MAIL_AWAIT):
            state[_TAKEN] = value
        elif register == MAIL_FROM:
            kind = (state[_TAKEN] >> np.uint64(16)) & np.uint64(15)
            if kind == np.uint64(REQUEST) or kind == np.uint64(REPLY):
                what = RECEIVED if kind == np.uint64(REQUEST) else ANSWERED
                out[n].head, out[n].id = state[_TAKEN], value
            state[_TAKEN] = _U0
        elif register == MAIL_TEST:
            what = TESTED
            out[n].head, out[n].id = value, state[_TESTED]
        if what == 0:
            continue
        words = (value >> np.uint64(20)) & np.uint64(15) if what == POSTED else _U0
        out[n].what, out[n].core = np.uint64(what), np.uint64(core)
        out[n].w0 = state[_WORDS] if words > _U0 else _U0
        out[n].w1 = state[_WORDS + 1] if words > _U1 else _U0
        out[n].w2 = state[_WORDS + 2] if words > np.uint64(2) else _U0
        out[n].w3 = state[_WORDS + 3] if words > np.uint64(3) else _U0
        n += 1
    return n


def mail_of(rows: Rows, core: int, state: npt.NDArray[np.uint64]) -> Rows:
    """What a piece of a core's trace (EVENT[n]) says of its mail, MAIL_EVENT[m]. state: uint64 (7,), zeros
    before the first piece."""
    offsets = rows["addr"] - _BASE
    held = rows[(rows["flags"] & UNCACHED != 0) & (offsets >= MAIL_FIRST) & (offsets < MAIL_END)]
    out = np.zeros(len(held), MAIL_EVENT)
    return out[: int(follow_registers(held, core, state, out))]


def _console(rows: Rows, register: np.uint64, writes: bool) -> bytes:
    at = (rows["addr"] == _BASE + register) & ((rows["kind"] == WRITE) == writes)
    values = rows["new"][at & (rows["flags"] & UNCACHED != 0)]
    return values[values != _END_OF_INPUT].astype(np.uint8).tobytes()


def recorded_mail(recording: Recording, progress: Progress | None = None) -> RecordedMail:
    """Replay every core alone and follow its device accesses.

    progress: called with (core, instructions). Raises Divergence, FormatError.
    """
    pieces: list[Rows] = []
    printed: dict[int, bytes] = {}
    read: dict[int, bytes] = {}
    for core in range(recording.manifest.n_cores):
        state = np.zeros(_STATE, np.uint64)
        report = None if progress is None else _of_core(progress, core)
        wrote, got = bytearray(), bytearray()
        for rows in CoreReplay(recording, core, traced=True).run(report):
            device = rows[rows["addr"] >= _BASE] if len(rows) else np.zeros(0, EVENT)
            pieces.append(mail_of(device, core, state))
            wrote += _console(device, CONSOLE_TX, True)
            got += _console(device, CONSOLE_RX, False)
        if wrote:
            printed[core] = bytes(wrote)
        if got:
            read[core] = bytes(got)
    events = np.concatenate(pieces) if pieces else np.zeros(0, MAIL_EVENT)
    return RecordedMail(events, printed, read)


def _of_core(progress: Progress, core: int) -> Callable[[int], None]:
    return lambda count: progress(core, count)
