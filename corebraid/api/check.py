"""`corebraid.check`: is a memory trace legal, one answer a trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from corebraid.api.asked import check_seconds, check_text
from corebraid.base.errors import UsageError

if TYPE_CHECKING:
    from solver.axe.answers import Checked, CheckProgress

_ENGINES = ("auto", "search", "smt")


def check(
    file: Path | str | BinaryIO,
    *,
    model: str,
    timeout: float = 60.0,
    engine: str = "auto",
    hints: bool = True,
    explain: bool = False,
    progress: CheckProgress | None = None,
) -> Iterator[Checked]:
    """Say of each trace of a file in the text format of the axe checker whether it is legal (docs/axe.md).

    file: a path, or a file that is open for reading bytes. model: "sc" or "tso". timeout: seconds for one
    trace. engine: "auto", "search" or "smt". hints: whether comments may have any. explain: find of each
    illegal trace a small part that is illegal. Raises FormatError, while the traces are read; UsageError.
    """
    check_text("model", model)
    check_seconds("timeout", timeout)
    if model.lower() not in ("sc", "tso"):
        raise UsageError("no such memory model", expected="sc or tso", found=model)
    if engine not in _ENGINES:
        raise UsageError("no such engine", expected=", ".join(_ENGINES), found=engine)
    from solver.axe.answers import CheckProgress, iter_answers

    source = Path(file) if isinstance(file, str) else file
    return iter_answers(
        source,
        model.lower(),
        timeout_s=timeout,
        engine=engine,
        hints=hints,
        explained=explain,
        show=progress or CheckProgress(),
    )
