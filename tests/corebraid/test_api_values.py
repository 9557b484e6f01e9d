"""A value that makes no sense is told in Python's words, and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_factory import FIRMWARE

import corebraid

WRONG_VALUES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("order", (), {"constraints": "x"}),
    ("order", (), {"constraints": None}),
    ("order", (), {"jobs": 10**6}),
    ("order", (), {"jobs": 0}),
    ("order", (), {"encoding": "none"}),
    ("order", (), {"count_budget": -1}),
    ("order", (), {"choose": 5}),
    ("order", (), {"region_timeout": float("nan")}),
    ("order", (), {"engine": "linkage", "choose": "fewest-switches"}),
    ("pairs", (), {"constraints": "x"}),
    ("pairs", (), {"only": "may"}),
    ("pairs", (), {"only": ["x"]}),
    ("pairs", (), {"limit": -1}),
    ("pairs", (), {"region": -1}),
    ("pairs", (), {"budget": "x"}),
    ("pairs", (), {"region_timeout": float("nan")}),
    ("witness", (5,), {}),
    ("replay", (0,), {"until": -1}),
    ("replay", (0,), {"until": 2**70}),
    ("replay", ("1",), {}),
    ("trace", (), {"kind": ["W"]}),
    ("trace", (), {"limit": -1}),
    ("verify", (), {"jobs": -1}),
]


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A firmware image with all evidence."""
    path = tmp_path_factory.mktemp("values") / "rec"
    corebraid.record(FIRMWARE / "fig1.elf", path, cores=2, evidence="all", strata="cycles:3000")
    return path


@pytest.mark.parametrize(("name", "given", "options"), WRONG_VALUES, ids=str)
def test_a_value_that_makes_no_sense_is_told(
    name: str, given: tuple[Any, ...], options: dict[str, Any], rec: Path
) -> None:
    before = {path: path.read_bytes() for path in rec.iterdir()}
    with pytest.raises(corebraid.CorebraidError) as caught:
        getattr(corebraid, name)(rec, *given, **options)
    assert caught.value.exit_code == 2
    assert "--" not in str(caught.value)
    assert {path: path.read_bytes() for path in rec.iterdir()} == before


@pytest.mark.parametrize(
    "options",
    [
        {"cores": "2"}, {"memory": "4M"}, {"input": "text"}, {"slice": 0}, {"limit": 0}, {"time_limit": -1},
        {"clock": "x"}, {"seed": -1}, {"seed": None}, {"strata": 5}, {"cache": 5}, {"schedule": None},
        {"evidence": ["all"]}, {"rset": [0]}, {"arguments": "hello"}, {"arguments": [5]}, {"env": [5]},
        {"slice_accesses": "x"}, {"directory": "a\0b"},
    ],
    ids=str,
)  # fmt: skip
def test_record_tells_what_it_cannot_be_given(options: dict[str, Any], tmp_path: Path) -> None:
    place = {"directory": tmp_path / "new", **options}
    with pytest.raises(corebraid.CorebraidError) as caught:
        corebraid.record(FIRMWARE / "fig1.elf", **place)
    assert caught.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [None, 5, b"rec"], ids=str)
@pytest.mark.parametrize("name", ["info", "order", "verify", "open_recording"])
def test_what_is_no_path_is_told(name: str, given: Any) -> None:
    with pytest.raises(corebraid.CorebraidError, match="not a value of recording"):
        getattr(corebraid, name)(given)
