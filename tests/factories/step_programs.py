"""Abstract programs (`abstract_programs`) as firmware: a core a task, an instruction an operation."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path

from abstract_programs import Op, ordered, random_access
from guest import CONSOLE_TX, DATA, Code, elf

from corebraid.study.conditions import Condition
from corebraid.study.exhaustive.forking import Made
from corebraid.study.exhaustive.search import Budget, Search, Searched
from corebraid.study.exhaustive.steps import PLACE, Step
from corebraid.study.subjects import Asked, subject_of

#: A variable a line; what is printed is a variable of the devices'.
PLACES = {name: DATA + 0x40 * k for k, name in enumerate("xyz")}
CONSOLE = "console"
Program = tuple[tuple[Op, ...], ...]
#: An execution: of each step that shares something, by its task and number, those before it.
Order = frozenset[tuple[tuple[int, int], frozenset[tuple[int, int]]]]


def random_cores(seed: int) -> Program:
    """Two or three cores with a few operations each, on few variables and the console."""
    draw = random.Random(f"cores/{seed}")
    n = draw.choice((2, 2, 3))
    names = list("xyz")[: draw.randint(1, 3)]
    return tuple(tuple(_random_core(draw, names, draw.randint(1, 4 if n == 2 else 2))) for _ in range(n))


def _random_core(draw: random.Random, names: list[str], length: int) -> list[Op]:
    ops: list[Op] = []
    while len(ops) < length:
        x, kind = draw.choice(names), draw.choice(("r", "r", "w", "w", "inc", "cas", "if", "print"))
        if kind == "print":
            ops.append(("w", CONSOLE, 64 + draw.randint(1, 9)))
        else:
            ops += random_access(draw, kind, x)
    return ops


def firmware_of(program: Program, path: Path) -> Path:
    """An image that does what the program says; each core parks at its end."""
    code = Code().split(*(f"core{k}" for k in range(len(program))))
    for task, ops in enumerate(program):
        code.label(f"core{task}").mov("rax", 0)
        for at, op in enumerate(ops):
            code.label(f"{task}.{at}")
            _add(code, op, f"{task}.{at + 1 + op[1]}" if op[0] == "if" else "")
        code.label(f"{task}.{len(ops)}").halt()
    return elf(path, code)


def _add(code: Code, op: Op, target: str) -> None:
    kind = op[0]
    if kind == "if":
        code.compare("rax", 0).jump_if("z", target)
    elif kind == "fence":
        code.raw("0f ae f0")
    elif op[1] == CONSOLE:
        code.device(CONSOLE_TX, op[2])
    elif kind == "r":
        code.load("rax", PLACES[op[1]])
    elif kind == "w":
        code.mov("rcx", op[2]).store(PLACES[op[1]], "rcx")
    elif kind == "inc":
        code.raw("48 89 c1").add("rcx", 1).store(PLACES[op[1]], "rcx")
    else:
        # lock cmpxchg: rax is what was there, whether it was exchanged or not
        code.mov("rax", op[2]).mov("rcx", op[3])
        code.raw("f0 48 0f b1 0c 25").raw(PLACES[op[1]].to_bytes(4, "little").hex())


def search(
    image: Path,
    cores: int,
    until: Iterable[str] = ("exit==99",),
    told: Callable[[Made], None] = lambda made: None,
    *,
    preemptions: int | None = None,
    data: bytes = b"",
    runs: int | None = None,
    model: str = "sc",
    store_buffer: int | None = None,
) -> Searched:
    """All executions of an image. told: called with each run."""
    subject = subject_of(
        Asked(
            str(image),
            cores=cores,
            schedule="chaos",
            evidence="none",
            input=data,
            memory=4 << 20,
            model=model,
            store_buffer=store_buffer,
        )
    )

    class Telling(Search):
        def _failing(self, made: Made):  # type: ignore[no-untyped-def]
            told(made)
            return super()._failing(made)

    conditions = tuple(map(Condition.parse, until))
    return Telling(subject, conditions, preemptions, Budget(runs), lambda made, left: None).run()


def is_place(key: object) -> bool:
    """Whether a step that uses this needs a byte to be mapped, and no more."""
    return isinstance(key, tuple) and key[0] == PLACE


def shared_order(steps: Iterable[Step], names: frozenset[str] | None = None) -> Order:
    """The order of those steps that share something, by the definition. names: of an abstract program, the
    variables that count; the others order steps all the same."""
    kept, before, numbers = list(steps), list[set[int]](), list[tuple[int, int] | None]()
    for k, step in enumerate(kept):
        direct = {j for j in range(k) if ordered(kept, j, k)}
        before.append(direct.union(*(before[j] for j in direct)))
        uses = step.footprint.uses
        counts = any(key in names if names is not None else not is_place(key) for key in uses)
        number = sum(one is not None and one[0] == step.task for one in numbers)
        numbers.append((step.task, number) if counts else None)
    return frozenset(
        (name, frozenset(other for j in some if (other := numbers[j]) is not None))
        for name, some in zip(numbers, before, strict=True)
        if name is not None
    )
