"""Block table, fingerprint, random numbers and schedulers against naive twins."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corebraid.base.errors import UsageError
from corebraid.base.random_bits import next_random
from emu.bus.line_state import SEEN
from emu.code.blocks import BlockTable, find_block, instructions_of, mark_unstable, probe
from emu.code.plain_blocks import known_block
from emu.core.fingerprint import Fingerprint, hash_four_pages, hash_page
from emu.hooks.x86_64.plain_code import decode_plain_block
from emu.native.state import CODE, CORE, UNSTABLE, WRITTEN, address_of
from emu.schedule.scheduler import Explicit, Pct, RoundRobin, Slice, make_scheduler, read_schedule
from isa.x86_64.decode import decode_block

MASK = (1 << 64) - 1
MEMORY = 1 << 20
PLAIN = decode_block(b"\x90", 0)


def test_block_table_is_a_dictionary() -> None:
    rows = np.zeros(1, CORE)
    memory, flags = np.zeros(MEMORY, np.uint8), np.zeros(MEMORY >> 12, np.uint8)
    rows["memory"], rows["page_flags"] = address_of(memory), address_of(flags)
    table = BlockTable(rows)
    draw, known = random.Random(1), {}
    for _ in range(6000):
        address, n = draw.randrange(MEMORY - 64), draw.randrange(1, 20)
        code = memory[address : address + n].tobytes()
        offsets = tuple(sorted(draw.sample(range(n), draw.randint(1, n))))
        block = replace(PLAIN, offsets=offsets, ends_run=bool(draw.randrange(2)))
        table.insert(address, code, block, flags)
        known[address, n] = len(offsets)
    for (address, n), instructions in known.items():
        entry = find_block(rows[0], np.uint64(address), np.uint64(n))
        assert entry
        assert instructions_of(np.uint64(entry)) == instructions
    for _ in range(2000):
        address, n = draw.randrange(MEMORY - 64), draw.randrange(1, 24)
        if (address, n) not in known:
            assert not find_block(rows[0], np.uint64(address), np.uint64(n))


def colliding_keys(homes: tuple[int, ...], n: int) -> list[tuple[int, int]]:
    """n (address, size) pairs whose search in a table of 4096 slots begins at one of `homes`."""
    address, size = np.meshgrid(np.arange(1, 1 << 18, dtype=np.uint64), np.arange(1, 9, dtype=np.uint64))
    key = (address << np.uint64(16) | size) * np.uint64(0x9E3779B97F4A7C15)
    chosen = np.isin(key >> np.uint64(64 - 12), np.array(homes, np.uint64))
    pairs = list(zip(address[chosen].tolist(), size[chosen].tolist(), strict=True))
    return random.Random(f"{homes}/{n}").sample(pairs, n)


@pytest.mark.parametrize("homes", [(7,), (100, 101, 103), (0, 1, 4094, 4095)], ids=str)
def test_entries_that_change_places_stay_findable(homes: tuple[int, ...]) -> None:
    rows = np.zeros(1, CORE)
    memory, flags = np.zeros(MEMORY, np.uint8), np.zeros(MEMORY >> 12, np.uint8)
    rows["memory"], rows["page_flags"] = address_of(memory), address_of(flags)
    core, table = rows[0], BlockTable(rows)
    keys, known = colliding_keys(homes, 400), {}
    draw = random.Random(2)
    for step in range(3000):
        address, size = draw.choice(keys)
        place = np.uint64(address), np.uint64(size)
        if (address, size) not in known:
            assert not probe(core, *place)
            assert not find_block(core, *place), f"step {step}: {address:#x}, {size}"
            if draw.random() < 0.3:
                offsets = tuple(range(draw.randint(1, size)))
                table.insert(address, bytes(size), replace(PLAIN, offsets=offsets), flags)
                known[address, size] = len(offsets)
        else:
            early = probe(core, *place)
            entry = find_block(core, *place)
            assert entry, f"step {step}: {address:#x}, {size} is lost"
            assert instructions_of(np.uint64(entry)) == known[address, size]
            assert early in (0, entry)
            assert probe(core, *place) == entry
    assert len(known) > 200
    for (address, size), n in known.items():
        assert instructions_of(np.uint64(find_block(core, np.uint64(address), np.uint64(size)))) == n


def test_probe_leaves_everything_to_find_block_once_code_may_change() -> None:
    rows = np.zeros(1, CORE)
    memory, flags = np.zeros(MEMORY, np.uint8), np.zeros(MEMORY >> 12, np.uint8)
    rows["memory"], rows["page_flags"] = address_of(memory), address_of(flags)
    table = BlockTable(rows)
    table.insert(0x2000, bytes(4), replace(PLAIN, offsets=(0, 1)), flags)
    place = np.uint64(0x2000), np.uint64(4)
    assert probe(rows[0], *place) == find_block(rows[0], *place) != 0
    mark_unstable(rows[0], np.uint64(5))
    assert probe(rows[0], *place) == 0
    assert find_block(rows[0], *place) != 0


@pytest.mark.parametrize("second_page", [False, True])
def test_block_whose_bytes_changed_is_unknown_until_learnt_again(second_page: bool) -> None:
    rows = np.zeros(1, CORE)
    memory, flags = np.zeros(MEMORY, np.uint8), np.zeros(MEMORY >> 12, np.uint8)
    rows["memory"], rows["page_flags"] = address_of(memory), address_of(flags)
    table = BlockTable(rows)
    address, changed = 0x2FFC, 0x3001 if second_page else 0x2FFD
    flags[3 if second_page else 2] |= WRITTEN
    block = replace(PLAIN, offsets=(0, 4))
    table.insert(address, bytes(8), block, flags)
    assert flags[2] & CODE
    assert flags[3] & CODE
    assert flags[3 if second_page else 2] & UNSTABLE
    assert find_block(rows[0], np.uint64(address), np.uint64(8))
    memory[changed] = 1
    assert not find_block(rows[0], np.uint64(address), np.uint64(8))
    table.insert(address, memory[address : address + 8].tobytes(), block, flags)
    assert find_block(rows[0], np.uint64(address), np.uint64(8))


class _Table:
    """A block table over a memory of plain instructions of 1 to 8 bytes, and jumps."""

    def __init__(self) -> None:
        source = random.Random(5)
        kinds = [
            bytes.fromhex(text) for text in ("90", "4889d8", "e800000000", "660f6fc1", "488d8424", "7402")
        ]
        self.memory = np.zeros(MEMORY, np.uint8)
        code = b"".join(source.choice(kinds) for _ in range(4096))
        self.memory[: len(code)] = np.frombuffer(code, np.uint8)
        self.flags = np.zeros(MEMORY >> 12, np.uint8)
        self.flags[2] = WRITTEN
        self.rows = np.zeros(1, CORE)
        self.rows["memory"], self.rows["page_flags"] = address_of(self.memory), address_of(self.flags)
        self.rows["plain_block"] = decode_plain_block.address
        self.table = BlockTable(self.rows)

    def known(self) -> list[object]:
        """All that was entered, in order."""
        n = int(self.rows["known"][0])
        infos, entries = self.table._infos[:n].tolist(), self.table._entries[:n].tolist()
        pools = self.table._offsets[: int(self.rows["offsets_n"][0])].tolist()
        return [infos, entries, pools, self.table._bytes[: int(self.rows["code_n"][0])].tobytes()]


@pytest.mark.soak
def test_blocks_learnt_natively_are_those_that_are_inserted() -> None:
    native, outside = _Table(), _Table()
    source, stops, seen = random.Random(6), 0, set()
    for _ in range(8_000):
        address, size = source.randrange(12_000), source.randint(1, 30)
        code = outside.memory[address : address + size].tobytes()
        block = decode_block(code, address)
        place = np.uint64(address), np.uint64(size)
        entry = known_block(native.rows[0], *place)
        if not entry:
            # Not plain, or no room.
            stops += 1
            native.table.insert(address, code, block, native.flags)
        if (address, size) not in seen:
            seen.add((address, size))
            outside.table.insert(address, code, block, outside.flags)
        assert find_block(native.rows[0], *place) == find_block(outside.rows[0], *place) != 0
    assert native.known() == outside.known()
    assert np.array_equal(native.flags, outside.flags)
    assert native.rows["unstable"] == outside.rows["unstable"] == 1
    assert 100 < stops < len(seen) - 1000


def naive_hash(memory: bytes, seen: list[bool], page: int, line_bytes: int) -> int:
    total = 0
    for line in range(page * 4096 // line_bytes, (page + 1) * 4096 // line_bytes):
        if not seen[line]:
            continue
        value = (line + 1) * 0x9FB21C651E98DF25 & MASK
        for word in range(line * line_bytes, (line + 1) * line_bytes, 8):
            value = (value ^ int.from_bytes(memory[word : word + 8], "little")) * 0x9FB21C651E98DF25 & MASK
            value ^= value >> 32
        total = total + value & MASK
    return total


@pytest.mark.parametrize("line_bytes", [16, 32, 64, 128, 256])
def test_page_hash(line_bytes: int) -> None:
    draw = np.random.default_rng(line_bytes)
    memory = draw.integers(0, 256, 3 * 4096, np.uint8)
    states = draw.choice(np.array([0, SEEN, SEEN | 3], np.uint8), 3 * 4096 // line_bytes)
    seen = [bool(state & SEEN) for state in states]
    core = np.zeros(1, CORE)[0]
    core["memory"], core["line_state"] = address_of(memory), address_of(states)
    for page in range(3):
        expected = naive_hash(memory.tobytes(), seen, page, line_bytes)
        assert hash_page(core, page, line_bytes) == expected
        received = np.flatnonzero(states[page * 4096 // line_bytes : (page + 1) * 4096 // line_bytes] & SEEN)
        position = page * 4096 + int(received[0]) * line_bytes + 3
        memory[position] ^= 1
        assert hash_page(core, page, line_bytes) != expected


def test_four_pages_are_hashed_as_one_by_one() -> None:
    draw = np.random.default_rng(4)
    memory, states = draw.integers(0, 256, 9 * 4096, np.uint8), np.full(9, SEEN, np.uint8)
    core = np.zeros(1, CORE)[0]
    core["memory"], core["line_state"] = address_of(memory), address_of(states)
    for _ in range(20):
        pages = draw.permutation(9)[:4].astype(np.uint64)
        expected = [naive_hash(memory.tobytes(), [True] * 9, int(page), 4096) for page in pages]
        assert list(hash_four_pages(core, pages)) == expected
        memory[draw.integers(0, 9 * 4096)] ^= 1


class _Dirty:
    """Of a core what a fingerprint looks at, with pages that the test says have changed."""

    def __init__(self, pages: int) -> None:
        self.memory = np.zeros(pages * 4096, np.uint8)
        self.states, self.flags = np.zeros(pages, np.uint8), np.zeros(pages, np.uint8)
        self.dirty, self.rows = np.zeros(pages, np.uint64), np.zeros(1, CORE)
        for name, array in (("memory", self.memory), ("line_state", self.states)):
            self.rows[name] = address_of(array)
        self.rows["page_flags"], self.rows["dirty_pages"] = address_of(self.flags), address_of(self.dirty)

    def change(self, pages: list[int]) -> None:
        self.dirty[: len(pages)], self.rows["dirty_n"] = pages, len(pages)

    def protect_again(self) -> None:
        assert self.rows["dirty_n"] == 0


def test_a_fingerprint_follows_pages_however_many_changed() -> None:
    draw, core = np.random.default_rng(5), _Dirty(13)
    fingerprint = Fingerprint(core, 4096)  # type: ignore[arg-type]
    core.states[:11] = SEEN
    ever: set[int] = set()
    for _ in range(60):
        changed = draw.permutation(13)[: draw.integers(0, 14)].tolist()
        for page in changed:
            core.memory[page * 4096 + draw.integers(0, 4096)] ^= 1
        core.change(changed)
        found = fingerprint.update()
        received, memory = [bool(state) for state in core.states], core.memory.tobytes()
        ever |= set(changed)
        assert found == sum(naive_hash(memory, received, page, 4096) for page in ever) & MASK


def test_random_numbers_are_splitmix64() -> None:
    state, numbers = np.uint64(0), []
    for _ in range(3):
        state, number = next_random(np.uint64(state))
        numbers.append(int(number))
    # The reference implementation's first outputs for seed 0 (prng.di.unimi.it/splitmix64.c).
    assert numbers == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


# -- schedulers ------------------------------------------------------------------------------------------


def play(policy: str, seed: int, cores: int, steps: int, longest: int = 100) -> list[Slice]:
    """Slices of a policy whose every slice runs to its full length."""
    scheduler, counts, slices = make_scheduler(policy, seed, cores, longest), [0] * cores, []
    for _ in range(steps):
        piece = scheduler.next(list(range(cores)), counts)
        counts[piece.core] += piece.length
        slices.append(piece)
    return slices


@pytest.mark.parametrize("policy", ["random", "pct:4", "round-robin"])
def test_same_seed_same_slices(policy: str) -> None:
    assert play(policy, 7, 5, 300) == play(policy, 7, 5, 300)
    if policy != "round-robin":
        assert play(policy, 7, 5, 300) != play(policy, 8, 5, 300)


def test_random_slices_are_in_bounds_and_reach_every_core() -> None:
    slices = play("random", 3, 4, 2000, 1000)
    assert {piece.core for piece in slices} == {0, 1, 2, 3}
    assert all(1 <= piece.length <= 1000 for piece in slices)
    assert 150 < sum(piece.length <= 7 for piece in slices) < 450
    assert 350 < sum(piece.exact for piece in slices) < 650


def test_round_robin_takes_turns_among_the_runnable() -> None:
    scheduler = RoundRobin(10)
    turns = [
        scheduler.next(runnable, []).core for runnable in ([0, 1, 2], [0, 1, 2], [0, 2], [0, 2], [2], [0])
    ]
    assert turns == [0, 1, 2, 0, 2, 0]


def test_pct_changes_at_most_so_often() -> None:
    """A core gives way at a change point, of which there are depth - 1, or when it is taken to spin."""
    for seed in range(20):
        runs = [
            sum(piece.length for piece in pieces)
            for _, pieces in itertools.groupby(play("pct:3", seed, 4, 200), key=lambda piece: piece.core)
        ]
        short = sum(length < 4000 for length in runs[:-1])
        assert short <= 2, f"seed {seed}: runs of {runs}"
    first = {play("pct:2", seed, 4, 1)[0].core for seed in range(60)}
    assert first == {0, 1, 2, 3}


def test_pct_does_not_starve_a_core_that_another_waits_for() -> None:
    slices = play("pct:1", 1, 2, 200)
    assert {piece.core for piece in slices} == {0, 1}


def test_pct_goes_on_when_its_core_waits() -> None:
    scheduler = Pct(0, 3, 2)
    for runnable in ([0], [1], [2], [1, 2]):
        assert scheduler.next(runnable, [0, 0, 0]).core in runnable


def test_schedule_file(tmp_path: Path) -> None:
    path = tmp_path / "schedule"
    path.write_text("# a comment\n0 10\n\n1 5 # and another\n0 1\n")
    assert read_schedule(path, 2) == [Slice(0, 10), Slice(1, 5), Slice(0, 1)]
    scheduler = Explicit(read_schedule(path, 2))
    assert [scheduler.next([0], [0, 0]).length for _ in range(2)] == [10, 1]
    assert scheduler.next([0, 1], [0, 0]).core in (0, 1)


@pytest.mark.parametrize(
    "text", ["0", "0 1 2", "x 1", "0 x", "2 1", "0 0", "0 -1", "-1 5", "0 1.5", "0 ²", f"0 {1 << 62}"]
)
def test_schedule_that_cannot_be(text: str, tmp_path: Path) -> None:
    path = tmp_path / "schedule"
    path.write_text(f"0 1\n{text}\n", encoding="utf-8")
    with pytest.raises(UsageError) as error:
        read_schedule(path, 2)
    assert f"{path}:2" in error.value.line()


@pytest.mark.parametrize("policy", ["pct:", "pct:0", "pct:1001", "pct:x", "pct:²", "no-such-file"])
def test_policy_that_cannot_be(policy: str) -> None:
    with pytest.raises(UsageError):
        make_scheduler(policy, 0, 2)


def test_schedule_of_no_text(tmp_path: Path) -> None:
    path = tmp_path / "schedule"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError):
        read_schedule(path, 2)
