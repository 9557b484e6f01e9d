"""The bus and the caches against a naive model in plain Python, under random accesses of 2 to 8 cores."""

from __future__ import annotations

import random
from collections import OrderedDict

import numpy as np
import pytest
from bus_factory import MEMORY, Kernel

from corebraid.base.errors import UsageError
from corebraid.base.rows.event import OWNED
from corebraid.base.rows.record import MISS_LATE, MISS_OWNED, MISS_WRITE
from emu.bus.agents import CAUSE_DMA, agent_read, agent_write
from emu.bus.cache import CacheGeometry
from emu.bus.line_state import EXCLUSIVE, INVALID, LOST, MESI, MODIFIED, SHARED
from emu.bus.lines import image as bus_image
from emu.bus.losses import DOWNGRADED, LOSS_LIMIT, LOSS_ROOM
from emu.bus.losses import LOST as LINE_LOST
from emu.bus.runs import end_run
from emu.hooks.replay import apply_miss
from emu.native.state import (
    CODE,
    UNSTABLE,
)


class Model:
    """MESI as a textbook has it: dictionaries of lines, a list of uses for each cache set."""

    def __init__(self, kernel: Kernel, cache: CacheGeometry) -> None:
        n = len(kernel.cores)
        self.line, self.cache = cache.line, cache
        self.home = bytearray(kernel.home)
        self.memory = [bytearray(MEMORY) for _ in range(n)]
        self.held: list[dict[int, int]] = [{} for _ in range(n)]
        self.sets: list[list[OrderedDict[int, None]]] = [
            [OrderedDict() for _ in range(cache.sets)] for _ in range(n)
        ]
        self.lost: list[set[int]] = [set() for _ in range(n)]
        self.log: list[list[tuple[int, int, int, bytes]]] = [[] for _ in range(n)]
        self.downgrades, self.upgrades, self.evictions = [0] * n, [0] * n, [0] * n
        #: Where each core stands, and what others took from it: (core, count, address, way).
        self.stands = [0] * n
        self.losses: list[tuple[int, int, int, int]] = []

    def _copy_home(self, core: int, line: int) -> None:
        span = slice(line * self.line, (line + 1) * self.line)
        self.home[span] = self.memory[core][span]

    def _drop(self, core: int, line: int) -> None:
        del self.held[core][line]
        self.lost[core].add(line)
        if self.cache.sets:
            del self.sets[core][line % self.cache.sets][line]

    def claim(self, core: int, line: int, write: bool) -> bool:
        others = [k for k in range(len(self.held)) if k != core and line in self.held[k]]
        for other in others:
            state = self.held[other][line]
            if state == MODIFIED:
                self._copy_home(other, line)
            if write:
                self._drop(other, line)
                self._loses(other, line, LINE_LOST)
            elif state != SHARED:
                self.held[other][line] = SHARED
                self._loses(other, line, DOWNGRADED)
        return bool(others)

    def _loses(self, core: int, line: int, way: int) -> None:
        self.downgrades[core] += 1
        self.losses.append((core, self.stands[core], line * self.line, way))

    def access(self, core: int, line: int, count: int, write: bool) -> None:
        self.stands[core] = count
        state = self.held[core].get(line, INVALID)
        if state == INVALID:
            alone = any(held.get(line, INVALID) in (MODIFIED, EXCLUSIVE) for held in self.held)
            shared = self.claim(core, line, write)
            span = slice(line * self.line, (line + 1) * self.line)
            self.memory[core][span] = self.home[span]
            flags = MISS_WRITE * write | MISS_LATE * (line in self.lost[core]) | MISS_OWNED * alone
            self.log[core].append((count, line * self.line, flags, bytes(self.home[span])))
            self.lost[core].discard(line)
            self.held[core][line] = MODIFIED if write else SHARED if shared else EXCLUSIVE
        elif write and state != MODIFIED:
            if state == SHARED:
                self.claim(core, line, True)
                self.upgrades[core] += 1
            self.held[core][line] = MODIFIED
        if self.cache.sets:
            self._use(core, line)

    def _use(self, core: int, line: int) -> None:
        places = self.sets[core][line % self.cache.sets]
        if line not in places and len(places) == self.cache.ways:
            victim = next(iter(places))
            if self.held[core][victim] == MODIFIED:
                self._copy_home(core, victim)
            self._drop(core, victim)
            self.evictions[core] += 1
        places[line] = None
        places.move_to_end(line)

    def store(self, core: int, address: int, data: bytes) -> None:
        self.memory[core][address : address + len(data)] = data


