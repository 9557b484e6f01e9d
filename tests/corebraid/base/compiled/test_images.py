"""Machine code in memory: put together right, or not at all."""

from __future__ import annotations

import ctypes
import os
import re
import struct
from io import BytesIO

import pytest
from elftools.elf.elffile import ELFFile
from llvmlite import binding
from numba.core.codegen import initialize_llvm as initialize

from corebraid.base.compiled.image import Image, Loaded
from corebraid.base.compiled.object_file import UnknownObject, image_of

_PAGE = 4096
_RELOCATIONS = (".rela.text", ".rela.ltext")
_PROGRAM = """
declare i64 @outer(i64)
define i64 @calls(i64 %x) {
  %y = call i64 @outer(i64 %x)
  %z = add i64 %y, 1
  ret i64 %z
}
"""


def nowhere(name: str) -> int:
    raise KeyError(name)


def test_addresses_are_filled_in() -> None:
    image = Image(bytes(_PAGE), 16, {"data": _PAGE + 8}, [(0, _PAGE + 8)], [(8, "outer", -1)])
    loaded = Loaded(Image.loads(image.dumps()), {"outer": 1001}.__getitem__)
    base = loaded["data"] - _PAGE - 8
    assert [ctypes.c_uint64.from_address(base + k).value for k in (0, 8)] == [loaded["data"], 1000]
    with pytest.raises(KeyError):
        loaded["other"]
    with pytest.raises(KeyError):
        Loaded(image, nowhere)


def test_what_a_forked_process_writes_is_its_own() -> None:
    loaded = Loaded(Image(bytes(_PAGE), 8, {"data": _PAGE}, [], []), nowhere)
    word = ctypes.c_uint64.from_address(loaded["data"])
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        word.value = 1
        os._exit(0)
    assert word.value == 0


def test_code_cannot_be_written() -> None:
    loaded = Loaded(Image(bytes(_PAGE), 8, {"code": 0}, [], []), nowhere)
    with open("/proc/self/maps") as maps:
        rights = [
            line.split()[1]
            for line in maps
            if int(line.split("-")[0], 16) <= loaded["code"] < int(re.split("[- ]", line)[1], 16)
        ]
    assert rights == ["r-xp"]


def object_file(type_of_relocation: int) -> bytes:
    """One that LLVM makes of a function that calls another, with its first relocation of that type."""
    initialize()
    module = binding.parse_assembly(_PROGRAM)
    target = binding.Target.from_triple(binding.get_process_triple())
    machine = target.create_target_machine(codemodel="large", reloc="static")
    data = bytearray(machine.emit_object(module))
    with BytesIO(bytes(data)) as file:
        (section,) = (one for one in ELFFile(file).iter_sections() if one.name in _RELOCATIONS)
        struct.pack_into("<I", data, section["sh_offset"] + 8, type_of_relocation)
    return bytes(data)


def test_an_object_file_is_laid_out_and_runs() -> None:
    image = image_of(object_file(1), {"calls"}.__contains__)
    add = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda number: number + 40)
    address = ctypes.cast(add, ctypes.c_void_p).value
    loaded = Loaded(image, lambda name: {"outer": address}[name])
    calls = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded["calls"])
    assert calls(1) == 42


@pytest.mark.parametrize("kind", [2, 4, 24])
def test_unknown_relocations_are_refused(kind: int) -> None:
    with pytest.raises(UnknownObject, match=f"type {kind}"):
        image_of(object_file(kind), lambda _: True)
