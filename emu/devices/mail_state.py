"""Mail between cores as plain numbers: what the mailbox kernels (emu/devices/mailbox.py) see, shared by
address."""

from __future__ import annotations

import numpy as np

from emu.native.unicorn import row_getter

#: Entry points of a core: their requests are accepted by the bits of one word.
ENTRY_POINTS = 64
#: Words that a message carries at most.
MAIL_WORDS = 4

#: Kinds of a message, bits 16 to 19 of its head. Bits 0 to 7 are the other core, 8 to 15 the entry point, 20
#: to 23 how many words it has.
REQUEST, REPLY = 1, 2

#: What happened (`MAIL_EVENT.what`). POSTED: a message was posted. RECEIVED: an entry point was handed a
#: request. TESTED: a core asked whether an answer had come. ANSWERED: a core took an answer.
POSTED, RECEIVED, TESTED, ANSWERED = 1, 2, 4, 8

#: The answer to a test of which the forced record knows nothing: not 0 or 1.
TEST_UNKNOWN = 2

#: One thing that happened. head: of the message, with the core it came from (RECEIVED, ANSWERED) or goes to
#: (POSTED) in its low byte; of a test the answer. id: the request's identifier. `w0` and on: the words, 0
#: beyond the last.
MAIL_EVENT = np.dtype([(name, "<u8") for name in ("what", "core", "head", "id", "w0", "w1", "w2", "w3")])

#: A message under way. due: cycle at which it may be delivered. next: slot of the one behind it in its inbox.
MESSAGE = np.dtype([(name, "<u8") for name in ("due", "core", "head", "id", "w0", "w1", "w2", "w3", "next")])

#: A core's mailbox. out_*: what the next message will carry. in_*: what the last one taken carried. first,
#: last: slots of its inbox. accepted: entry points whose requests it takes. tested: the word last written to
#: MAIL_TEST.
MAILBOX = np.dtype(
    [
        (name, "<u8")
        for name in (
            "out_id", "o0", "o1", "o2", "o3", "in_id", "i0", "i1", "i2", "i3", "first", "last", "accepted",
            "tested",
        )
    ]
)  # fmt: skip

#: Mail of the whole machine. flights: slots of messages under way, flying of them; next_due: the earliest.
#: free: the first unused slot. resting: bit k is set while core k waits for mail. log: rows of MAIL_EVENT, of
#: the kinds in log_kinds. forced: nonzero when receipts and tests follow a record: turns are the identifiers,
#: entry point e of core k has those from turn_next[k * ENTRY_POINTS + e] to turn_end[...]. test_*: sorted
#: identifiers, how often each is still to be answered 0, and whether 1 follows. unknown_tests: tests that the
#: record does not know, unknown_test the first.
POST = np.dtype(
    [
        (name, "<u8")
        for name in (
            "boxes", "slots", "n_slots", "free", "flights", "flying", "next_due", "latency", "random",
            "resting", "log", "log_n", "log_limit", "log_kinds", "forced", "turns", "turn_next", "turn_end",
            "test_ids", "tests_n", "test_noes", "test_yes", "unknown_tests", "unknown_test",
        )
    ]
)  # fmt: skip

#: Messages that may be under way or wait in inboxes at a time, in the whole machine.
MAIL_SLOTS = 1 << 13

#: No slot.
NONE = 0xFFFFFFFFFFFFFFFF

box_at = row_getter(MAILBOX)
post_at = row_getter(POST)
message_at = row_getter(MESSAGE)
event_at = row_getter(MAIL_EVENT)
