"""What native hooks see: one `CORE` row for each core and one `MACHINE` row, shared by address.

Rows are plain numpy structures; every array that a hook needs is in them as an address. All fields are
unsigned 64-bit, so that address arithmetic never mixes signs.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from emu.native.unicorn import row_getter

PAGE_SHIFT = np.uint64(12)
PAGE_MASK = np.uint64(0xFFF)

#: Why a hook stopped a core.
RUNNING, STOP_SLICE, STOP_DECODE, STOP_STALE, STOP_FLUSH, STOP_POWER = 0, 1, 2, 3, 4, 5
STOP_FRAME, STOP_BARRIER, STOP_DIVERGED, STOP_TRACE, STOP_STRATUM, STOP_SPLIT = 6, 7, 8, 9, 10, 11
#: A Linux guest made a system call.
STOP_CALL = 12
#: A hook found another instruction than that for which it was placed.
STOP_MISPLACED = 13
#: An access waits for what will never come.
STOP_HELD = 14

#: Rights of a page, as in ELF's p_flags.
RIGHT_EXECUTE, RIGHT_WRITE, RIGHT_READ = 1, 2, 4

#: Flags of a page of one core's private memory. CODE: this core has executed from it. DIRTY: listed as
#: changed since the last digest. WRITTEN: this core may have stored to it. UNSTABLE: executed from and
#: changed since, so a known block's bytes are compared before each use.
#: PADDED: code lines not yet received hold the ISA's `entry_fetch`, so that translation stops there.
CODE, DIRTY, WRITTEN, UNSTABLE, PADDED = 1, 2, 4, 8, 16

CORE_FIELDS = (
    # who
    "handle", "core_id", "n_cores", "machine", "cores", "scratch",
    # progress: `count` is the instruction count at the start of the current block. `entered` is the entry
    # of the block that runs (emu/code/blocks.py), 0 once its instructions are in `count`. `block_address`: of
    # the last block that needed more than `probe`
    "count", "entered", "block_address", "block_size", "stop_at", "exact", "armed", "stop_reason",
    # a stop at a memory access: where, and what to put back if it was a write
    "stop_pc", "undo_address", "undo_size", "undo_old",
    # code bytes that changed under existing translations
    "stale_low", "stale_high",
    # the straight run of instructions that this core is in; fetched: a block's lines were fetched and it has
    # not begun
    "mid_run", "lost", "lost_n", "fetched",
    # locate: the address of the emulator's function that finds the instruction that makes an access, where
    # that waits until a hook asks for it; 0: hooks are called when it is found. unlocated: for which access
    # it waits; positions: those that were found (emu/native/positions.py)
    "locate", "unlocated", "positions",
    # nonzero: rights to pages were taken from the core, and the emulator has not forgotten them
    "revoked",
    # the emulator's TLB (emu/native/tlb.py): where what it is told is, 0: nowhere; how many modes have one;
    # how often it was filled since it was flushed; for how many entries there is to be room
    "tlb", "tlb_modes", "fills", "tlb_wanted",
    # time and statistics
    "latency", "accesses", "misses", "upgrades", "downgrades", "evictions",
    # private memory
    "memory", "memory_bytes", "device_page", "line_state", "line_shift", "page_flags", "page_rights",
    "dirty_pages", "dirty_n", "fault_address", "fault_access", "exception", "entry_fetch",
    # of the ISA: Unicorn's number of its program counter; one more than its vectors for unaligned accesses,
    # for what only a kernel may do, for what is none and after a single step; the address of its decoder of
    # plain blocks, 0 for none
    "pc_register", "unaligned", "forbidden", "invalid", "stepped", "plain_block", "left",
    # nonzero: there is a page of device registers
    "devices",
    # what the last instruction overwrote, if it may still fail (emu/hooks/undo.py); undone: how often it did,
    # and had taken lines from others
    "edge", "edge_n", "edge_count", "undone",
    # block table; unstable: some page has been marked UNSTABLE; known, offsets_n, code_n: how far its pools
    # are filled, and how far they may be without growing
    "table", "key_mask", "key_shift", "infos", "unstable", "offsets", "code_bytes", "entries",
    "known", "known_limit", "offsets_n", "offsets_limit", "code_n", "code_limit",
    # the 8 bytes before a block at the address before_of, as they were before it (emu/code/broken_off.py);
    # doubtful: entry of a block that an earlier instruction of its own may have changed there, when an
    # instruction was broken off; judged: where that was last; own_code: bits of what code that changes
    # itself did that a processor does otherwise
    "before", "before_of", "doubtful", "judged", "own_code",
    # finite cache
    "sets", "ways", "tags", "stamps", "clock", "evicted_at",
    # log being written, or being replayed
    "rows", "rows_n", "rows_limit", "rows_next", "next_due", "blob", "blob_n", "blob_limit",
    # replay
    # awaiting: a system call got no result from the log, so a context header must follow
    "inputs", "inputs_n", "inputs_next", "barrier_pc", "input_piece", "awaiting",
    # trace
    # watched: marks of pages, uint8 each, whose accesses alone are traced; 0: all are. marking: all are, and
    # those of other pages marked. kept, kept_pages, kept_n: bytes of pages before the core changed them
    # unwatched, and which they are (emu/core/watched_pages.py). gains: what comes with a page is traced.
    # holds: what stands for pages whose holds are rows, uint64 each (emu/hooks/trace_holds.py); 0: none are.
    # agents_words: addresses of words of such pages that agents use, ascending.
    # processor: the emulator's, once it has told of itself, else 0; forget_page: the address of what forgets
    # one page that it has filled, 0 where nobody tells of accesses
    "trace", "trace_n", "trace_limit", "trace_sequence", "trace_cursor", "trace_stratum",
    "watched", "marking", "gains", "holds", "agents_words", "agents_words_n", "processor", "forget_page",
    "kept", "kept_pages", "kept_n",
    # interrupts
    "pending", "handler", "timer_period", "timer_due", "cause", "parked",
    # store buffer (emu/bus/store_buffer.py); buffering: nonzero under TSO. committed: stores that left it.
    # commits: when they did, for the sealed truth. received: in a traced replay, memory without buffered
    # stores
    "buffering", "buffer", "buffer_first", "buffered", "buffer_limit", "buffer_random", "committed",
    "commits", "commits_n", "commits_limit", "received",
    # what the processor says that it is, and where a system call leaves its number and arguments
    # (emu/hooks/call.py); call_registers: those that hold them, then its result's; calls_wait: nonzero: a
    # hook stands before calls
    "identity", "identity_n", "call_words", "call_registers", "calls_wait",
    # partial replay: the value log (emu/hooks/feed.py), or what an access is held against
    # (solver/evidence/linkage/replay/access.py)
    "fed", "fed_n", "fed_next",
    # one more than the count of the last instruction that may not be counted as a shared access (again)
    "shared_at",
    # of a machine that runs step by step under TSO, one more than the count of the last instruction before
    # which the core's store buffer had to be empty; room: of the last before which stores below `room_for`
    # had to have left it (emu/hooks/room.py); roomy: of so many that was asked, or need not be
    "drains", "room", "room_for", "roomy",
    # what agents had done when the core last noted that it comes after them (emu/bus/sync_points.py)
    "left_at",
    # 1 once an instruction of the core has failed for good: it was begun, and is at `count`
    "failed",
    # how often an instruction has told it the time
    "times",
)  # fmt: skip

CORE = np.dtype([(name, "<u8") for name in CORE_FIELDS])
#: Where each field is in a row's `words_of`.
CORE_AT = SimpleNamespace(**{name: k for k, name in enumerate(CORE_FIELDS)})

MACHINE_FIELDS = (
    # paged: nonzero if lines are pages, of which the cores are told differences (emu/bus/pages.py)
    "paged", "line_bytes", "n_lines", "home", "sharers", "owner",
    "latency_core", "latency_shared", "latency_memory",
    # nonzero: one of power, want_stratum, a full log or console wants the running core to stop
    "attention",
    # nonzero once a timer was set, or an interrupt became pending
    "timers", "interrupts",
    "power", "exit_code", "want_stratum", "downgrade_bound", "random",
    "console", "console_n", "console_limit", "input", "input_n", "input_next",
    "dma_source", "dma_target", "dma_length", "dma_left",
    # put/get engine (emu/devices/one_sided.py): an ENGINE for each core, and operations outstanding over all
    "engines", "transfers",
    "agent_rows", "agent_n", "agent_limit", "agent_number",
    # points where an agent met a core (emu/bus/sync_points.py); entered: those that go from the core to the
    # agent
    "syncs", "sync_n", "entered",
    # lines that cores have lost (emu/bus/losses.py); losses: 0 if nobody wants to know;
    # losses_full: they must be taken
    "losses", "losses_n", "losses_full",
    # nonzero under TSO: home memory has every committed store
    "tso",
    # mail between cores (emu/devices/mail_state.py); mail_full: its log must be taken
    "post", "mail_full",
    # shared accesses so far; before which one the slice ends, 0 for none; which words are watched;
    # stepped: nonzero if accesses to device registers are counted with them; 2: and stores for which the
    # buffer has no room
    # forced: why stores had to commit within a step (emu/bus/commit.py), a bit each
    "shared", "shared_stop", "watched", "stepped", "forced",
    # log of shared accesses (emu/hooks/shared_access.py); noted: 0 if nobody wants to know
    "noted", "noted_n", "noted_limit",
)  # fmt: skip

MACHINE = np.dtype([(name, "<u8") for name in MACHINE_FIELDS])
MACHINE_AT = SimpleNamespace(**{name: k for k, name in enumerate(MACHINE_FIELDS)})


def address_of(array: np.ndarray) -> int:
    """The host address of an array's first byte."""
    return int(array.ctypes.data)


def words_of(row: np.ndarray) -> memoryview:
    """The fields of one row (CORE[1] or MACHINE[1]), shared: a field costs a tenth of what numpy takes."""
    return row.view(np.uint64).data


core_at = row_getter(CORE)
machine_at = row_getter(MACHINE)
