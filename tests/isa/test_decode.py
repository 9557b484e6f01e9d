"""Encodings on which decoder and emulator are known to disagree, and what a block says of them."""

from __future__ import annotations

import random
import re

import pytest
from engine_suite import SOAK
from lengths import Lengths

from emu.core.legality import is_illegal
from isa.x86_64.decode import decode_block
from isa.x86_64.faulting import accessed_addresses, accesses
from isa.x86_64.registers import X86_64

NOP = b"\x90"


def test_reserved_no_operations_have_the_emulators_length() -> None:
    draw, lengths, decoded = random.Random(3), Lengths(), 0
    for prefix in ("", "66", "f2", "f3", "48", "41", "66 4f", "2e"):
        for opcode in range(0x19, 0x20):
            for _ in range(12):
                code = bytes.fromhex(prefix) + bytes([0x0F, opcode]) + draw.randbytes(6) + bytes(6)
                executed, _ = lengths.of(code)
                if not executed:
                    continue
                block = decode_block(code[:executed] + NOP, 0x1000)
                assert block.unknown < 0, code.hex(" ")
                assert block.offsets == (0, executed), code.hex(" ")
                decoded += 1
    assert decoded > 500


@pytest.mark.parametrize(
    ("code", "illegal"),
    [("0f 0b", True), ("06", True), ("0f b9 c0", True), ("f0 90", True), ("0f ff c0", True),
     ("f2 0f bc c1", False), ("f2 0f bd c1", False), ("f2 0f bc 01", False)],
)  # fmt: skip
def test_what_the_decoder_does_not_know_is_tried_on_the_emulator(code: str, illegal: bool) -> None:
    assert is_illegal(X86_64, bytes.fromhex(code)) == illegal
    assert bool(Lengths().of(bytes.fromhex(code) + bytes(12))[0]) != illegal


@pytest.mark.parametrize(
    "code",
    ["66 e8 00 00", "66 e9 00 00", "66 c2 00 00", "66 48 c2 00 00", "66 0f 84 00 00", "48 66 0f 8f 00 00",
     "66 eb 00", "66 74 00", "66 e3 00", "66 c3", "66 ff d0", "66 ff 20", "66 41 e8 00 00",
     "66 f3 66 e8 00 00"],
)  # fmt: skip
def test_branches_16_bits_wide_are_unsupported(code: str) -> None:
    block = decode_block(NOP + bytes.fromhex(code), 0x1000)
    assert block.unsupported == 1
    assert block.unsupported_text.startswith(code)


@pytest.mark.parametrize(
    "code",
    ["66 48 e8 00 00 00 00", "66 48 0f 84 00 00 00 00", "66 66 48 e8 00 00 00 00", "f2 e8 00 00 00 00",
     "f3 c3", "66 90", "66 ff 30", "66 ff 00", "66 68 00 00", "66 0f 1f 44 00 00", "67 e3 00",
     "e8 66 00 00 00", "f0 0f ab 01", "f0 0f ba 29 01", "0f ab c8", "f3 0f 1e fa"],
)  # fmt: skip
def test_what_looks_like_them_is_supported(code: str) -> None:
    block = decode_block(bytes.fromhex(code), 0x1000)
    assert (block.offsets, block.unsupported, block.unknown) == ((0,), -1, -1)
    assert Lengths().of(bytes.fromhex(code) + bytes(12))[0] == len(bytes.fromhex(code))


@pytest.mark.parametrize(
    "code", ["f0 0f ab c8", "f0 48 0f a3 c1", "f0 0f ba e8 05", "f0 44 0f bb c1", "66 f0 0f b3 c1"]
)
def test_locked_bit_tests_of_registers_are_illegal(code: str) -> None:
    block = decode_block(NOP + bytes.fromhex(code) + NOP, 0x1000)
    assert (block.offsets, block.illegal, block.unsupported) == ((0, 1), (1,), -1)


@pytest.mark.parametrize(
    "code",
    ["f0 8b 01", "f0 90", "f0 01 c8", "f0 03 08", "f0 87 c8", "f0 0f ba 21 05", "f0 38 01", "8f c8",
     "8f 48 00"],
)  # fmt: skip
def test_what_cannot_be_locked_and_reserved_forms_of_pop_are_illegal(code: str) -> None:
    assert decode_block(NOP + bytes.fromhex(code) + NOP, 0x1000).illegal == (1,)


