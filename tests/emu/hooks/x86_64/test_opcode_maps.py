"""Every opcode behind every prefix, with all operands, against the processor of this host: what it computes,
the signal that it is, or that it is refused by name. And two instructions, one after the other.

`make soak` tries all; here is a sample. What may differ is what docs/processor.md has (`documented`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from engine_suite import SOAK
from opcode_maps import MAPS, PREFIXES, documented, map_forms, sequences
from opcode_sweep import Swept, differences_alone, sweep
from vectors import NATIVE, Form

pytestmark = pytest.mark.skipif(not NATIVE, reason="only an x86-64 processor can say what one does")

#: What ends a recording by name.
_REFUSED = ("an instruction that would be computed wrongly", "an instruction that the decoder does not know",
            "a segment register loaded with a selector", "a switch to 32-bit code")  # fmt: skip
_OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"slice": 1}, {"bus": "mesi", "slice": 1}, {"bus": "mesi", "slice": 7}, {"bus": "mesi", "slice": 50},
    {"model": "tso", "slice": 1}, {"model": "tso", "slice": 7},
)  # fmt: skip

#: Differences that are looked at once more, each by itself.
_LOOKED_AT = 20


def tried(forms: Sequence[str], states: int, seed: int, folder: Path, **options: Any) -> Swept:
    """A sweep of which only documented differences came."""
    swept = sweep(forms, states, seed, folder, **options)
    left = [one for one in swept.differences if not documented(one[0], one[2])]
    told = []
    for number, (form, state, _) in enumerate(left[:_LOOKED_AT]):
        (folder / f"alone {number}").mkdir()
        if what := differences_alone(form, state, folder / f"alone {number}", **options):
            told.append(f"seed {seed}: {form.text} ({form.name}) of {state}: {what}")
    assert not told, told
    assert len(left) <= _LOOKED_AT
    other = {form: why for form, why in swept.refused.items() if not any(known in why for known in _REFUSED)}
    assert not other
    return swept


def test_a_sample_of_the_opcode_maps(tmp_path: Path) -> None:
    rng = random.Random(11)
    forms = [form for map_ in MAPS for form in rng.sample(map_forms(map_, range(256), PREFIXES), 100)]
    swept = tried(forms, 2, 11, tmp_path)
    assert swept.vectors > 500
    assert 5 < len(swept.refused) < 100


@pytest.mark.parametrize("options", _OPTIONS, ids=str)
@pytest.mark.sampled(1)
def test_a_sample_of_sequences(options: dict[str, Any], tmp_path: Path) -> None:
    assert tried(sequences(12, 300 * SOAK), 2, 12, tmp_path, **options).vectors > 500


def test_what_is_not_documented_is_found(tmp_path: Path) -> None:
    """An approximation is another one here; nothing else is covered by that. Alone it is another one, too."""
    found = sweep(["0f 52 07", "90"], 8, 13, tmp_path)
    form, state, what = found.differences[0]
    assert differences_alone(form, state, tmp_path) == what
    assert {documented(form, what) for form, _, what in found.differences} == {"approximations"}
    for names in (
        ["registers[0]: 1, the processor 2"],
        ["signal: 0x200000004, the processor 0x0"],
        ["rsp: 1, 2"],
    ):
        assert not documented(Form("01 07"), names)


@pytest.mark.soak
@pytest.mark.parametrize("map_", MAPS)
@pytest.mark.parametrize("first", range(0, 256, 16))
def test_the_opcode_maps(map_: str, first: int, tmp_path: Path) -> None:
    for opcode in range(first, first + 16):
        folder = tmp_path / f"{opcode:02x}"
        folder.mkdir()
        if forms := map_forms(map_, [opcode], PREFIXES):
            tried(forms, 2 * SOAK, opcode, folder)


@pytest.mark.soak
@pytest.mark.parametrize("options", _OPTIONS, ids=str)
@pytest.mark.parametrize("part", range(8))
def test_many_sequences(part: int, options: dict[str, Any], tmp_path: Path) -> None:
    assert tried(sequences(1000 + part, 3000 * SOAK), 2, part, tmp_path, **options).vectors > 5000
