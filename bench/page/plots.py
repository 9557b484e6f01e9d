"""Plots of the page's tables, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.report import Table
from corebraid.base.errors import UsageError

#: Without these the same figures would not give the same file.
_SAME = {"Date": None, "Creator": None}


def need_matplotlib() -> None:
    """Raises UsageError where it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("matplotlib is not installed", remedy="pip install 'corebraid[dev]'") from None


def _numbers(table: Table, column: str) -> list[float]:
    at = [one.name for one in table.columns].index(column)
    return [value if isinstance(value := row[at], (int, float)) else float("nan") for row in table.rows]


def draw_bars(table: Table, columns: Sequence[str], unit: str, target: Path) -> None:
    """A group of bars for each row, on a logarithmic scale. columns: headings."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4))
    width = 0.8 / len(columns)
    for k, column in enumerate(columns):
        at = [row + (k + 0.5) * width - 0.4 for row in range(len(table.rows))]
        axes.bar(at, _numbers(table, column), width, label=column)
    axes.set_yscale("log")
    axes.set_xticks(range(len(table.rows)), [str(row[0]) for row in table.rows], rotation=30, ha="right")
    _finish(figure, axes, table.title, unit, target)


def draw_lines(table: Table, across: str, columns: Sequence[str], unit: str, target: Path) -> None:
    """A line for each column over the one called `across`, both scales logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4))
    for column in columns:
        axes.plot(_numbers(table, across), _numbers(table, column), marker="o", label=column)
    axes.set_xscale("log", base=2 if across == "cores" else 10)
    axes.set_yscale("log")
    axes.set_xlabel(across)
    _finish(figure, axes, table.title, unit, target)


def _finish(figure, axes, title: str, unit: str, target: Path) -> None:  # type: ignore[no-untyped-def]
    import matplotlib
    import matplotlib.pyplot as plt

    axes.set_title(title, fontsize=10)
    axes.set_ylabel(unit)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    with matplotlib.rc_context({"svg.hashsalt": "corebraid"}):
        figure.savefig(target, metadata=_SAME)
    plt.close(figure)
