"""Recording under TSO: the store buffer against a list, litmus outcomes, determinism, and planted bugs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.soak import IMAGES, Plan, examine, expectations
from bench.true_order import Broken
from corebraid.base.errors import Divergence, OrderError, UsageError
from corebraid.base.rows.record import MISS, RECEIVED, STRATUM
from emu.bus.store_buffer import (
    append_store,
    buffer_rows,
    covers,
    drop_newest,
    drop_oldest,
    lay_over,
    new_buffer,
    newest_overlap,
    nth,
)
from emu.native.state import CORE, address_of
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import RecordOptions, record
from recorder.files.reader import Recording, iter_core_records
from recorder.replay.core import CoreReplay


def recorded(path: Path, plan: Plan) -> tuple[bytes, Recording]:
    """What the guest printed, and the recording."""
    printed = bytearray()
    stdin = expectations().expectation(plan.program, plan.cores, plan.model).stdin
    record(IMAGES / f"{plan.program}.elf", path, X86_64, plan.options(stdin), printed.extend)
    return bytes(printed), Recording.open(path)


# -- the buffer ------------------------------------------------------------------------------------------


def _append(core: Any, store: tuple[int, int, int, int]) -> None:
    append_store(core, *(np.uint64(n) for n in store), np.uint64(0))


def _overlaid(naive: list[tuple[int, int, int, int]]) -> bytes:
    """16 bytes of 0xee from address 16 on, the stores laid over them."""
    line = bytearray(b"\xee" * 16)
    for address, size, value, _ in naive:
        for k in range(size):
            if 16 <= address + k < 32:
                line[address + k - 16] = (value >> (8 * k)) & 0xFF
    return bytes(line)


def test_the_buffer_is_a_list_first_in_first_out() -> None:
    rng, rows, ring = random.Random(1), np.zeros(1, CORE), new_buffer()
    core = rows[0]
    core["buffer"] = address_of(ring)
    naive: list[tuple[int, int, int, int]] = []
    for count in range(3000):
        address, size = rng.randrange(40), rng.choice((1, 2, 4, 8))
        if rng.random() < 0.55 and len(naive) < 60:
            naive.append((address, size, rng.randrange(1 << (8 * size)), count))
            _append(core, naive[-1])
            if rng.random() < 0.1:
                # The same store again, as after a store into its own block: it replaces itself.
                naive[-1] = (address, size, 7, count)
                _append(core, naive[-1])
        elif naive and rng.random() < 0.9:
            drop_oldest(core)
            naive.pop(0)
        elif naive:
            drop_newest(core, np.uint64(naive[-1][3]))
            naive = [store for store in naive if store[3] != naive[-1][3]]
        places = [int(nth(core, np.uint64(k))) for k in range(int(core["buffered"]))]
        assert [tuple(buffer_rows(core)[place][:4].tolist()) for place in places] == naive
        meets = [k + 1 for k, (at, n, *_) in enumerate(naive) if at < address + size and address < at + n]
        newest = newest_overlap(core, np.uint64(address), np.uint64(size))
        assert int(newest) == (meets[-1] if meets else 0)
        if newest:
            at, n, *_ = naive[int(newest) - 1]
            whole = at <= address and address + size <= at + n
            assert bool(covers(core, newest, np.uint64(address), np.uint64(size))) == whole
        line = np.full(16, 0xEE, np.uint8)
        lay_over(core, np.uint64(16), line, np.uint64(count + 1))
        assert line.tobytes() == _overlaid(naive)
    assert int(core["committed"]) > 500


# -- what the machine shows ------------------------------------------------------------------------------


@pytest.mark.soak
def test_litmus_outcomes(tmp_path: Path) -> None:
    """Store buffering shows under TSO, nothing else does; under SC nothing at all."""
    seen = {"sc": 0, "tso": 0}
    for model in seen:
        for seed in range(4):
            plan = Plan("litmus", 4, seed, longest_slice=900, model=model, limit=6_000_000)
            printed, recording = recorded(tmp_path / f"{model}{seed}", plan)
            assert expectations().expectation("litmus", 4, model).allows(0, printed), printed
            assert recording.manifest.end is not None
            assert recording.manifest.end.exit_code == 0
            words = printed.split()
            seen[model] += int(words[words.index(b"sb") + 1])
    assert seen["sc"] == 0
    assert seen["tso"] > 0


def test_a_buffer_of_two_stores_reorders_too(tmp_path: Path) -> None:
    relaxed = 0
    for seed in range(4):
        plan = Plan("litmus", 2, seed, longest_slice=900, model="tso", store_buffer=2)
        printed, _ = recorded(tmp_path / str(seed), plan)
        relaxed += b"litmus: sb 0 " not in printed
    assert relaxed


def test_same_options_same_bytes_and_other_buffers_other_bytes(tmp_path: Path) -> None:
    plans = [Plan("uts", 4, 3, longest_slice=200, model="tso", store_buffer=n) for n in (8, 8, 2)]
    files: list[dict[str, bytes]] = []
    for k, plan in enumerate(plans):
        recorded(tmp_path / str(k), plan)
        files.append({file.name: file.read_bytes() for file in sorted((tmp_path / str(k)).iterdir())})
    assert files[0] == files[1]
    assert files[0]["core-1.log"] != files[2]["core-1.log"]


def test_the_log_tells_the_buffers_state(tmp_path: Path) -> None:
    _, recording = recorded(tmp_path / "rec", Plan("litmus", 2, 1, strata="downgrades:1", model="tso"))
    rows = np.concatenate([rows for rows, _ in iter_core_records(recording, 0)])
    strata, misses = rows[rows["kind"] == STRATUM], rows[rows["kind"] == MISS]
    assert strata["size"].max() > 0
    assert strata["size"].max() <= 16
    assert (np.diff(misses["value"].astype(np.int64)) >= 0).all()
    received = np.flatnonzero(rows["kind"] == RECEIVED)
    assert len(received) > 0
    assert (rows["kind"][received - 1] == MISS).all()
    assert (rows["addr"][received - 1] == rows["addr"][received]).all()


@pytest.mark.parametrize(("model", "buffer"), [("tso", 0), ("tso", 65), ("psO", 4)])
def test_models_that_there_are_not(tmp_path: Path, model: str, buffer: int) -> None:
    options = RecordOptions(cores=2, model=model, store_buffer=buffer)
    with pytest.raises(UsageError):
        record(IMAGES / "litmus.elf", tmp_path / "rec", X86_64, options, lambda _: None)
    assert not (tmp_path / "rec").exists()


# -- planted bugs ----------------------------------------------------------------------------------------

PLAN = Plan("uts", 3, 1, longest_slice=200, limit=150_000, model="tso", store_buffer=8)


def test_a_store_that_is_lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A buffer that forgets a store now and then: memory and truth no longer agree."""
    from emu.board import board as machine

    commit = machine.commit_between_slices

    def lossy(cores: Any, machines: Any) -> int:
        for core in cores:
            if core["buffered"] > 3:
                core["buffer_first"] = (int(core["buffer_first"]) + 1) % 256
                core["buffered"] -= 1
        return int(commit(cores, machines))

    monkeypatch.setattr(machine, "commit_between_slices", lossy)
    recorded(tmp_path / "rec", PLAN)
    with pytest.raises((Broken, OrderError, Divergence)):
        examine(tmp_path / "rec")


def test_a_wrong_number_of_committed_stores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stratum says that one store fewer has committed: the traced replay finds out."""
    _, recording = recorded(tmp_path / "rec", Plan("litmus", 2, 1, model="tso"))
    from recorder.replay import core

    read = core.iter_core_records

    def tampered(opened: Recording, number: int) -> Any:
        for rows, blob in read(opened, number):
            changed = rows.copy()
            changed["addr"][(rows["kind"] == STRATUM) & (rows["value"] == 3)] -= 1
            yield changed, blob

    monkeypatch.setattr(core, "iter_core_records", tampered)
    with pytest.raises(Divergence, match="store buffer at a stratum"):
        list(CoreReplay(recording, 0, traced=True).run())