def compare(kernel: Kernel, model: Model) -> None:
    assert kernel.home.tobytes() == bytes(model.home)
    notes = kernel.losses.take()
    noted = zip(*(notes[name].tolist() for name in ("core", "count", "line", "way")), strict=True)
    assert list(noted) == model.losses
    model.losses.clear()
    for core, arrays in enumerate(kernel.arrays):
        row = kernel.cores[core]
        states = arrays["line_state"]
        held = {int(line): int(states[line] & MESI) for line in np.flatnonzero(states & MESI)}
        assert held == model.held[core]
        assert set(np.flatnonzero(states & LOST).tolist()) == model.lost[core]
        assert arrays["memory"].tobytes() == bytes(model.memory[core])
        for name in ("downgrades", "upgrades", "evictions"):
            assert row[name] == getattr(model, name)[core], name
        rows = arrays["rows"][: int(row["rows_n"])]
        log = [(int(r["count"]), int(r["addr"]), int(r["flags"]), _bytes(arrays["blob"], r)) for r in rows]
        assert log == model.log[core]
    for line in range(len(kernel.owner)):
        holders = [k for k in range(len(kernel.cores)) if line in model.held[k]]
        assert int(kernel.sharers[line]) == sum(1 << k for k in holders)
        exclusive = [k for k in holders if model.held[k][line] != SHARED]
        assert len(exclusive) == 0 or holders == exclusive == [kernel.owner[line] - 1]
        assert exclusive or kernel.owner[line] == 0


def _bytes(blob: np.ndarray, row: np.void) -> bytes:
    return bytes(blob[int(row["offset"]) : int(row["offset"]) + int(row["size"])])


