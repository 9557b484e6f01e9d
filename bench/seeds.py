"""The headline tables of the five papers on our programs, ours beside theirs, with plots and a page in docs/.

The tables are those that `python -m bench rerun`, `linkage`, `leap`, `waits`, `lightplay`, `opr` and `rpc`
have measured last (bench/out/*.json); what recording with evidence costs is measured here. What has not been
measured is measured first.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.evidence_cost import evidence_cost
from bench.report import OUT, publish
from corebraid.base.errors import UsageError

DOCS = Path(__file__).resolve().parent.parent / "docs"
PLOTS = DOCS / "plots"


@dataclass(frozen=True)
class Plot:
    """A bar plot of columns of one table. file: of bench/out, without .json. where: a row's condition."""

    file: str
    table: str
    title: str
    columns: tuple[str, ...]
    label: Callable[[dict[str, Any]], str]
    where: Callable[[dict[str, Any]], bool] = lambda _: True
    logarithmic: bool = False


def _program_and_cores(row: dict[str, Any]) -> str:
    return f"{row['program']} {row['cores']}"


PLOT_LIST = (
    Plot(
        "rerun",
        "rerun",
        "Strata and ReRun's race log: bytes per thousand accesses",
        ("strata", "ReRun, ideal", "ReRun, Bloom", "ReRun, Bloom, all asked"),
        _program_and_cores,
        logarithmic=True,
    ),
    Plot(
        "rerun",
        "slowdown",
        "Modelled slowdown of recording",
        ("plain", "prioritised"),
        _program_and_cores,
    ),
    Plot(
        "linkage",
        "size",
        "Stride, LEAP, Global: bytes per thousand accesses (4 cores, lines)",
        ("LEAP", "Global", "+ follow"),
        lambda row: str(row["program"]),
        lambda row: row["group"] == "line",
        logarithmic=True,
    ),
    Plot(
        "linkage",
        "size",
        "Stride's compressions: bytes per thousand accesses (8 cores, words)",
        ("none", "+ predictor", "+ runs", "+ double", "+ follow"),
        lambda row: str(row["program"]),
        lambda row: row["cores"] == 8,
        logarithmic=True,
    ),
    Plot(
        "waits",
        "waits",
        "Stride, LEAP, Global: modelled overhead (variables are words)",
        ("LEAP", "Global", "Stride"),
        _program_and_cores,
        lambda row: row["variable"] == "word",
        logarithmic=True,
    ),
    Plot(
        "lightplay",
        "lightplay_log",
        "LightPlay: bytes of log against logs of the total order",
        ("slices, LZ4", "order, LZ4", "runs, raw", "with values, LZ4"),
        _program_and_cores,
        logarithmic=True,
    ),
    Plot(
        "lightplay",
        "lightplay_search",
        "LightPlay: milliseconds to search a slice with a race",
        ("cpu, ms a slice", "cut, ms a slice"),
        _program_and_cores,
        logarithmic=True,
    ),
    Plot(
        "opr",
        "opr-cost",
        "OPR: recording a group of 64 cores over recording without evidence",
        ("group 2", "group 4", "group 8", "group 16"),
        lambda row: str(row["program"]),
    ),
    Plot(
        "opr",
        "opr-score",
        "OPR: who communicated with whom, exact clocks",
        ("precision", "recall"),
        lambda row: f"{row['program']} {row['group']} of {row['cores']}",
        lambda row: row["clocks"] == "exact",
    ),
)
#: Benchmarks whose tables are shown, and their modules.
MODULES = {
    "rerun": "rerun_tables",
    "linkage": "linkage",
    "leap": "linkage_leap",
    "waits": "linkage_waits",
    "lightplay": "lightplay",
    "opr": "opr",
    "rpc": "rpc",
}
#: A plot that its own benchmark draws, and its name in docs/plots.
OWN_PLOT = ("rpc.png", "rpc-overhead.png")


def plot_names() -> dict[str, Plot]:
    """The plots by their files in docs/plots."""
    return {f"{plot.file}-{number}.png": plot for number, plot in enumerate(PLOT_LIST)}


def _measure(name: str, console: Console) -> None:
    """Run another benchmark whose results the page needs."""
    import importlib

    importlib.import_module(f"bench.{MODULES[name]}").main(console)


def _rows(name: str, key: str) -> list[dict[str, Any]]:
    """The rows of a table that has been measured, by column."""
    table = json.loads((OUT / f"{name}.json").read_text())[key]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def draw(plot: Plot, target: Path) -> None:
    """One plot as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in _rows(plot.file, plot.table) if plot.where(row)]
    figure, axes = plt.subplots(figsize=(9, 3.6), dpi=100)
    width = 0.8 / len(plot.columns)
    for k, column in enumerate(plot.columns):
        at = [i + k * width for i in range(len(rows))]
        axes.bar(at, [row[column] or 0 for row in rows], width, label=column)
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(rows))])
    axes.set_xticklabels([plot.label(row) for row in rows], rotation=60, ha="right", fontsize=8)
    if plot.logarithmic:
        axes.set_yscale("log")
    axes.set_title(plot.title, fontsize=10)
    axes.legend(fontsize=8)
    figure.tight_layout()
    # Without the date and the version of what drew it, so that the same figures give the same file.
    figure.savefig(target, metadata={"Software": None})
    plt.close(figure)


def main(console: Console, others: tuple[str, ...] = tuple(MODULES)) -> None:
    """Measure what is missing, publish the tables, draw, and write docs/seeds.md."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("matplotlib is not installed", remedy="pip install 'corebraid[dev]'") from None
    publish("seeds", [evidence_cost()], console)
    for name in others:
        if not (OUT / f"{name}.json").exists():
            _measure(name, console)
    PLOTS.mkdir(exist_ok=True)
    page = [HEAD]
    for name in (*others, "seeds"):
        page.append((OUT / f"{name}.md").read_text(encoding="utf-8"))
        for file, plot in plot_names().items():
            if plot.file == name:
                draw(plot, PLOTS / file)
                page.append(f"![{plot.title}](plots/{file})\n")
        own, shown = OWN_PLOT
        if name == "rpc" and (OUT / own).exists():
            shutil.copyfile(OUT / own, PLOTS / shown)
            page.append(f"![Recording overhead of receipt histories](plots/{shown})\n")
    (DOCS / "seeds.md").write_text("\n".join(page), encoding="utf-8")
    console.print("written to docs/seeds.md and docs/plots/", highlight=False)


HEAD = """# The papers' tables, on our programs

Made by `python -m bench seeds`, from what `python -m bench rerun`, `linkage`, `leap`, `waits`, `lightplay`,
`opr` and `rpc` measure. Ours beside the papers' figures: what each measured on its own programs and machine
stands in the notes under the tables. The machine here is the emulated one of this repository, and its cores
take turns; a ratio of two logs of the same run means something, a number by itself less. What ours cannot
show is said under the table.
"""
