"""The list of mappings against a dictionary of pages."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from emu.linux.files.open_file import MappedFile
from emu.linux.memory.mappings import Mapping, Mappings

PAGE = 4096
LOW, HIGH = 16 * PAGE, 200 * PAGE


def _pages(mappings: Mappings) -> dict[int, tuple[int, str]]:
    found: dict[int, tuple[int, str]] = {}
    last = 0
    for mapping in mappings:
        assert last <= mapping.start < mapping.end
        last = mapping.end
        for page in range(mapping.start, mapping.end, PAGE):
            found[page] = (mapping.rights, mapping.name)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_random_mapping_and_unmapping(seed: int) -> None:
    """Inserting, cutting out, changing rights, asking: as with one entry a page."""
    source = random.Random(seed)
    mappings, model = Mappings(LOW, HIGH), dict[int, tuple[int, str]]()
    for _ in range(200):
        start = source.randrange(LOW // PAGE, HIGH // PAGE - 12) * PAGE
        end = start + source.randint(1, 12) * PAGE
        span = range(start, end, PAGE)
        choice = source.random()
        if choice < 0.4:
            mappings.remove(start, end)
            rights, name = source.randrange(8), source.choice(["", "[heap]"])
            mappings.insert(Mapping(start, end, rights, name=name))
            model.update(dict.fromkeys(span, (rights, name)))
        elif choice < 0.7:
            gone = mappings.remove(start, end)
            assert [p for m in gone for p in range(m.start, m.end, PAGE)] == [p for p in span if p in model]
            for page in span:
                model.pop(page, None)
        else:
            rights = source.randrange(8)
            for piece in mappings.remove(start, end):
                mappings.insert(replace(piece, rights=rights))
            model.update({p: (rights, model[p][1]) for p in span if p in model})
        assert _pages(mappings) == model
        assert mappings.covered(start, end) == all(page in model for page in span)
        assert mappings.free(start, end) == (not any(page in model for page in span))
        probe = source.randrange(LOW, HIGH)
        at = mappings.at(probe)
        assert (None if at is None else (at.rights, at.name)) == model.get(probe // PAGE * PAGE)


@pytest.mark.parametrize("seed", range(10))
def test_room_is_free_and_found_while_there_is_any(seed: int) -> None:
    """What is found is free; nothing is found only when no hole is large enough."""
    source, mappings = random.Random(seed), Mappings(LOW, HIGH)
    while True:
        pages = source.randint(1, 20)
        start = mappings.find_room(pages * PAGE, source.random() < 0.5)
        if start is None:
            break
        assert mappings.free(start, start + pages * PAGE)
        mappings.insert(Mapping(start, start + pages * PAGE, 3, name=str(source.random())))
        if source.random() < 0.3:
            victim = source.choice(list(mappings))
            mappings.remove(victim.start, victim.end)
    taken, run, longest = _pages(mappings), 0, 0
    for page in range(LOW + PAGE, HIGH, PAGE):
        run = 0 if page in taken else run + 1
        longest = max(longest, run)
    assert longest < pages


def test_neighbours_that_are_alike_become_one() -> None:
    """Rights, name and place in the file must fit."""
    mappings = Mappings(LOW, HIGH)
    mappings.insert(Mapping(LOW, LOW + PAGE, 3))
    mappings.insert(Mapping(LOW + 2 * PAGE, LOW + 3 * PAGE, 3))
    mappings.insert(Mapping(LOW + PAGE, LOW + 2 * PAGE, 3))
    assert [(m.start, m.end) for m in mappings] == [(LOW, LOW + 3 * PAGE)]
    mappings.insert(Mapping(LOW + 3 * PAGE, LOW + 4 * PAGE, 5))
    assert len(list(mappings)) == 2


@pytest.mark.parametrize("seed", range(10))
def test_room_below_is_the_highest_there_is(seed: int) -> None:
    """Whatever was looked for, mapped and unmapped before; and shared files are known at once."""
    source, mappings = random.Random(seed), Mappings(LOW, HIGH)
    for _ in range(300):
        pages, top = source.randint(1, 6), source.choice((HIGH, HIGH // 2))
        starts = range(top - pages * PAGE, LOW, -PAGE)
        wanted = next((start for start in starts if mappings.free(start, start + pages * PAGE)), None)
        assert mappings.room_below(pages * PAGE, top) == wanted
        if wanted is not None:
            file = source.choice((None, MappedFile()))
            shared = source.random() < 0.2
            mappings.insert(Mapping(wanted, wanted + pages * PAGE, 3, shared, file))
        if source.random() < 0.4 or wanted is None:
            gone = source.randrange(LOW // PAGE, HIGH // PAGE) * PAGE
            mappings.remove(gone, gone + source.randint(1, 30) * PAGE)
        assert mappings.shared_files == any(m.shared and m.file is not None for m in mappings)


def test_mappings_that_a_cut_adds() -> None:
    mappings = Mappings(LOW, HIGH)
    mappings.insert(Mapping(LOW, LOW + 4 * PAGE, 3))
    assert mappings.cut_by(LOW, LOW + 4 * PAGE) == 0
    assert mappings.cut_by(LOW, LOW + PAGE) == mappings.cut_by(LOW + 2 * PAGE, LOW + 9 * PAGE) == 1
    assert mappings.cut_by(LOW + PAGE, LOW + 2 * PAGE) == 2
