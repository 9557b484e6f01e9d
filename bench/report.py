"""Tables of results: on the terminal, and as Markdown and JSON files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

OUT = Path(__file__).resolve().parent / "out"

Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """A column's heading and how its cells are written: a format specification, "" for plain text."""

    name: str
    spec: str = ""

    def show(self, cell: Cell) -> str:
        """A cell as text; nothing for None. Text stays as it is in a column of numbers."""
        if cell is None:
            return ""
        return cell if isinstance(cell, str) else format(cell, self.spec)


@dataclass
class Table:
    """One table of results. key: its name in the JSON file. notes: what a reader must know, one line each."""

    key: str
    title: str
    columns: list[Column]
    notes: list[str] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        """Add a row, one cell a column."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns of {self.key}")
        self.rows.append(list(cells))

    def texts(self) -> list[list[str]]:
        """Every row as text."""
        return [
            [column.show(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows
        ]

    def markdown(self) -> str:
        """The table as Markdown, a heading above and the notes below."""
        lines = [f"### {self.title}", "", "| " + " | ".join(column.name for column in self.columns) + " |"]
        lines.append("|" + "|".join("---:" if column.spec else "---" for column in self.columns) + "|")
        lines += ["| " + " | ".join(row) + " |" for row in self.texts()]
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def print(self, console: Console, *, plain: bool = False) -> None:
        """The table on the terminal. plain: without lines between columns, for narrow pages."""
        lines = {"box": None, "padding": (0, 1, 0, 0)} if plain else {}
        shown = RichTable(title=None if plain else self.title, title_justify="left", **lines)  # type: ignore[arg-type]
        if plain:
            # The title of a table is broken at the table's width.
            console.print(self.title, highlight=False)
        for column in self.columns:
            shown.add_column(
                column.name, justify="right" if column.spec else "left", no_wrap=plain and bool(column.spec)
            )
        for row in self.texts():
            shown.add_row(*row)
        console.print(shown)
        for note in self.notes:
            console.print(f"  {note}", style="dim", highlight=False)


def publish(name: str, tables: list[Table], console: Console) -> None:
    """Print all tables and write them to OUT/<name>.md and OUT/<name>.json."""
    for table in tables:
        table.print(console)
    out = OUT
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.md").write_text("\n".join(table.markdown() for table in tables), encoding="utf-8")
    content = {
        table.key: {
            "title": table.title,
            "columns": [column.name for column in table.columns],
            "rows": table.rows,
            "notes": table.notes,
        }
        for table in tables
    }
    (out / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    console.print(f"written to {out.parent.name}/{out.name}/{name}.md and .json", highlight=False)
