"""The kernel's copies through the bus, and CPUID's answers, against naive models in plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest
from bus_factory import MEMORY, Kernel

from corebraid.base.rows.event import READ, RMW, WRITE
from emu.bus.cache import CacheGeometry
from emu.bus.kernel_agent import fill_bytes, peek_number, read_bytes, read_modify_write, write_bytes
from emu.bus.line_state import INVALID, MESI, MODIFIED
from emu.hooks.x86_64.cpuid import answer_cpuid
from emu.native.state import CORE, address_of
from isa.x86_64.cpuid import CPUID

CAUSE = 4


class Machine(Kernel):
    """Cores that store, and what memory must be."""

    def __init__(self, seed: int, limit: int = 4096) -> None:
        super().__init__(3, CacheGeometry(0, 0, 64), seed)
        self.truth = bytearray(self.home)
        self.machines[0]["agent_limit"] = limit
        self.noted = 0

    def store(self, core: int, address: int, data: bytes) -> None:
        """A core writes bytes of one line."""
        self.access(core, address // 64, 1, True)
        self.arrays[core]["memory"][address : address + len(data)] = np.frombuffer(data, np.uint8)
        self.truth[address : address + len(data)] = data

    def rows(self) -> list[tuple[int, int, int, int, int]]:
        """The kernel's accesses since the last call: (kind, address, size, old, new)."""
        rows = self.agent_rows[self.noted : int(self.machines[0]["agent_n"])]
        self.noted += len(rows)
        assert set(rows["pc"].tolist()) <= {CAUSE}
        return [(int(r["kind"]), int(r["addr"]), int(r["size"]), int(r["old"]), int(r["new"])) for r in rows]


def _pieces(address: int, n: int) -> list[tuple[int, int]]:
    """(address, bytes) of each aligned word, or part of one."""
    pieces, end = [], address + n
    while address < end:
        size = min(8 - address % 8, end - address)
        pieces.append((address, size))
        address += size
    return pieces


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


