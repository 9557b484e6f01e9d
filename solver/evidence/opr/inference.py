"""Who communicated with whom (OPR, section 6): for each new value that a member read, the member that
wrote it, or that it came from outside the group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import Contradiction
from corebraid.base.host_memory import host_memory
from corebraid.base.wording import Option, Phrase
from recorder.evidence.opr.log import OprLog, read_opr
from recorder.evidence.opr.rows import EXACT, RELAXED
from recorder.files.reader import Recording, load_image
from recorder.replay.member import MemberReplay
from solver.evidence.opr.group_replay import Dropped, GroupReplay
from solver.evidence.opr.new_values import NewValues
from solver.evidence.opr.order_log import OrderLog, write_checks

OUTSIDE = -1

#: A new value and where it came from. reader, writer: cores; writer is OUTSIDE for none of the group. sn,
#: writer_sn: the accesses. rivals: other members that had written the same value there, as far as is known.
COMMUNICATION = np.dtype(
    [
        ("sn", "<u8"),
        ("addr", "<u8"),
        ("value", "<u8"),
        ("writer_sn", "<u8"),
        ("size", "<i4"),
        ("reader", "<i2"),
        ("writer", "<i2"),
        ("rivals", "<i4"),
    ]
)


@dataclass(frozen=True)
class MemberResult:
    """A member's replay. accesses, checks, registers: compared with the recorded ones. The rest: see
    `solver.evidence.opr.group_replay.COUNTS`."""

    core: int
    instructions: int
    accesses: int
    checks: int
    registers: int
    waits: int = 0
    given_up: int = 0
    differing: int = 0


@dataclass(frozen=True)
class GroupResult:
    """A partial replay that was bit-exact. communications: COMMUNICATION[n], by reader and SN."""

    members: tuple[MemberResult, ...]
    communications: NDArray[np.void]
    relaxed: bool

    def matrix(self) -> dict[tuple[int, int], int]:
        """How many new values went from which core (OUTSIDE: none of the group) to which."""
        pairs = np.stack([self.communications["writer"], self.communications["reader"]], axis=1)
        found, counts = np.unique(pairs, axis=0, return_counts=True)
        return {(int(a), int(b)): int(n) for (a, b), n in zip(found, counts, strict=True)}


@njit(cache=True)
def _heard(sns, places, first, last, sn):  # type: ignore[no-untyped-def]
    """The largest place of the orders [first, last) (ascending) up to access `sn`."""
    best = np.int64(0)
    while first < last:
        middle = (first + last) // 2
        if sns[middle] <= sn:
            best = places[middle]
            first = middle + 1
        else:
            last = middle
    return best


class OrderTable(NamedTuple):
    """All orders, by member and peer. sns, places: int64[orders], those of member a that wait for b at
    bounds[a, b] to bounds[a, b + 1] (int64[r, r + 1])."""

    sns: NDArray[np.int64]
    places: NDArray[np.int64]
    bounds: NDArray[np.int64]


class Writers(NamedTuple):
    """Of each new value, int64[n]: the member that wrote it, -1 for none; its access, 0 for none; how many
    others it was held against."""

    writer: NDArray[np.int64]
    writer_sn: NDArray[np.int64]
    rivals: NDArray[np.int64]


@njit(cache=True)
def choose_writers(found, values, reader, orders, chosen):  # type: ignore[no-untyped-def]
    """Of the members that wrote a new value, take the one that no other came after.

    A write of which the reader had heard before it last found other bytes there is not what it reads now;
    of a put it has heard when that was started, which says nothing.

    found: int64[r, n], the access of each that wrote it, or 0. values: NEW_VALUE[n]; reader: int64[n].
    chosen: filled in, its `rivals` zero before.
    """
    sns, places, bounds = orders
    writer, writer_sn, rivals = chosen
    for k in range(found.shape[1]):
        best, i = -1, reader[k]
        for j in range(found.shape[0]):
            sn = found[j, k]
            if sn == 0:
                continue
            if sn > 0 and values[k].before != np.uint64(0):
                upto = np.int64(values[k].before) - 1
                if sn <= _heard(sns, places, bounds[i, j], bounds[i, j + 1], upto):
                    continue
            if best < 0:
                best = j
                continue
            rivals[k] += 1
            heard = _heard(sns, places, bounds[j, best], bounds[j, best + 1], abs(sn))
            if heard >= abs(found[best, k]):
                best = j
        writer[k] = best
        writer_sn[k] = abs(found[best, k]) if best >= 0 else 0


def _order_table(orders: OrderLog) -> OrderTable:
    r = len(orders.waits)
    bounds = np.zeros((r, r + 1), np.int64)
    sns, places, total = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for member, waits in enumerate(orders.waits):
        for peer in range(r):
            mine = waits[waits["peer"] == peer]
            sns.append(mine["sn"].astype(np.int64))
            places.append(np.maximum.accumulate(mine["place"].astype(np.int64)))
            bounds[member, peer] = total
            total += len(mine)
        bounds[member, r] = total
    return OrderTable(np.concatenate(sns), np.concatenate(places), bounds)


def replay_group(
    recording: Recording, log: OprLog | None = None, *, relaxed: bool = False, orders: OrderLog | None = None
) -> GroupResult:
    """Replay the members of the group, and infer their communication.

    log: of the recording, or part of it (`select`). orders: instead of those that were recorded. Raises
    UsageError if there is no such evidence, FormatError, Divergence if a member is not what it was, and
    Contradiction if exact orders that were recorded keep members waiting for each other.
    """
    log = log or read_opr(recording)
    sure = orders is None and not relaxed and not recording.killed
    orders = orders or OrderLog.of(log, relaxed)
    memory = recording.manifest.memory
    alone = [_alone(recording, log, member) for member in range(len(log.members))]
    values = [rows for _, rows in alone]
    again = [MemberReplay(recording, log, core) for core in log.members]
    initial = host_memory(memory)
    load_image(recording, "initial", initial)
    group = GroupReplay([it.run() for it in again], orders, write_checks(orders, values), values, initial)
    group.run()
    if sure and group.dropped:
        raise _contradiction(log, group.dropped[0])
    members = []
    for k, (result, _) in enumerate(alone):
        counts = group.counts(k)
        names = ("waits", "given_up", "differing")
        members.append(replace(result, **{name: counts[name] for name in names}))
    return GroupResult(tuple(members), _communications(log, group, orders, values), relaxed)


def _contradiction(log: OprLog, dropped: Dropped) -> Contradiction:
    """Exact clocks tell of what had happened: such orders cannot come about in recording."""
    waits = f"stream {log.members[dropped.member]}, access {dropped.sn}, instruction {dropped.retired}"
    peer = f"access {dropped.place} of core {log.members[dropped.peer]}"
    return Contradiction(
        "the evidence contradicts the replay",
        found=f"{waits}: waits for {peer}, which never comes",
        where="evidence opr",
        remedy=Phrase("record again with ", Option("evidence", "opr")),
    )


def _alone(recording: Recording, log: OprLog, member: int) -> tuple[MemberResult, NDArray[np.void]]:
    """Replay one member by itself: what was compared, and its new values (NEW_VALUE[n])."""
    replay = MemberReplay(recording, log, log.members[member])
    new_values = NewValues(log, member, recording.manifest.memory)
    for rows in replay.run():
        new_values.take(rows)
    counts = replay.count, replay.accesses, replay.checks, replay.registers
    return MemberResult(log.members[member], *counts), new_values.rows


def _communications(
    log: OprLog, group: GroupReplay, orders: OrderLog, values: list[NDArray[np.void]]
) -> NDArray[np.void]:
    all_values = np.concatenate(values)
    n = len(all_values)
    chosen = Writers(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64))
    reader = np.repeat(np.arange(len(values)), [len(mine) for mine in values])
    choose_writers(group.found, all_values, reader, _order_table(orders), chosen)
    rows = np.zeros(n, COMMUNICATION)
    for name in ("sn", "addr", "value", "size"):
        rows[name] = all_values[name]
    cores = np.array([*log.members, OUTSIDE])
    rows["reader"] = cores[reader]
    rows["writer"], rows["writer_sn"], rows["rivals"] = cores[chosen.writer], chosen.writer_sn, chosen.rivals
    return rows


def select(log: OprLog, cores: tuple[int, ...]) -> OprLog:
    """The part of the evidence for some of the members only, `cores` ascending."""
    places = {log.members.index(core): place for place, core in enumerate(cores)}
    of_place = np.full(256, 255, np.uint8)
    of_place[list(places)] = list(places.values())
    rows = log.rows[of_place[log.rows["member"]] != 255].copy()
    rows["member"], rows["peer"] = of_place[rows["member"]], of_place[rows["peer"]]
    is_order = (rows["kind"] == EXACT) | (rows["kind"] == RELAXED)
    return OprLog(cores, log.unit, rows[~is_order | (rows["peer"] != 255)])
