"""Native hook of CPUID (SDM volume 2): it answers from the table of the guest's instruction set."""

from __future__ import annotations

import numpy as np
from unicorn import x86_const as x86

from corebraid.base.compiled import carray, njit
from emu.native.positions import locate
from emu.native.registers import read_register, write_register
from emu.native.state import core_at
from emu.native.unicorn import INSTRUCTION_HOOK, hook, pointer

#: Words of a row of answers: leaf, subleaf, eax, ebx, ecx, edx. Rows of a leaf are together.
CPUID_WORDS = 6
#: In ebx of this leaf the highest byte is the core's number (initial APIC identifier).
_FEATURES = np.uint64(1)

_RAX, _RBX, _RCX, _RDX = (
    x86.UC_X86_REG_RAX, x86.UC_X86_REG_RBX, x86.UC_X86_REG_RCX, x86.UC_X86_REG_RDX,
)  # fmt: skip
_LOW = np.uint64(0xFFFFFFFF)
_ZERO = np.uint64(0)


@njit(cache=True)
def answer_cpuid(core, leaf, subleaf):
    """Index of the row that answers, or the number of rows: all registers 0.

    A leaf without subleaves has one row, whatever ecx is.
    """
    n = np.int64(core.identity_n)
    rows = carray(pointer(core.identity), (n, CPUID_WORDS), np.uint64)
    first = int(n)
    for k in range(n):
        if rows[k, 0] == leaf:
            if rows[k, 1] == subleaf:
                return k
            if first == n:
                first = k
    single = first < n and (first + 1 >= n or rows[first + 1, 0] != leaf)
    return first if single else n


@hook(INSTRUCTION_HOOK)
def on_cpuid(handle, user):
    core = core_at(user)
    locate(core)
    leaf = read_register(core, _RAX) & _LOW
    k = answer_cpuid(core, leaf, read_register(core, _RCX) & _LOW)
    a = b = c = d = _ZERO
    if k < np.int64(core.identity_n):
        rows = carray(pointer(core.identity), (np.int64(core.identity_n), CPUID_WORDS), np.uint64)
        a, b, c, d = rows[k, 2], rows[k, 3], rows[k, 4], rows[k, 5]
        if leaf == _FEATURES:
            b |= core.core_id << np.uint64(24)
    write_register(core, _RAX, a)
    write_register(core, _RBX, b)
    write_register(core, _RCX, c)
    write_register(core, _RDX, d)
    return 1