@pytest.mark.parametrize(
    "code",
    ["f0 01 08", "f0 87 08", "f0 86 08", "f0 0f c7 09", "f0 48 0f c7 09", "f0 0f b1 08", "f0 0f c1 08",
     "f0 f7 19", "f0 0f ab 08", "f0 0f ba 28 05", "8f 00", "41 8f 00"],
)  # fmt: skip
def test_what_can_be_locked_and_pop_are_not(code: str) -> None:
    assert decode_block(NOP + bytes.fromhex(code) + NOP, 0x1000).illegal == ()


@pytest.mark.parametrize(
    "code",
    [
        "0f c2 c1 08",
        "f2 44 0f c2 07 ff",
        "66 0f c2 c1 20",
        "f6 c8 01",
        "f7 c8 01 00 00 00",
        "48 f7 08 01 00 00 00",
    ],
)
def test_what_the_emulator_would_do_otherwise_is_unsupported(code: str) -> None:
    block = decode_block(NOP + bytes.fromhex(code), 0x1000)
    assert (block.offsets, block.unsupported) == ((0, 1), 1)


def aborts(code: bytes) -> bool:
    """`lock` before bt, bts, btr or btc of registers: illegal, and it aborts the emulator's process; behind
    another access of its block it changes what that one accessed instead. No other `lock` does."""
    return code[:3] == b"\xf0\x0f\xba" or (code[:2] == b"\xf0\x0f" and code[2] in (0xA3, 0xAB, 0xB3, 0xBB))


#: A 66 prefix makes the displacement of a near branch 16 bits wide to AMD and to the emulator, and is ignored
#: by Intel and the decoder; VEX, EVEX and XOP encodings the machine refuses.
DIFFER = re.compile(
    rb"[\x66\xf2\xf3]*\x66[\x66\x48\xf2\xf3]*(\xe8|\xe9|\xc2|\x0f[\x80-\x8f])|.?.?[\xc4\xc5\x62\x8f]"
)


def test_the_decoder_and_the_emulator_agree_on_lengths() -> None:
    """Of the instructions that both know; the emulator executes some encodings that the decoder refuses."""
    draw, lengths, differ, compared = random.Random(5), Lengths(), [], 0
    for prefix in ("", "66", "f2", "f3", "48", "66 48", "f0"):
        for opcode in (*(f"{n:02x}" for n in range(256)), *(f"0f {n:02x}" for n in range(256))):
            for _ in range(SOAK):
                code = bytes.fromhex(f"{prefix} {opcode}") + draw.randbytes(2) + bytes(12)
                if aborts(code) or DIFFER.match(code):
                    continue
                emulator, decoder = lengths.of(code)
                compared += emulator > 0 and decoder > 0
                if emulator and decoder and emulator != decoder:
                    differ.append(f"{code.hex(' ')}: emulator {emulator}, decoder {decoder}")
    print(*differ, sep="\n")
    assert compared > 1000 * SOAK
    assert not differ


def test_reserved_no_operations_are_executed_and_not_decoded() -> None:
    assert Lengths().of(bytes.fromhex("0f 1c c3") + bytes(12)) == (3, 0)


@pytest.mark.parametrize(
    ("code", "address"),
    [
        ("8b 04 23", 0x5000),  # mov eax, [rbx], with an index byte that names no index
        ("8b 04 63", 0x5000),
        ("48 8b 04 65 b0 00 00 00", 0xB0),
        ("42 8b 04 65 00 00 00 00", 0x200),
        ("67 8b 04 23", 0x5000),
    ],
)
def test_addresses_of_encodings_without_an_index(code: str, address: int) -> None:
    registers = {"rbx": 0x5000, "r12": 0x100, "rsp": 0x9000}
    assert accessed_addresses(bytes.fromhex(code), 0x1000, registers.__getitem__)[0] == address


@pytest.mark.parametrize(
    ("code", "address", "size"),
    [
        ("66 0f a3 23", 0x5000 + 0x5650 // 16 * 2, 2),  # bt word ptr [rbx], sp
        ("48 0f ae 03", 0x5000, 512),  # fxsave64
        ("dd 33", 0x5000, 108),  # fnsave
    ],
)
def test_operands_that_the_decoder_does_not_tell_by_itself(code: str, address: int, size: int) -> None:
    registers = {"rbx": 0x5000, "rsp": 0x12345650}
    found = accesses(bytes.fromhex(code), 0x1000, registers.__getitem__)[0]
    assert (found.address, found.size) == (address, size)
