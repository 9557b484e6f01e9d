"""Every opcode with prefixes and operands, legal or not, against the processor: a sweep over the opcode maps.

A vector's instruction may fault, jump, push and pop. The program has a stack of its own, whose words lead
back, and handlers that note all that a signal tells.
"""

from __future__ import annotations

import bisect
import random
import re
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guest import DATA, Code
from instruction_forms import decode, random_state, shape
from static_guest import call, static_program
from vectors import NAMES, Form, Result, State, in_batches

import corebraid

_MEMORY, _FXSAVE, _SIZE, _BATCH = 192, 256, 768, 32
_FLAGS = 8 + 8 * len(NAMES)
#: Words of a block that say how the instruction ended.
_SIGNAL, _ADDRESS, _AT, _ERROR, _FRAME_FLAGS, _RSP, _PUSHED = range(_FLAGS + 8, _FLAGS + 64, 8)
_WORDS = ("signal", "address", "at", "error", "flags in the frame", "rsp", "pushed")
#: The stack has 64 KiB for itself: whatever is written to sp leads to zeros.
_BLOCKS, _STACK, _OWN_STACK, _DATA = DATA, DATA + 0x18000, DATA + 0xF800, 0x20000
_CURRENT, _LEFT, _SAVED, _ACTION = DATA + 0xF000, DATA + 0xF008, DATA + 0xF010, DATA + 0xF040
#: SA_SIGINFO, SA_ONSTACK, SA_NODEFER, SA_RESTORER.
_ACTION_FLAGS = 0x4 | 0x08000000 | 0x40000000 | 0x04000000
#: In a signal's context.
_RIP, _EFLAGS, _CODE_OF_ERROR, _TRAP = 168, 176, 192, 200
#: Of a page fault's error code what depends on which pages were used before; TF, RF and AC of flags.
_PRESENT, _RESUMED = 1, 0x50100
_MASK = (1 << 64) - 1