def random_step(kernel: Kernel, model: Model, draw: random.Random, count: int, mid_run: bool) -> None:
    core = draw.randrange(len(kernel.cores))
    line = draw.randrange(24) * draw.choice([1, 1, 3])
    what = draw.random()
    if what < 0.1:
        agent_step(kernel, model, draw, line)
    elif what < 0.2 and mid_run:
        end_run(kernel.cores[core], kernel.machines[0])
        kernel.cores[core]["mid_run"] = 1
        model.lost[core].clear()
    else:
        write = draw.random() < 0.4
        kernel.access(core, line, count, write)
        model.access(core, line, count, write)
        if write:
            address = line * kernel.line + 8 * draw.randrange(kernel.line // 8)
            data = draw.randbytes(8)
            kernel.arrays[core]["memory"][address : address + 8] = np.frombuffer(data, np.uint8)
            model.store(core, address, data)


def agent_step(kernel: Kernel, model: Model, draw: random.Random, line: int) -> None:
    address = line * kernel.line
    value = draw.getrandbits(64)
    write = draw.random() < 0.5
    alone = any(held.get(line, INVALID) in (MODIFIED, EXCLUSIVE) for held in model.held)
    model.claim(len(kernel.cores), line, write)
    before = int.from_bytes(model.home[address : address + 8], "little")
    if write:
        agent_write(kernel.cores, kernel.machines[0], np.uint64(address), np.uint64(value), CAUSE_DMA)
        model.home[address : address + 8] = value.to_bytes(8, "little")
    else:
        assert agent_read(kernel.cores, kernel.machines[0], np.uint64(address), CAUSE_DMA) == before
        value = before
    last = kernel.agent_rows[int(kernel.machines[0]["agent_n"]) - 1]
    assert (last["addr"], last["old"], last["new"]) == (address, before, value)
    assert last["flags"] == OWNED * alone


@pytest.mark.parametrize("cores", [2, 3, 8])
@pytest.mark.parametrize(
    "geometry", ["unbounded", "128:2:32", "64:1:32", "256:4:16", "1k:2:128", "512:2:256"]
)
@pytest.mark.sampled(5)
def test_bus_does_what_the_model_does(geometry: str, cores: int) -> None:
    for seed in range(3):
        cache = CacheGeometry.parse(geometry)
        kernel = Kernel(cores, cache, seed)
        model = Model(kernel, cache)
        for row in kernel.cores:
            row["mid_run"] = 1
        draw = random.Random(f"{geometry}/{cores}/{seed}")
        print("seed", seed)
        limit = MEMORY // cache.line
        for count in range(600):
            if limit >= 72:
                random_step(kernel, model, draw, count, True)
            else:
                _small_step(kernel, model, draw, count, limit)
            if count % 20 == 0:
                compare(kernel, model)
        compare(kernel, model)
        check_coherent_image(kernel, model)


def _small_step(kernel: Kernel, model: Model, draw: random.Random, count: int, lines: int) -> None:
    core, line, write = draw.randrange(len(kernel.cores)), draw.randrange(lines), draw.random() < 0.4
    kernel.access(core, line, count, write)
    model.access(core, line, count, write)


def check_coherent_image(kernel: Kernel, model: Model) -> None:
    image = kernel.home.copy()
    bus_image(kernel.machines, kernel.cores, image)
    for core, held in enumerate(model.held):
        for line, state in held.items():
            if state == MODIFIED:
                model._copy_home(core, line)
    assert image.tobytes() == bytes(model.home)


def code_is_unstable(kernel: Kernel, core: int) -> bool:
    return bool(kernel.arrays[core]["page_flags"][0] & UNSTABLE)


def test_only_a_changed_line_that_was_here_before_makes_code_unstable() -> None:
    kernel = Kernel(2, CacheGeometry.parse("unbounded"), 1)
    reader, writer = kernel.cores[1], kernel.arrays[0]["memory"]
    kernel.arrays[1]["page_flags"][0] = CODE
    reader["stale_low"] = (1 << 64) - 1
    kernel.access(1, 3, 0, False)
    assert not code_is_unstable(kernel, 1)
    # Translated from the padding perhaps, so its translation goes all the same.
    assert (int(reader["stale_low"]), int(reader["stale_high"])) == (3 * 64, 4 * 64)
    for value, unstable in ((int(kernel.home[3 * 64]), False), (int(kernel.home[3 * 64]) ^ 1, True)):
        kernel.access(0, 3, 1, True)
        writer[3 * 64] = value
        kernel.access(1, 3, 2, False)
        assert code_is_unstable(kernel, 1) == unstable
        assert bool(reader["unstable"]) == unstable


def test_replay_marks_code_unstable_as_the_bus_does() -> None:
    kernel = Kernel(1, CacheGeometry.parse("unbounded"), 1)
    core, rows, blob = kernel.cores[0], kernel.arrays[0]["rows"], kernel.arrays[0]["blob"]
    kernel.arrays[0]["page_flags"][0] = CODE
    core["stale_low"] = (1 << 64) - 1
    blob[:64], blob[64:128], blob[128:192] = 1, 1, 2
    for number, unstable in enumerate((False, False, True)):
        rows[number]["addr"], rows[number]["offset"], rows[number]["size"] = 3 * 64, 64 * number, 64
        core["stale_high"] = 0
        apply_miss(core, rows[number])
        assert code_is_unstable(kernel, 0) == unstable
        assert bool(core["stale_high"]) == (number != 1)
        assert kernel.arrays[0]["memory"][3 * 64 : 4 * 64].tolist() == [2 if number == 2 else 1] * 64


def test_a_loss_comes_after_an_instruction_that_failed_and_asks_to_be_taken() -> None:
    kernel = Kernel(2, CacheGeometry.parse("unbounded"), 0)
    kernel.access(0, 5, 7, True)
    kernel.cores[0]["failed"] = 1
    for step in range(LOSS_LIMIT // 2):
        kernel.access(1, 5, step, True)
        assert not kernel.losses.full
        kernel.access(0, 5, 7, True)
        kernel.cores["rows_n"] = kernel.cores["blob_n"] = 0
    assert kernel.losses.full
    assert kernel.machines["attention"][0] == 1
    notes = kernel.losses.take()
    assert (len(notes), kernel.losses.full) == (LOSS_LIMIT, False)
    assert set(notes["count"][notes["core"] == 0].tolist()) == {8}
    kernel.machines["losses_n"] = LOSS_ROOM + 1
    with pytest.raises(OverflowError):
        kernel.losses.take()


def test_what_another_took_comes_back_with_a_record() -> None:
    """A line that an instruction pushed out itself comes back without; not one that was taken from the core,
    though that instruction has pushed another out."""
    kernel = Kernel(2, CacheGeometry.parse("64:1:32"), 0)
    for core in kernel.cores:
        core["mid_run"] = 1
    kernel.access(0, 0, 5, True)
    kernel.access(0, 2, 5, False)
    kernel.access(0, 0, 5, False)
    assert [int(row["addr"]) for row in kernel.arrays[0]["rows"][: int(kernel.cores[0]["rows_n"])]] == [0, 64]
    kernel.access(1, 0, 9, True)
    kernel.access(0, 2, 6, False)
    kernel.access(0, 4, 6, False)
    kernel.access(0, 0, 6, False)
    rows = kernel.arrays[0]["rows"][: int(kernel.cores[0]["rows_n"])]
    assert [(int(row["count"]), int(row["addr"])) for row in rows[2:]] == [(6, 64), (6, 128), (6, 0)]


def test_downgrade_bound_asks_for_a_stratum() -> None:
    kernel = Kernel(2, CacheGeometry.parse("unbounded"), 0)
    kernel.machines["downgrade_bound"] = 3
    for step in range(6):
        kernel.access(step % 2, 0, step, True)
        wanted = int(kernel.machines["want_stratum"][0])
        # Downgrades fall on core 0 and core 1 in turn, so the third of core 0 is the fifth in all.
        assert wanted == (step >= 5)


@pytest.mark.parametrize(
    ("text", "sets", "ways", "line"),
    [("32k:4:32", 256, 4, 32), ("1K:2:64", 8, 2, 64), ("64:2:32", 1, 2, 32), ("1g:64:256", 65536, 64, 256)],
)
def test_geometry(text: str, sets: int, ways: int, line: int) -> None:
    geometry = CacheGeometry.parse(text)
    assert geometry == CacheGeometry(sets, ways, line)
    assert CacheGeometry.parse(str(geometry)) == geometry
    assert str(CacheGeometry.parse("unbounded")) == "unbounded"


@pytest.mark.parametrize(
    "text",
    ["", "32k", "32k:4", "32k:4:32:1", "a:4:32", "32k:0:32", "32k:65:32", "32k:4:33", "32k:4:8", "32k:4:512",
     "0:4:32", "-32k:4:32", "100:4:32", "96:1:32", "32:1:32", "2g:4:32", "k:4:32", "32k:x:32", "32k:4:"],
)  # fmt: skip
def test_geometry_that_makes_no_sense(text: str) -> None:
    with pytest.raises(UsageError) as error:
        CacheGeometry.parse(text)
    assert "\n" not in error.value.line()
