"""Mailboxes (firmware/include/machine.h, offsets 0x100 to 0x17F): kernels that the device registers call.

A core posts a message: a request to an entry point of another core (or its own), or the answer to one. It is
under way for a time drawn at random, so that messages arrive in any order, also those of one pair of cores.
A core takes answers, and requests to the entry points it accepts, in the order in which they arrived.

A machine may be told to repeat a record (Fagot and Chassin de Kergommeaux, section 3): then an entry point is
handed a request only when it is that request's turn, and a test is answered as it was.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.random_bits import next_random
from emu.devices.mail_state import (
    ANSWERED,
    ENTRY_POINTS,
    MAIL_EVENT,
    MAILBOX,
    MESSAGE,
    NONE,
    POSTED,
    RECEIVED,
    REPLY,
    REQUEST,
    TEST_UNKNOWN,
    TESTED,
    box_at,
    event_at,
    message_at,
    post_at,
)
from emu.native.unicorn import peek64, pointer, uc_emu_stop

#: Registers, by offset in the device page.
MAIL_ID, MAIL_OUT, MAIL_POST = np.uint64(0x100), np.uint64(0x108), np.uint64(0x128)
MAIL_ACCEPT, MAIL_TAKE, MAIL_AWAIT = np.uint64(0x130), np.uint64(0x138), np.uint64(0x140)
MAIL_FROM, MAIL_IN, MAIL_TEST = np.uint64(0x148), np.uint64(0x150), np.uint64(0x170)
MAIL_FIRST, MAIL_END = np.uint64(0x100), np.uint64(0x180)

#: `exception` of a core that could not post: numbers past the interrupt vectors and the system call.
MAIL_FULL, MAIL_NOWHERE = 257, 258

_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)
_NONE = np.uint64(NONE)
_BYTE = np.uint64(0xFF)
_REQUEST, _REPLY = np.uint64(REQUEST), np.uint64(REPLY)
_EVENT_BYTES = np.uint64(MAIL_EVENT.itemsize)
_MESSAGE_BYTES = np.uint64(MESSAGE.itemsize)
_BOX_BYTES = np.uint64(MAILBOX.itemsize)
_ENTRY_POINTS = np.uint64(ENTRY_POINTS)
#: Bit 63 of a word written to MAIL_TEST: the answer has come. The rest is the request's identifier.
_COME = np.uint64(1 << 63)


@njit(cache=True)
def _put64(address, value):
    carray(pointer(address), 1, np.uint64)[0] = value


@njit(cache=True)
def _kind(head):
    return (head >> np.uint64(16)) & np.uint64(15)


@njit(cache=True)
def _entry(head):
    return (head >> _EIGHT) & _BYTE


@njit(cache=True)
def _box(post, core):
    return box_at(post.boxes + core * _BOX_BYTES)


@njit(cache=True)
def _slot(post, slot):
    return message_at(post.slots + slot * _MESSAGE_BYTES)


@njit(cache=True)
def _words(message):
    return message.w0, message.w1, message.w2, message.w3


@njit(cache=True)
def _log(machine, post, what, core, head, identifier, words):
    """Keep what happened, if anybody asked for it; at the limit the core must stop so that it is taken."""
    if (post.log_kinds & np.uint64(what)) == _ZERO:
        return
    row = event_at(post.log + post.log_n * _EVENT_BYTES)
    row.what, row.core, row.head, row.id = np.uint64(what), core, head, identifier
    row.w0, row.w1, row.w2, row.w3 = words
    post.log_n += _ONE
    if post.log_n >= post.log_limit:
        machine.mail_full = _ONE
        machine.attention = _ONE


@njit(cache=True)
def _turn_at(post, core, entry):
    return (core * _ENTRY_POINTS + entry) * _EIGHT


@njit(cache=True)
def _its_turn(post, core, entry, identifier):
    """Whether the record has this request next at this entry point."""
    at = _turn_at(post, core, entry)
    turn = peek64(post.turn_next + at)
    return turn < peek64(post.turn_end + at) and peek64(post.turns + turn * _EIGHT) == identifier


@njit(cache=True)
def _may_take(post, box, core, message):
    if _kind(message.head) != _REQUEST:
        return True
    entry = _entry(message.head)
    if entry >= _ENTRY_POINTS or (box.accepted >> entry) & _ONE == _ZERO:
        return False
    return post.forced == _ZERO or _its_turn(post, core, entry, message.id)


@njit(cache=True)
def _rest(core, post):
    """The core waits for mail: its slice ends with this block, and it gets no other before mail has come."""
    post.resting |= _ONE << core.core_id
    core.stop_at = core.count


@njit(cache=True)
def _take(core, machine, post, rests):
    """Hand over the first message that may be; returns its head, or 0."""
    box = _box(post, core.core_id)
    before, at = _NONE, box.first
    while at != _NONE:
        message = _slot(post, at)
        if _may_take(post, box, core.core_id, message):
            break
        before, at = at, message.next
    if at == _NONE:
        if rests:
            _rest(core, post)
        return _ZERO
    message = _slot(post, at)
    if before == _NONE:
        box.first = message.next
    else:
        _slot(post, before).next = message.next
    if box.last == at:
        box.last = before
    box.in_id = message.id
    box.i0, box.i1, box.i2, box.i3 = message.w0, message.w1, message.w2, message.w3
    head = message.head
    if _kind(head) == _REQUEST:
        if post.forced != _ZERO:
            turn = post.turn_next + _turn_at(post, core.core_id, _entry(head))
            _put64(turn, peek64(turn) + _ONE)
        _log(machine, post, RECEIVED, core.core_id, head, message.id, _words(message))
    elif _kind(head) == _REPLY:
        _log(machine, post, ANSWERED, core.core_id, head, message.id, _words(message))
    message.next = post.free
    post.free = at
    return head


@njit(cache=True)
def _recorded_answer(post, identifier):
    """What the record says to the next test of this request."""
    low, high = _ZERO, post.tests_n
    while low < high:
        middle = (low + high) >> _ONE
        if peek64(post.test_ids + middle * _EIGHT) < identifier:
            low = middle + _ONE
        else:
            high = middle
    if low < post.tests_n and peek64(post.test_ids + low * _EIGHT) == identifier:
        noes, yes = post.test_noes + low * _EIGHT, post.test_yes + low * _EIGHT
        left = peek64(noes)
        if left != _ZERO:
            _put64(noes, left - _ONE)
            return _ZERO
        if peek64(yes) != _ZERO:
            _put64(yes, _ZERO)
            return _ONE
    if post.unknown_tests == _ZERO:
        post.unknown_test = identifier
    post.unknown_tests += _ONE
    return np.uint64(TEST_UNKNOWN)


@njit(cache=True)
def _test(core, machine, post):
    word = _box(post, core.core_id).tested
    identifier, answer = word & ~_COME, word >> np.uint64(63)
    if post.forced != _ZERO:
        answer = _recorded_answer(post, identifier)
    _log(machine, post, TESTED, core.core_id, answer, identifier, (_ZERO, _ZERO, _ZERO, _ZERO))
    return answer


@njit(cache=True)
def mail_read(core, machine, register):
    """What a mailbox register answers."""
    post = post_at(machine.post)
    box = _box(post, core.core_id)
    value = _ZERO
    if register == MAIL_TAKE:
        value = _take(core, machine, post, False)
    elif register == MAIL_AWAIT:
        value = _take(core, machine, post, True)
    elif register == MAIL_FROM:
        value = box.in_id
    elif register == MAIL_TEST:
        value = _test(core, machine, post)
    elif register == MAIL_IN:
        value = box.i0
    elif register == MAIL_IN + _EIGHT:
        value = box.i1
    elif register == MAIL_IN + np.uint64(16):
        value = box.i2
    elif register == MAIL_IN + np.uint64(24):
        value = box.i3
    return value


@njit(cache=True)
def _fail(core, number):
    core.exception = np.uint64(number) + _ONE
    uc_emu_stop(core.handle)


@njit(cache=True)
def _post(core, machine, post, word):
    """Send what lies in the out registers. It is under way for half to one and a half times the latency."""
    target = word & _BYTE
    if target >= core.n_cores:
        _fail(core, MAIL_NOWHERE)
        return
    at = post.free
    if at == _NONE:
        _fail(core, MAIL_FULL)
        return
    message, box = _slot(post, at), _box(post, core.core_id)
    post.free = message.next
    n = (word >> np.uint64(20)) & np.uint64(15)
    message.w0 = box.o0 if n > _ZERO else _ZERO
    message.w1 = box.o1 if n > _ONE else _ZERO
    message.w2 = box.o2 if n > np.uint64(2) else _ZERO
    message.w3 = box.o3 if n > np.uint64(3) else _ZERO
    message.core = target
    message.id = box.out_id
    message.head = (word & ~_BYTE) & np.uint64(0xFFFFFF) | core.core_id
    post.random, bits = next_random(post.random)
    message.due = core.count + core.latency + (post.latency >> _ONE) + bits % (post.latency + _ONE)
    _put64(post.flights + post.flying * _EIGHT, at)
    post.flying += _ONE
    post.next_due = min(post.next_due, message.due)
    head = word & np.uint64(0xFFFFFF)
    _log(machine, post, POSTED, core.core_id, head, message.id, _words(message))


@njit(cache=True)
def mail_write(core, machine, register, value):
    """Act on a write to a mailbox register."""
    post = post_at(machine.post)
    box = _box(post, core.core_id)
    if register == MAIL_POST:
        _post(core, machine, post, value)
    elif register == MAIL_ID:
        box.out_id = value
    elif register == MAIL_ACCEPT:
        box.accepted = value
    elif register == MAIL_TEST:
        box.tested = value
    elif register == MAIL_OUT:
        box.o0 = value
    elif register == MAIL_OUT + _EIGHT:
        box.o1 = value
    elif register == MAIL_OUT + np.uint64(16):
        box.o2 = value
    elif register == MAIL_OUT + np.uint64(24):
        box.o3 = value


@njit(cache=True)
def _arrive(cores, post, at, now):
    """Put a message into its inbox and wake the core if that is what it waits for."""
    message = _slot(post, at)
    message.next = _NONE
    core, box = message.core, _box(post, message.core)
    if box.last == _NONE:
        box.first = at
    else:
        _slot(post, box.last).next = at
    box.last = at
    bit = _ONE << core
    if post.resting & bit != _ZERO and _may_take(post, box, core, message):
        post.resting &= ~bit
        row = cores[np.int64(core)]
        clock = row.count + row.latency
        if clock < now:
            # Its clock went on while it waited.
            row.latency += now - clock


@njit(cache=True)
def deliver(cores, post_rows, idle):
    """Deliver what is due, earliest first. idle: no core can run, so that time goes on to the earliest
    message.

    cores: CORE[n]. post_rows: POST[1]. Returns how many messages were delivered.
    """
    post = post_rows[0]
    now = _ZERO
    for k in range(len(cores)):
        now = max(now, cores[k].count + cores[k].latency)
    if idle:
        now = max(now, post.next_due)
    delivered = 0
    while post.flying != _ZERO and post.next_due <= now:
        best, due, second = _ZERO, _NONE, _NONE
        for k in range(np.int64(post.flying)):
            at = _slot(post, peek64(post.flights + np.uint64(k) * _EIGHT)).due
            if at < due:
                best, due, second = np.uint64(k), at, due
            elif at < second:
                second = at
        place = post.flights + best * _EIGHT
        at = peek64(place)
        post.flying -= _ONE
        _put64(place, peek64(post.flights + post.flying * _EIGHT))
        post.next_due = second
        _arrive(cores, post, at, now)
        delivered += 1
    return delivered


@njit(cache=True)
def empty_post(post_rows):
    """All slots unused, all inboxes empty. post_rows: POST[1], its addresses set."""
    post = post_rows[0]
    for k in range(np.int64(post.n_slots)):
        _slot(post, np.uint64(k)).next = np.uint64(k) + _ONE if k + 1 < np.int64(post.n_slots) else _NONE
    post.free = _ZERO
    post.flying = _ZERO
    post.next_due = _NONE