class SweepProgram:
    """The program for some forms, in a folder."""

    def __init__(self, folder: Path, forms: Sequence[str]) -> None:
        code, self.forms = Code(), list(forms)
        self._handler(code)
        in_batches(code, _BATCH, self._vector)
        self._nothing = code.here
        code.raw("c3")
        self._stubs = []
        for form in forms:
            self._stubs.append(code.here)
            code.raw(form).raw("c3")
        self.program = static_program(folder / "sweep", code, _DATA)

    @staticmethod
    def _handler(code: Code) -> None:
        code.jump("begin").label("handler").load("rcx", _CURRENT)
        code.load("rax", ("rsi", 8), 4).raw("48 c1 e0 20 48 09 f8").store(("rcx", _SIGNAL), "rax")
        code.load("rax", ("rsi", 16)).store(("rcx", _ADDRESS), "rax")
        code.load("rax", ("rdx", _RIP)).emit("2b", "rax", ("rcx", 0)).store(("rcx", _AT), "rax")
        code.load("rax", ("rdx", _TRAP), 4).raw("48 c1 e0 20").emit("0b", "rax", ("rdx", _CODE_OF_ERROR))
        code.store(("rcx", _ERROR), "rax")
        code.load("rax", ("rdx", _EFLAGS)).store(("rcx", _FRAME_FLAGS), "rax")
        code.raw("48 25").raw(struct.pack("<i", ~_RESUMED).hex()).store(("rdx", _EFLAGS), "rax")
        code.load("rax", _SAVED + 16).store(("rdx", _RIP), "rax").raw("c3")
        call(code.label("restorer"), 15)
        code.label("begin")
        # Below the program's own stack, where no instruction gets to by adding something to rsp.
        code.raw("48 8d 84 24 00 00 fe ff").store(_ACTION, "rax")
        for offset, value in ((8, 0), (16, 0x10000)):
            code.mov("rax", value).store(_ACTION + offset, "rax")
        call(code, 131, rdi=_ACTION, rsi=0)
        words = (code.address("handler"), _ACTION_FLAGS, code.address("restorer"), 0)
        for number, value in enumerate(words):
            code.mov("rax", value).store(_ACTION + 8 * number, "rax")
        for signal in (4, 5, 7, 8, 11):
            call(code, 13, rdi=signal, rsi=_ACTION, rdx=0, r10=8)
        code.lea("rax", "landed").store(_SAVED + 16, "rax")

    @staticmethod
    def _vector(code: Code) -> None:
        code.load("rcx", _SAVED + 16)
        for k in range(-8, 12):
            code.store(_STACK + 8 * k, "rcx")
        code.mov("rsp", _STACK)
        code.load("rax", _CURRENT).emit("0f ae", 1, ("rax", _FXSAVE))
        code.load("rcx", ("rax", 0)).store(_SAVED + 8, "rcx").emit("ff", 6, ("rax", _FLAGS), wide=False)
        for k, name in reversed(list(enumerate(NAMES))):
            code.load(name, ("rax", 8 + 8 * k))
        code.raw("9d").emit("ff", 2, _SAVED + 8, wide=False)
        code.label("landed").store(_SAVED + 24, "rsp").mov("rsp", _OWN_STACK).store(_SAVED, "rax")
        code.raw("9c").emit("8f", 0, _SAVED + 8, wide=False).raw("6a 02 9d").load("rax", _CURRENT)
        for k, name in enumerate(NAMES[1:], 1):
            code.store(("rax", 8 + 8 * k), name)
        for place, offset in ((_SAVED, 8), (_SAVED + 8, _FLAGS), (_SAVED + 24, _RSP)):
            code.load("rcx", place).store(("rax", offset), "rcx")
        code.load("rcx", _STACK - 16).emit("03", "rcx", _STACK - 24).emit("03", "rcx", _STACK - 32)
        code.store(("rax", _PUSHED), "rcx").emit("0f ae", 0, ("rax", _FXSAVE))
        code.add("rax", _SIZE).store(_CURRENT, "rax")

    def pack(self, vectors: Sequence[tuple[int, State]]) -> bytes:
        """Of (number of the form, state) pairs, as the program reads them, in whole batches."""
        stubs = [(self._stubs[form], state) for form, state in vectors]
        stubs += [(self._nothing, State())] * (-len(stubs) % _BATCH)
        return b"".join(
            state.pack(stub, _BLOCKS + number % _BATCH * _SIZE) for number, (stub, state) in enumerate(stubs)
        )

    def leave_out(self, packed: bytearray, numbers: Sequence[int]) -> None:
        """Nothing is done of these vectors."""
        for number in numbers:
            packed[number * _SIZE : number * _SIZE + 8] = struct.pack("<Q", self._nothing)

    def form_at(self, address: int) -> int:
        """The number of the form that lies there."""
        return bisect.bisect(self._stubs, address) - 1

    def natively(self, states: bytes | bytearray) -> bytes:
        """What the host's processor makes of them."""
        return subprocess.run(
            [self.program], input=states, capture_output=True, check=True, timeout=60
        ).stdout

    def recorded(self, states: bytes, folder: Path, **options: Any) -> tuple[bytes, dict[str, Any]]:
        """What a guest makes of them while it is recorded in `folder`, and how that ended."""
        said = bytearray()
        ran = corebraid.record(
            self.program, folder, cores=1, guest="linux", input=states, output=said.extend, **options
        )
        return bytes(said), dict(ran.facts())


@dataclass
class SweptState(State):
    """near: of registers that lead into the state's memory, how many bytes behind its beginning."""

    near: dict[str, int] = field(default_factory=dict)

    def pack(self, form: int, place: int) -> bytes:
        self.registers |= {name: place + _MEMORY + offset for name, offset in self.near.items()}
        return super().pack(form, place)


@dataclass
class Swept:
    """What a sweep has found: vectors tried, forms refused by name and what was said of each, and what came
    out otherwise than natively."""

    vectors: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    differences: list[tuple[Form, State, list[str]]] = field(default_factory=list)


