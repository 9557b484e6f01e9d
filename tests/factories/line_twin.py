"""Lines of a model of time, written down anew: who has each, and whether alone."""

from __future__ import annotations


class Lines:
    """Lines by any name. transfer: cycles of one that a core has to get."""

    def __init__(self, transfer: int) -> None:
        self._transfer = transfer
        self._lines: dict[object, tuple[set[int], bool]] = {}

    def get(self, line: object, core: int, alone: bool) -> int:
        """Cycles for which a core gets a line, to read or for itself alone; 0 if it has it so."""
        who, only = self._lines.get(line, (set(), False))
        if core in who and (only or not alone):
            return 0
        self._lines[line] = ({core}, True) if alone else (who | {core}, False)
        return self._transfer
