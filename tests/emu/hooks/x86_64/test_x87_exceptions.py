"""x87 exceptions: what is told and what is raised, against the processor of this host."""

import random
import subprocess
from pathlib import Path

import pytest
from engine_suite import SOAK
from guest import DATA, Code
from instruction_forms import form_of, random_state, x87_forms
from static_guest import call, static_program
from vectors import INTEL, NATIVE, Form, State, Vectors

import corebraid
from emu.hooks.x86_64.helpers.state import told

host = pytest.mark.skipif(not NATIVE, reason="only an x86-64 processor can say what one does")

_APPROXIMATE = {"f2xm1", "fyl2x", "fyl2xp1", "fpatan", "fsin", "fcos", "fsincos", "fptan"}
_COMPARISONS = {"fcom", "fcomp", "fcompp", "fucom", "fucomp", "fucompp", "ftst"}


def unmasked_state(rng: random.Random) -> State:
    """Some exceptions are not masked, and none of these is pending."""
    state = random_state(rng)
    state.fcw = state.fcw & ~0x3F | rng.getrandbits(6)
    state.fsw &= ~0x80BF
    return state


def _without_order(form: Form) -> Form:
    """Intel's manual has no answer where an exception is not masked; other processors give one."""
    if not INTEL:
        return form
    if form.name in _COMPARISONS:
        return Form(form.text, form.flags, form.status & ~0x4500, form.name)
    if "comi" in form.name or "compi" in form.name:
        return Form(form.text, 0, form.status, form.name)
    return form


def _unmasked_differing(n: int, seed: int, folder: Path) -> list[str]:
    forms = [_without_order(form) for form in x87_forms() if form.name not in _APPROXIMATE]
    rng = random.Random(seed)
    states = [(number, unmasked_state(rng)) for number in range(len(forms)) for _ in range(n)]
    found = Vectors(folder, forms).compare(states, folder / "rec")
    return [f"seed {seed}: {form.text} ({form.name}) of {state}: {what}" for form, state, what in found]


@host
def test_operands_of_what_fails_are_as_the_processor_leaves_them(tmp_path: Path) -> None:
    assert not _unmasked_differing(3, 1, tmp_path)


@host
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(300, 306))
def test_operands_of_what_fails_at_length(seed: int, tmp_path: Path) -> None:
    assert not _unmasked_differing(40 * SOAK, seed, tmp_path)


#: On all registers or the words; where the last instruction was, and MXCSR's mask, are left out.
ENVIRONMENT = [
    Form("d9 37", name="fnstenv", ignored=(12, 26)),
    Form("66 d9 37", name="fnstenv, 14 bytes", ignored=(6, 14)),
    Form("d9 27", name="fldenv"),
    Form("66 d9 27", name="fldenv, 14 bytes"),
    Form("dd 37", name="fnsave", ignored=(12, 26)),
    Form("66 dd 37", name="fnsave, 94 bytes", ignored=(6, 14)),
    Form("dd 27", name="frstor"),
    Form("0f ae 07", name="fxsave", ignored=(6, 32)),
    Form("48 0f ae 07", name="fxsave64", ignored=(6, 32)),
    Form("db e2", name="fnclex"),
    Form("db e3", name="fninit"),
    Form("df e0", name="fnstsw"),
    Form("d9 3f", name="fnstcw"),
    Form("d9 2f", name="fldcw"),
]
#: A store, and what follows finds its status word.
AFTER_A_STORE = [
    Form("d9 17 0f ae 07", name="fst, fxsave", ignored=(6, 32)),
    Form("d9 17 df e0", name="fst, fnstsw"),
    Form("dd 17 d9 37", name="fst, fnstenv", ignored=(12, 26)),
    Form("dd 1f db e2", name="fstp, fnclex"),
    Form("d9 17 d9 2f", name="fst, fldcw"),
    Form("db 17 89 c0", name="fist, mov"),
    Form("d9 17 dd 27", name="fst, frstor"),
    Form("db 3f db e3", name="fstp m80fp, fninit"),
]


@host
def test_words_and_registers_are_saved_and_loaded(tmp_path: Path) -> None:
    rng, forms, states = random.Random(1), [*ENVIRONMENT, *AFTER_A_STORE], []
    for number, form in enumerate(forms):
        for _ in range(10 * SOAK):
            waits = form in AFTER_A_STORE or form.name[:4] in ("fldc", "flde", "frst")
            state = random_state(rng) if waits else unmasked_state(rng)
            states.append((number, state))
    found = Vectors(tmp_path, forms).compare(states, tmp_path / "rec")
    assert not [(form.name, state, what) for form, state, what in found]


# -- signals -------------------------------------------------------------------------------------------------

