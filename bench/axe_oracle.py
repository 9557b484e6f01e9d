"""The oracle of `corebraid check`: the abstract machines of the axe manual (sections 4.1, 4.2), every step a
choice, every state visited. No chain, no rule, no deduction; only for small traces."""

from __future__ import annotations

from bench.axe_traces import Final, Op
from solver.axe.trace import LOAD, RMW, STORE

_State = tuple[tuple[int, ...], tuple[tuple[tuple[int, int], ...], ...], tuple[tuple[int, int], ...]]


def is_legal(ops: list[Op], finals: list[Final], *, tso: bool) -> bool:
    """Whether some path of the machine runs the whole trace and ends with the final values."""
    threads = sorted({op[0] for op in ops})
    programs = [[op for op in ops if op[0] == thread] for thread in threads]
    empty: tuple[tuple[int, int], ...] = ()
    start: _State = ((0,) * len(programs), (empty,) * len(programs), empty)
    todo, seen = [start], {start}
    while todo:
        state = todo.pop()
        position, buffers, memory = state
        done = all(p == len(program) for p, program in zip(position, programs, strict=True))
        if done and not any(buffers) and all(dict(memory).get(a, 0) == v for a, v in finals):
            return True
        for following in _steps(state, programs, tso):
            if following not in seen:
                seen.add(following)
                todo.append(following)
    return False


def _steps(state: _State, programs: list[list[Op]], tso: bool) -> list[_State]:
    position, buffers, memory = state
    steps = []
    for t, program in enumerate(programs):
        if buffers[t]:
            (a, v), rest = buffers[t][0], buffers[t][1:]
            steps.append((position, (*buffers[:t], rest, *buffers[t + 1 :]), _stored(memory, a, v)))
        if position[t] < len(program):
            went = (*position[:t], position[t] + 1, *position[t + 1 :])
            after = _execute(program[position[t]], buffers[t], memory, tso)
            if after is not None:
                buffer, left = after
                steps.append((went, (*buffers[:t], buffer, *buffers[t + 1 :]), left))
    return steps


_Pairs = tuple[tuple[int, int], ...]


def _execute(op: Op, buffer: _Pairs, memory: _Pairs, tso: bool) -> tuple[_Pairs, _Pairs] | None:
    """(buffer, memory) after an operation; None if it cannot run now."""
    _, kind, a, read, written = op
    held = dict(memory).get(a, 0)
    if kind == STORE:
        return ((*buffer, (a, written)), memory) if tso else (buffer, _stored(memory, a, written))
    if kind == LOAD:
        own = [v for b, v in buffer if b == a]
        return (buffer, memory) if (own[-1] if own else held) == read else None
    if buffer:
        return None
    if kind == RMW:
        return (buffer, _stored(memory, a, written)) if held == read else None
    return buffer, memory


def _stored(memory: _Pairs, a: int, v: int) -> _Pairs:
    return tuple(sorted({**dict(memory), a: v}.items()))
