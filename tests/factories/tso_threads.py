"""Small Linux programs of two and three threads, made by `clone` alone: by hand, or random ones.

An operation: ("r", place), ("w", place, value), ("inc", place): store what was last read, plus one; ("xchg",
place, value), ("fence",), ("call", number): one without arguments, which tells the kernel nothing; ("kernel",
place): one that has the kernel store 8 bytes; ("protect",): give the shared page the rights that it has;
("copy", place, place): 8 bytes, in one instruction; ("if",): leave out the next if what was read last is 0.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from guest import DATA, Code
from static_guest import call, static_program

#: Its first byte and its size: 1, 4 or 8.
Place = tuple[int, int]
Op = tuple
#: Threads have their logs in the page behind the shared one, or right behind the words, in the same line.
_PAGE, LOG, _STACK = 4096, 8, DATA + 0x8000
GETTID, GETPID, YIELD = 186, 39, 24
#: What the kernel stores for a thread: the base of its FS.
BASE = 0x5000
ACCESSES = ("r", "w", "inc", "xchg", "kernel", "copy")


@dataclass(frozen=True)
class Program:
    """words: addresses of the variables; done: of that which counts the threads that are through. logs: of
    each thread, where what its operations have read is kept, 8 bytes each."""

    threads: tuple[tuple[Op, ...], ...]
    words: tuple[int, ...]
    done: int
    logs: tuple[int, ...]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """What is printed at the end: first byte and size of its parts."""
        bottom = min((*self.words, self.done, *self.logs))
        top = max(log + LOG * len(ops) for log, ops in zip(self.logs, self.threads, strict=True))
        return [(bottom, max(top, self.done + 8) - bottom)]


# -- the program itself --------------------------------------------------------------------------------------


def linux_program(program: Program, path: Path) -> Path:
    """A static program that does this, and prints its spans when the last thread is through."""
    code, n = Code(), len(program.threads)
    for thread in range(1, n):
        call(code, 56, rdi=0x50F00, rsi=_STACK + 0x1000 * thread, rdx=0, r10=0)
        code.compare("rax", 0).jump_if("z", f"thread{thread}")
    for thread, ops in enumerate(program.threads):
        code.label(f"thread{thread}").mov("rbx", 0)
        if any(op[0] == "kernel" for op in ops):
            call(code, 158, rdi=0x1002, rsi=BASE + thread)
        for at, op in enumerate(ops):
            code.label(f"{thread}.{at}")
            _add(code, op, program, (thread, at))
        # lock xadd [done], rcx
        code.label(f"{thread}.{len(ops)}").mov("rcx", 1).raw("f0 48 0f c1 0c 25")
        code.raw(program.done.to_bytes(4, "little").hex())
        code.compare("rcx", n - 1).jump_if("z", "last")
        call(code, 60, rdi=0)
    code.label("last")
    for at, size in program.spans:
        call(code, 1, rdi=1, rsi=at, rdx=size)
    call(code, 231, rdi=0)
    return static_program(path, code)


def _add(code: Code, op: Op, program: Program, number: tuple[int, int]) -> None:
    kind, (thread, at) = op[0], number
    if kind == "fence":
        code.raw("0f ae f0")
    elif kind == "if":
        code.compare("rbx", 0).jump_if("z", f"{thread}.{at + 2}")
    elif kind == "call":
        call(code, op[1])
    elif kind == "protect":
        call(code, 10, rdi=DATA, rsi=_PAGE, rdx=3)
    elif kind == "kernel":
        call(code, 158, rdi=0x1003, rsi=op[1][0])
    elif kind == "copy":
        code.mov("rsi", op[1][0]).mov("rdi", op[2][0]).raw("48 a5")  # movsq
    elif kind in ("w", "inc"):
        if kind == "w":
            code.mov("rcx", op[2])
        else:
            code.raw("48 89 d9").add("rcx", 1)  # mov rcx, rbx
        code.store(op[1][0], "rcx", op[1][1])
    else:
        place, size = op[1]
        if kind == "r":
            code.load("rbx", place, size)
        else:
            code.mov("rbx", op[2]).emit("86" if size == 1 else "87", "rbx", place, wide=size == 8)
        code.store(program.logs[thread] + LOG * at, "rbx")


def with_logs(ops: Sequence[Op], log: int) -> Iterator[Op]:
    """What they read is kept, by stores that others do not see."""
    for at, op in enumerate(ops):
        yield op
        if op[0] in ("r", "xchg"):
            yield ("log", (log + LOG * at, LOG))


# -- random ones ---------------------------------------------------------------------------------------------


def random_threads(seed: int) -> Program:
    """Two or three threads with a few operations each, on one to three words in one line or several."""
    draw = random.Random(f"threads/{seed}")
    n = draw.choice((2, 2, 3))
    near, count = draw.random() < 0.5, draw.choice((1, 2, 2, 2, 3))
    apart = 8 if near else 64
    words = tuple(DATA + apart * k for k in range(count))
    done = DATA + apart * 3 if draw.random() < 0.5 else DATA + 0x100
    maps = draw.random() < 0.3
    least, most = {2: (2, 5), 3: (1, 3)}[n]
    threads = tuple(tuple(_ops(draw, words, draw.randint(least, most), maps)) for _ in range(n))
    logs = DATA + (_PAGE if maps or not near else 8 * 4)
    return Program(threads, words, done, tuple(logs + LOG * 8 * k for k in range(n)))


def _ops(draw: random.Random, words: Sequence[int], most: int, maps: bool) -> list[Op]:
    kinds = ["r", "r", "r", "w", "w", "w", "inc", "xchg", "if", "fence", "call", "kernel", "copy"]
    kinds += ["protect"] * maps
    ops: list[Op] = []
    while len(ops) < most:
        kind, place = draw.choice(kinds), _place(draw, draw.choice(words))
        if kind in ("fence", "protect"):
            ops.append((kind,))
        elif kind == "call":
            ops.append((kind, draw.choice((GETTID, GETPID, YIELD))))
        elif kind == "kernel":
            ops.append((kind, (place[0] & -8, 8)))
        elif kind == "copy":
            ops.append((kind, (place[0] & -8, 8), (draw.choice(words), 8)))
        elif kind in ("w", "xchg"):
            ops.append((kind, place, draw.randrange(1, 1 << min(8 * place[1], 16))))
        else:
            more = {"r": [], "inc": [("inc", _place(draw, draw.choice(words)))], "if": [("if",)]}[kind]
            ops += [("r", place), *more]
            if kind == "if":
                ops.append(("w", _place(draw, draw.choice(words)), 3))
    return ops


def _place(draw: random.Random, word: int) -> Place:
    size = draw.choice((8, 8, 4, 4, 1))
    return word + draw.choice({8: (0,), 4: (0, 0, 4), 1: (0, 0, 3, 4)}[size]), size
