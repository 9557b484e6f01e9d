"""docs/seeds.md is made by the code as it stands: its tables have the titles, columns and notes of today."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from bench import (
    evidence_cost,
    lightplay,
    linkage,
    linkage_late,
    linkage_leap,
    linkage_waits,
    opr,
    report,
    rerun_tables,
    rpc,
    seeds,
)
from bench.report import Column, Table, publish


def empty_tables() -> Iterator[Table]:
    """All tables of the page, in its order, without rows."""
    yield from rerun_tables.rerun_tables()
    yield rerun_tables.costs_table()
    yield from (linkage.size_table(), linkage.lock_table())
    yield linkage_late.late_table(())
    yield linkage.cost_table()
    yield from linkage_leap.leap_tables((), ())
    yield from (linkage_waits.waits_table(), linkage_waits.costs_table(8))
    yield lightplay.log_table((), lightplay.CORES, lightplay.SEEDS)
    yield lightplay.time_table((), (), 3)
    yield lightplay.search_table((), (), ())
    yield lightplay.speed_table((), 3)
    yield from opr.measure((), opr.CORES, opr.GROUPS, 8, 3)
    yield from (rpc.overhead_table([]), rpc.control_table(()))
    yield evidence_cost.evidence_cost(())


def test_the_page_is_what_the_code_makes() -> None:
    """Whoever changes what a table says or has for columns makes the page again."""
    page = (seeds.DOCS / "seeds.md").read_text(encoding="utf-8")
    assert page.startswith(seeds.HEAD)
    titles = []
    for table in empty_tables():
        head, *notes = table.markdown().split("\n\n")[1:]
        titles.append(table.title)
        section = page.partition(f"### {table.title}\n")[2].partition("\n### ")[0]
        shown = section.split("\n![")[0].strip().split("\n\n")
        assert shown[0].splitlines()[:2] == head.rstrip().splitlines(), table.title
        assert len(shown[0].splitlines()) > 2, table.title
        assert [note.rstrip() for note in notes] == shown[1:], table.title
    assert [line[4:] for line in page.splitlines() if line.startswith("### ")] == titles
    for name in seeds.plot_names():
        assert f"](plots/{name})" in page
        assert (seeds.PLOTS / name).exists()


def test_a_note_that_was_changed_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linkage_leap, "_NOTES", [*linkage_leap._NOTES, "Another."])
    with pytest.raises(AssertionError):
        test_the_page_is_what_the_code_makes()


def test_only_what_is_not_there_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, docs = tmp_path / "out", tmp_path / "docs"
    docs.mkdir()
    for module in (report, seeds):
        monkeypatch.setattr(module, "OUT", out)
    monkeypatch.setattr(seeds, "DOCS", docs)
    monkeypatch.setattr(seeds, "PLOTS", docs / "plots")
    cost = Table("cost", "Evidence", [Column("program")], rows=[["none"]])
    monkeypatch.setattr(seeds, "evidence_cost", lambda: cost)
    measured = []

    def waits(console: Console) -> None:
        measured.append("waits")
        table = linkage_waits.waits_table()
        table.add("ring", "word", 2, 10, 0.5, 1.0, 0.3, 0.2, 0.1, 3.0, 2.0, 0.5, 0.4, 0.0)
        publish("waits", [table], console)

    monkeypatch.setattr(linkage_waits, "main", waits)
    console = Console(file=io.StringIO(), width=200)
    for _ in range(2):
        seeds.main(console, ("waits",))
    assert measured == ["waits"]
    page = (docs / "seeds.md").read_text(encoding="utf-8")
    assert page.startswith(seeds.HEAD)
    assert "| ring | word | 2 | 10 | 50% | 1.00 | 0.30 | 0.20 | 0.10 | 3.0 | 2.0 | 50% | 40% | 0% |" in page
    assert page.index("### Stride, LEAP, Global: overhead") < page.index("### Evidence")
    plot = docs / "plots" / "waits-4.png"
    assert plot.read_bytes().startswith(b"\x89PNG")