#: Writes its control word without some exceptions' masks, then fails or not: (code, control word).
_ONE_BY_ZERO, _WAIT = "d9 e8 d9 ee de f9", "9b"
#: A double that is too large for a float.
_LARGE = f"d9 e8 d9 e8 d9 fd {'d8 c8 ' * 8}"
RAISED = {
    "nothing": (f"{_ONE_BY_ZERO} {_WAIT}", 0x37F),
    "division": (f"{_ONE_BY_ZERO} 90 90 {_WAIT}", 0x37B),
    "invalid": (f"d9 ee d9 ee de f9 {_WAIT}", 0x37E),
    "square root": (f"d9 e8 d9 e0 d9 fa {_WAIT}", 0x37E),
    "overflow": (f"d9 e8 d9 e8 d9 fd {'d8 c8 ' * 15} {_WAIT}", 0x377),
    "underflow": (f"d9 e8 d9 e0 d9 e8 d9 fd {'d8 c8 ' * 15} {_WAIT}", 0x36F),
    "inexact": (f"d9 e8 d9 eb de f9 {_WAIT}", 0x35F),
    "empty register": (f"d8 c1 {_WAIT}", 0x37E),
    "full register": (f"{'d9 e8 ' * 9} {_WAIT}", 0x37E),
    "a load after it": (f"{_ONE_BY_ZERO} d9 e8", 0x37B),
    "an exchange after it": (f"{_ONE_BY_ZERO} d9 c9", 0x37B),
    "a register freed after it": (f"{_ONE_BY_ZERO} dd c0", 0x37B),
    "MMX after it": (f"{_ONE_BY_ZERO} 0f ef c0", 0x37B),
    "emms after it": (f"{_ONE_BY_ZERO} 0f 77", 0x37B),
    "a comparison": (f"d9 ee d9 ee de f9 d9 e8 de d9 {_WAIT}", 0x37F),
    "an instruction that does not wait": (f"{_ONE_BY_ZERO} df e0 db e2 {_WAIT}", 0x37B),
    "fnop": (f"{_ONE_BY_ZERO} d9 d0", 0x37B),
    "another signal after a store": ("d9 eb db e2 d9 57 08 31 c9 f7 f1", 0x37F),
    "a store that is inexact": (f"d9 eb d9 5f 08 90 {_WAIT}", 0x35F),
    "a store of an empty register": (f"d9 5f 08 90 {_WAIT}", 0x37E),
    "a store that is too large": (f"{_LARGE} d9 5f 08 90 {_WAIT}", 0x377),
    "an integer that is too large": (f"{_LARGE} db 5f 08 90 {_WAIT}", 0x37E),
    "a store of 10 bytes": (f"db 7f 08 90 {_WAIT}", 0x37E),
    "a decimal store": (f"{_LARGE} df 77 08 90 {_WAIT}", 0x37E),
    "a store after one that fails": (f"{_LARGE} d9 5f 08 90 d9 5f 08", 0x377),
    "a move that moves nothing": (f"{_ONE_BY_ZERO} 31 c9 da c1", 0x37B),
    "a move of nothing": (f"31 c9 da c1 90 {_WAIT}", 0x37E),
}


def signalled(text: str, control: int) -> Code:
    """Writes the number, code and address of a signal, and the x87's words in its frame."""
    code = Code()
    code.jump("main")
    handler = code.here
    code.load("rax", ("rdx", 224)).load("rcx", ("rax", 0)).store(("rsi", 24), "rcx", 4)
    code.mov("rax", 1).mov("rdi", 1).mov("rdx", 28).raw("0f 05")
    call(code, 231, rdi=1).label("main")
    code.mov("rax", handler).store(DATA, "rax").mov("rax", 0x04000004).store(DATA + 8, "rax")
    call(code, 13, rdi=8, rsi=DATA, rdx=0, r10=8)
    code.mov("rdi", DATA + 64).mov("rax", control).store(DATA + 64, "rax").raw("db e3 d9 2f").raw(text)
    return call(code, 231, rdi=0)


def _recorded(program: Path, folder: Path) -> tuple[int, bytes]:
    said = bytearray()
    ended = corebraid.record(program, folder, cores=1, guest="linux", output=said.extend).facts()["end"]
    assert isinstance(ended, dict), ended
    replayed = corebraid.replay(folder, 0).facts()
    assert (replayed["bit_exact"], replayed["error"]) == (True, None)
    return int(ended["exit_code"]), bytes(said)


@pytest.mark.sampled(12)
@host
@pytest.mark.parametrize("name", RAISED)
def test_an_exception_is_raised_where_the_processor_raises_it(name: str, tmp_path: Path) -> None:
    program = static_program(tmp_path / "guest", signalled(*RAISED[name]))
    natively = subprocess.run([program], capture_output=True, check=False)
    assert _recorded(program, tmp_path / "rec") == (natively.returncode, natively.stdout)
    assert (natively.returncode, len(natively.stdout)) in ((0, 0), (1, 28))