def _words(raw: bytes) -> tuple[int, ...]:
    values = list(struct.unpack_from(f"<{len(_WORDS)}Q", raw, _SIGNAL))
    if values[3] >> 32 == 14:
        values[3] &= ~_PRESENT
    values[4] &= ~_RESUMED if values[0] & 0xFF == 0 else _MASK
    return tuple(values)


def differences(form: Form, ours: bytes, theirs: bytes) -> list[str]:
    """Between what a form left recorded and natively, in words."""
    found = []
    for name, a, b in zip(_WORDS, _words(ours), _words(theirs), strict=True):
        a, b = (value & form.flags if name.startswith("flags") else value for value in (a, b))
        if a != b:
            found.append(f"{name}: {a:#x}, the processor {b:#x}")
    return found + Result.unpack(ours, form).differences(Result.unpack(theirs, form))


def _shape(text: str) -> Form:
    found = decode(text)
    return Form(text, name="?") if found is None else shape(text, found)


#: Registers that are a count or a bit's number, where too much would reach far into the program.
_FAR = re.compile(r"((f2|f3) .*(6[c-f]|a[4-7a-f])|0f (a3|ab|b3|bb))")
_SMALL = ("rax", "rcx", "rdx", "rbx", "rbp")


def sweep_state(rng: random.Random, text: str) -> State:
    """Any state; some registers lead into its memory, counts are small where they must be."""
    state = SweptState(**vars(random_state(rng)))
    state.near = {"rsi": rng.choice((0, 8, 16, 24)), "r15": 0, "r14": rng.choice((0, 16))}
    if rng.random() < 0.3:
        state.near |= {"rbx": 0, "rcx": 8}
    if _FAR.search(text):
        state.near.pop("rcx", None), state.near.pop("rbx", None)
        state.registers |= {name: rng.choice((0, 1, 2, 3, 7)) for name in _SMALL}
        state.registers |= {f"r{n}": rng.choice((0, 1, 2, 3, 7)) for n in range(8, 14)}
        state.near["r14"] = 0
    return state


def sweep(forms: Sequence[str], states: int, seed: int, folder: Path, **options: Any) -> Swept:
    """Try each form on so many states. A form that ends the recording by name is noted, and the rest goes on
    without it. options: of `corebraid.record`."""
    swept, rng, at = Swept(), random.Random(seed), 0
    program = SweepProgram(folder, forms)
    shapes = [_shape(text) for text in forms]
    vectors = [(k, sweep_state(rng, forms[k])) for k in range(len(forms)) for _ in range(states)]
    packed = bytearray(program.pack(vectors))
    theirs = program.natively(packed)
    while at < len(vectors):
        rest, kept_in = bytes(packed[at * _SIZE :]), folder / f"rec {len(swept.refused)}"
        said, facts = program.recorded(rest, kept_in, **options)
        done = min(at + len(said) // _SIZE, len(vectors))
        for number in range(at, done):
            which, state = vectors[number]
            if forms[which] in swept.refused:
                continue
            swept.vectors += 1
            ours, native = said[(number - at) * _SIZE :][:_SIZE], theirs[number * _SIZE :][:_SIZE]
            if found := differences(shapes[which], ours, native):
                swept.differences.append((shapes[which], state, found))
        at = done
        if done < len(vectors):
            which = program.form_at(int(facts["fault"]["pc"], 16)) if facts["fault"] else -1
            if which not in {one for one, _ in vectors[done : done + _BATCH]}:
                which = next(one for one, _ in vectors[done:] if forms[one] not in swept.refused)
            swept.refused[forms[which]] = facts["end"]["text"]
            program.leave_out(packed, [k for k, (one, _) in enumerate(vectors) if one == which])
    return swept


def differences_alone(form: Form, state: State, folder: Path, **options: Any) -> list[str]:
    """Those of one vector where no other ran before it, which may have left something on the stack that one
    returns to: natively also a form that is refused when recorded."""
    program = SweepProgram(folder, [form.text])
    packed = program.pack([(0, state)])
    theirs, (ours, _) = program.natively(packed), program.recorded(packed, folder / "alone", **options)
    return differences(form, ours[:_SIZE], theirs[:_SIZE])