@pytest.mark.parametrize("seed", range(12))
def test_copies_see_and_leave_what_the_bus_has(seed: int) -> None:
    """Random stores of cores between random copies of the kernel's."""
    source, machine = random.Random(seed), Machine(seed)
    cores, machines, truth = machine.cores, machine.machines, machine.truth
    for _ in range(60):
        core, line = source.randrange(3), source.randrange(MEMORY // 64)
        machine.store(core, line * 64 + source.randrange(56), source.randbytes(source.randint(1, 8)))
        address, n = source.randrange(MEMORY - 300), source.randint(1, 300)
        if source.random() < 0.5:
            out = np.zeros(n, np.uint8)
            assert read_bytes(cores, machines, np.uint64(address), out, 0, CAUSE) == n
            assert out.tobytes() == truth[address : address + n]
            parts = [(a, s, _number(truth[a : a + s])) for a, s in _pieces(address, n)]
            assert machine.rows() == [(READ, a, s, value, value) for a, s, value in parts]
        else:
            data = source.randbytes(n)
            expected = [
                (WRITE, a, s, _number(truth[a : a + s]), _number(data[a - address : a - address + s]))
                for a, s in _pieces(address, n)
            ]
            assert (
                write_bytes(cores, machines, np.uint64(address), np.frombuffer(data, np.uint8), 0, CAUSE) == n
            )
            truth[address : address + n] = data
            assert machine.rows() == expected
            _nobody_holds(machine, address, n)


def _nobody_holds(machine: Machine, address: int, n: int) -> None:
    for arrays in machine.arrays:
        states = arrays["line_state"][address // 64 : (address + n - 1) // 64 + 1] & MESI
        assert (states == INVALID).all()


@pytest.mark.parametrize("seed", range(6))
def test_filling_writes_only_what_differs(seed: int) -> None:
    """A page that holds its bytes already has no rows, but for a line that a core loses: its last word."""
    source, machine = random.Random(seed), Machine(seed)
    stored = 8 * source.randrange(500)
    machine.store(1, 4096 + stored, b"changed!")
    before, data = machine.truth[4096:8192], bytearray(machine.truth[4096:8192])
    for _ in range(5):
        data[source.randrange(4096)] ^= 0xFF
    line = stored // 64 * 64
    last = line + 56 if before[line : line + 64] == data[line : line + 64] else -1
    expected = [
        (WRITE, 4096 + k, 8, _number(before[k : k + 8]), _number(data[k : k + 8]))
        for k in range(0, 4096, 8)
        if before[k : k + 8] != data[k : k + 8] or k == last
    ]
    fill_bytes(machine.cores, machine.machines, np.uint64(4096), np.frombuffer(data, np.uint8), 0, CAUSE)
    assert machine.rows() == expected
    assert bytes(machine.home[4096:8192]) == bytes(data)


def test_a_copy_stops_when_the_rows_are_full_and_goes_on() -> None:
    """What was done is told, nothing is done twice."""
    machine = Machine(3, limit=10)
    data = np.frombuffer(random.Random(3).randbytes(200), np.uint8)
    first = write_bytes(machine.cores, machine.machines, np.uint64(4), data, 0, CAUSE)
    assert first == 4 + 9 * 8
    machine.machines[0]["agent_n"] = 0
    done = first
    while done < 200:
        done = write_bytes(machine.cores, machine.machines, np.uint64(4), data, done, CAUSE)
        machine.machines[0]["agent_n"] = 0
    assert bytes(machine.home[4:204]) == data.tobytes()


def test_where_nobody_takes_accesses_they_are_counted() -> None:
    """Memory is what it is with rows, and the kernel never waits for somebody to take them."""
    data, seen = np.frombuffer(random.Random(5).randbytes(4096), np.uint8), Machine(5, limit=4096)
    unseen = Machine(5, limit=10)
    unseen.machines[0]["agent_rows"] = 0
    for machine in (seen, unseen):
        machine.store(1, 4160, b"changed!")
        for copy in (write_bytes, fill_bytes):
            assert copy(machine.cores, machine.machines, np.uint64(4096), data, 0, CAUSE) == 4096
            data = data[::-1].copy()
    assert bytes(unseen.home) == bytes(seen.home)
    assert unseen.machines[0]["agent_number"] == seen.machines[0]["agent_number"] > 600
    assert (int(unseen.machines[0]["agent_n"]), unseen.rows()) == (0, [])


def test_read_modify_write_is_one_access() -> None:
    """The old value is what a core stored last; the core loses the line."""
    machine = Machine(4)
    machine.store(2, 128, (7).to_bytes(4, "little"))
    place = np.uint64(128)
    assert peek_number(machine.cores, machine.machines, place, 4) == 7
    assert machine.arrays[2]["line_state"][2] & MESI == MODIFIED
    read_modify_write(machine.cores, machine.machines, place, 4, np.uint64(9), CAUSE)
    assert machine.rows() == [(RMW, 128, 4, 7, 9)]
    _nobody_holds(machine, 128, 4)


def test_cpuid_answers() -> None:
    """A leaf without subleaves answers any; with them only those that there are; others nothing."""
    table, row = np.array(CPUID, np.uint64), np.zeros(1, CORE)[0]
    row["identity"], row["identity_n"] = address_of(table), len(table)

    def model(leaf: int, subleaf: int) -> int:
        mine = [k for k, entry in enumerate(CPUID) if entry[0] == leaf]
        exact = [k for k in mine if CPUID[k][1] == subleaf]
        return exact[0] if exact else mine[0] if len(mine) == 1 else len(CPUID)

    for leaf in [*range(40), *range(0x80000000, 0x8000000A), 0x40000000]:
        for subleaf in (0, 1, 2, 3, 4, 77):
            assert answer_cpuid(row, np.uint64(leaf), np.uint64(subleaf)) == model(leaf, subleaf)


def test_cpuid_offers_nothing_that_is_computed_wrongly() -> None:
    """No AVX, XSAVE, BMI, RDRAND (SDM volume 2, CPUID)."""
    by_leaf = {entry[0]: entry for entry in CPUID}
    assert not by_leaf[1][4] & (1 << 12 | 1 << 26 | 1 << 27 | 1 << 28 | 1 << 29 | 1 << 30)
    assert by_leaf[7][2:] == (0, 0, 0, 0)
    assert by_leaf[0][2] == 7


def test_cpuid_tells_the_second_level_cache_twice_alike() -> None:
    """OpenBLAS asks leaf 0x80000006, the C library leaf 4 (SDM volume 2, CPUID)."""
    rows = {(leaf, subleaf): registers for leaf, subleaf, *registers in CPUID}
    _, ebx, ecx, _ = rows[4, 2]
    line, ways = (ebx & 0xFFF) + 1, (ebx >> 22) + 1
    kilobytes = line * ways * (ecx + 1) // 1024
    codes = {4: 4, 8: 6, 16: 8}
    assert rows[0x80000006, 0][2] == kilobytes << 16 | codes[ways] << 12 | line