#: By how the operand is named: instructions, at whose end it is at rdi + 8.
_NAMED = {
    "register": "d9 57 08", "index": "31 c0 d9 54 07 08", "scaled": "48 31 c9 d9 54 cf 08",
    "segment": "64 d9 57 08", "32 bits": "67 d9 57 08", "double": "dd 57 08", "integer": "db 57 08",
    "short": "df 57 08", "whole": "df 7f 08", "chopped": "dd 4f 08",
}  # fmt: skip


@host
@pytest.mark.parametrize("name", _NAMED)
def test_a_store_that_fails_leaves_memory_and_the_stack_as_they_are(name: str, tmp_path: Path) -> None:
    """And one that does not, stores."""
    texts = [f"{_NAMED[name]} 48 8b 5f 08", f"{_LARGE} {_NAMED[name]} 48 8b 5f 08"]
    forms = [Form(text, name=name) for text in texts]
    rng, states = random.Random(7), []
    for number in (0, 1):
        for _ in range(20):
            state = unmasked_state(rng)
            state.registers |= {"rax": 0, "rcx": 0, "rdi": 0}
            states.append((number, state))
    found = Vectors(tmp_path, forms).compare(states, tmp_path / "rec")
    assert not [(form.text, state, what) for form, state, what in found]


@pytest.mark.parametrize("name", _NAMED)
def test_where_the_operand_of_a_store_was_is_kept(name: str, tmp_path: Path) -> None:
    """fnstenv's last but one word, of one that stores and of one that fails."""
    code = Code().mov("rdi", DATA + 64)
    code.raw(f"db e3 d9 e8 {_NAMED[name]} d9 77 20").load("rbx", DATA + 64 + 32 + 20, 4)
    code.mov("rax", 0x340).store(DATA, "rax", 2).emit("d9", 5, DATA, wide=False)
    code.raw(f"{_NAMED[name]} d9 77 20").load("rcx", DATA + 64 + 32 + 20, 4)
    code.mov("rdi", 0)
    for number, register in enumerate(("rbx", "rcx")):
        code.compare(register, DATA + 72).jump_if("nz", f"{number}").add("rdi", 1 << number)
        code.label(f"{number}")
    assert _recorded(static_program(tmp_path / "guest", call(code, 231)), tmp_path / "rec") == (3, b"")


# -- stores and slices ---------------------------------------------------------------------------------------


def test_a_store_is_told_of_once_wherever_a_slice_ends(tmp_path: Path) -> None:
    """Inexact stores after the flags were cleared, 3000 times over: all are told of, and none before it has
    happened."""
    code = Code()
    code.mov("rbx", 3000).mov("rbp", 0).mov("rsi", DATA).raw("db e3 d9 eb").label("again")
    code.raw("db e2 dd 16 31 c0 df e0 83 e0 20 01 c5")  # fnclex; fst m64; fnstsw; add
    code.raw("db e2 d9 56 08 8b 46 08 31 c0 df e0 83 e0 20 01 c5")  # fst m32, and a load between
    code.loop("rbx", "again")
    code.raw("81 fd 00 ee 02 00 40 0f 95 c7 40 0f b6 ff b8 e7 00 00 00 0f 05")  # exit(ebp != 192000)
    program = static_program(tmp_path / "guest", code)
    for strata in ("cycles:97", "cycles:1009"):
        folder = tmp_path / strata.replace(":", "_")
        ended = corebraid.record(program, folder, cores=1, guest="linux", strata=strata, seed=3).facts()[
            "end"
        ]
        assert isinstance(ended, dict)
        assert ended["exit_code"] == 0
        replayed = corebraid.replay(folder, 0).facts()
        assert (replayed["bit_exact"], replayed["error"]) == (True, None)


@pytest.mark.parametrize(
    ("word", "control", "status", "expected"),
    [(0x3A00, 0x37F, 0x8020, 0x3820), (0x3800, 0x35F, 0x8220, 0xBAA0), (0x0041, 0x37F, 0x8000, 0x0041)],
)
def test_what_a_store_says_goes_into_the_status_word(
    word: int, control: int, status: int, expected: int
) -> None:
    assert told(word, control, status) == expected


@host
def test_a_planted_error_in_the_status_word_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form = form_of("d8 c1")
    assert form is not None
    vectors = Vectors(tmp_path, [form])
    state = State(st=[(1 << 63, 0x3FFF), (1 << 63 | 1, 0x3000), *[None] * 6])
    states = vectors.pack([(0, state)])
    other = vectors.run_natively(vectors.pack([(0, State(st=state.st, fsw=0x10))]))
    monkeypatch.setattr(vectors, "run_natively", lambda _: other)
    (found,) = vectors.compare([(0, state)], tmp_path / "rec")
    assert len(states) == len(other)
    assert found[2] == ["x87[1]: 0x20, the processor 0x30"]
