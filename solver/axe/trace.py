"""One trace of the axe format, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

#: Kinds of an operation. RMW reads and writes one location at once.
LOAD, STORE, RMW, SYNC = 0, 1, 2, 3


@dataclass(frozen=True)
class Trace:
    """The operations of one trace in the order of the file, n of them; a thread's are in program order.

    name: its comment, '' if none. line: of its first operation or end. thread: int32 (n,), index into
    `threads` (uint64, ascending). kind: uint8 (n,). address: int32 (n,), index into `addresses` (uint64,
    ascending), -1 for SYNC. read, written: uint64 (n,), 0 where there is none. begin, end: int64 (n,), time
    stamps, -1 where there is none; neither SC nor TSO uses them. lines: int64 (n,), line numbers.
    final_address: int32 (f,), index into `addresses`; final_value: uint64 (f,); final_lines: int64 (f,).

    Hints, which are no part of what is asked (docs/axe.md): hinted: bool (n,), stores of which `old`, uint64
    (n,), says what they overwrote. part_of: int32 (n,), the number of the part of the run in which an
    operation took effect, -1 if it is not said. edges: int64 (m, 2), operations of which the first is said to
    have taken effect before the second.

    said: the same for traces that differ in `name` and line numbers alone; b'' where nobody compares them.
    """

    name: str
    line: int
    thread: NDArray[np.int32]
    kind: NDArray[np.uint8]
    address: NDArray[np.int32]
    read: NDArray[np.uint64]
    written: NDArray[np.uint64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    lines: NDArray[np.int64]
    threads: NDArray[np.uint64]
    addresses: NDArray[np.uint64]
    final_address: NDArray[np.int32]
    final_value: NDArray[np.uint64]
    final_lines: NDArray[np.int64]
    hinted: NDArray[np.bool_]
    old: NDArray[np.uint64]
    part_of: NDArray[np.int32]
    edges: NDArray[np.int64]
    said: bytes = b""

    @property
    def n_ops(self) -> int:
        """Number of operations."""
        return len(self.kind)

    @property
    def has_hints(self) -> bool:
        """Whether anything is said of how it ran."""
        return bool(self.hinted.any() or (self.part_of >= 0).any() or len(self.edges))

    def part(self, ops: NDArray[np.bool_], finals: NDArray[np.bool_]) -> Trace:
        """The trace of some of the operations and final constraints; threads and addresses stay numbered.
        Without hints: of what is left they may be wrong."""
        columns = ("thread", "kind", "address", "read", "written", "begin", "end", "lines")
        return replace(
            self,
            **{name: getattr(self, name)[ops] for name in columns},
            final_address=self.final_address[finals],
            final_value=self.final_value[finals],
            final_lines=self.final_lines[finals],
            hinted=np.zeros(int(ops.sum()), np.bool_),
            old=self.old[ops],
            part_of=np.full(int(ops.sum()), -1, np.int32),
            edges=np.empty((0, 2), np.int64),
            said=b"",
        )

    def op_text(self, op: int) -> str:
        """An operation as the format writes it, without time stamps."""
        thread, kind = int(self.threads[self.thread[op]]), int(self.kind[op])
        if kind == SYNC:
            return f"{thread}: sync"
        where = f"M[{int(self.addresses[self.address[op]])}]"
        if kind == LOAD:
            return f"{thread}: {where} == {int(self.read[op])}"
        if kind == STORE:
            return f"{thread}: {where} := {int(self.written[op])}"
        return f"{thread}: {{ {where} == {int(self.read[op])}; {where} := {int(self.written[op])} }}"

    def final_text(self, number: int) -> str:
        """A final constraint as the format writes it."""
        where = int(self.addresses[self.final_address[number]])
        return f"final M[{where}] == {int(self.final_value[number])}"
