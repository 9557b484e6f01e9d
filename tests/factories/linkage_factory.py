"""Turns of random events, and the collector's stream taken apart again."""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from corebraid.base.rows.event import EVENT, FETCH, GLUED, READ, RMW, UNCACHED, WRITE
from recorder.evidence.linkage.codec import (
    BOUND,
    LOOSENED,
    OPENED,
    ORDER,
    SHARE,
    SKIPPED,
    VALUE,
    Head,
    Machine,
    Piece,
    decode_linkage,
)
from recorder.files.collectors import Guest
from recorder.files.frame import FrameHeader

MEMORY = 1 << 16
LINE = 64


@dataclass
class Frames:
    """A writer that keeps what is written, and reads it back."""

    kept: list[tuple[FrameHeader, bytes]] = field(default_factory=list)

    def append(self, raw: bytes | memoryview, records: int, first: int, last: int) -> None:
        data = bytes(raw)
        number = len(self.kept)
        header = FrameHeader(number, len(data), len(data), records, first, last, zlib.crc32(data), 0)
        self.kept.append((header, data))

    def items(self, n_streams: int, line: int = LINE, memory: int = MEMORY) -> list[Head | Piece]:
        return list(decode_linkage(iter(self.kept), Machine(line, memory, n_streams), Path("evidence")))


@dataclass
class Taken:
    """The tables with runs spelled out, in the twin's terms. guards: variable -> that of its lock. opened:
    variable -> (writes, events of each stream). loosened: variable -> (0 or 1 + its lock's variable, events
    of each stream). skipped: accesses, and writes among them."""

    shares: dict[int, tuple[int, ...]]
    orders: dict[int, list[int]]
    bounds: dict[int, list[int]]
    followed: dict[int, list[tuple[int, int]]]
    values: dict[int, list[tuple[int, int]]]
    guards: dict[int, int] = field(default_factory=dict)
    opened: dict[int, tuple[int, ...]] = field(default_factory=dict)
    loosened: dict[int, tuple[int, ...]] = field(default_factory=dict)
    skipped: tuple[int, int] = (0, 0)


def spelled_out(items: list[Head | Piece]) -> Taken:
    """What the tables say, run by run."""
    taken = Taken({}, *(defaultdict(list) for _ in range(4)))
    for piece in items:
        if isinstance(piece, Head):
            continue
        for row in piece.table.tolist():
            if piece.kind == SHARE:
                assert row[0] not in taken.shares
                taken.shares[row[0]] = tuple(row[1:4])
                if row[4]:
                    taken.guards[row[0]] = row[4] - 1
            elif piece.kind == OPENED:
                assert row[0] not in taken.opened
                taken.opened[row[0]] = tuple(row[1:])
            elif piece.kind == LOOSENED:
                assert row[0] not in taken.loosened
                taken.loosened[row[0]] = tuple(row[1:])
                if row[1]:
                    taken.guards[row[0]] = row[1] - 1
            elif piece.kind == SKIPPED:
                taken.skipped = taken.skipped[0] + row[0], taken.skipped[1] + row[1]
            elif piece.kind == ORDER:
                taken.orders[row[0]] += [row[1]] * row[2]
            elif piece.kind == BOUND:
                taken.bounds[piece.stream] += [row[0]] * row[1]
                taken.followed[piece.stream].append((row[0], row[1]))
            elif piece.kind == VALUE:
                taken.values[piece.stream].append((row[0], row[1]))
    return taken


def guest(n_cores: int, symbols: tuple[tuple[int, int], ...] = ()) -> Guest:
    """A machine without a program."""
    return Guest(n_cores, LINE, 0, np.zeros(MEMORY, np.uint8), symbols)


def random_turns(seed: int, n_cores: int = 3, turns: int = 60) -> list[tuple[int, Any]]:
    """Turns of cores and agents (stream n_cores) over few words, in the order in which they ran, with values
    that follow from memory."""
    draw = random.Random(seed)
    memory, numbers = bytearray(MEMORY), [0] * (n_cores + 1)
    made = []
    for _ in range(turns):
        stream = draw.randrange(n_cores + 1)
        rows = np.zeros(draw.randint(1, 9), EVENT)
        for i, row in enumerate(rows):
            size = draw.choice((1, 2, 4, 8, 8, 8))
            address = 0x1000 + draw.choice((0, 8, 16, 64, 512)) + draw.choice((0, 0, 0, 4, 5, 7))
            row["seq"], row["count"], row["core"] = numbers[stream], numbers[stream], stream
            row["addr"], row["size"] = address, size
            row["kind"] = draw.choice((READ, READ, READ, WRITE, RMW))
            if draw.random() < 0.05 and i + 1 < len(rows):
                row["flags"] = GLUED
            elif draw.random() < 0.05:
                row["flags"] = draw.choice((UNCACHED, FETCH))
            old = int.from_bytes(memory[address : address + size], "little")
            new = old if row["kind"] == READ else draw.randrange(4) << draw.choice((0, 8 * size - 8))
            row["old"], row["new"] = old, new
            if not row["flags"] & UNCACHED:
                memory[address : address + size] = new.to_bytes(8, "little")[:size]
            numbers[stream] += 1
        made.append((stream, rows))
    return made
