"""libunicorn, called natively: from compiled kernels and hooks, without the Python binding.

Symbols are resolved by name when compiled code is loaded, so kernels that call them can be cached.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import unicorn.unicorn_py3.unicorn as binding
from unicorn import unicorn_const as uc

from corebraid.base.compiled import CFunction, from_dtype, intrinsic, ir, types
from corebraid.base.compiled.begin import add_library
from corebraid.base.errors import CorebraidError

library = binding.uclib
add_library(library)

uc_emu_start = types.ExternalFunction(
    "uc_emu_start", types.int32(types.uint64, types.uint64, types.uint64, types.uint64, types.uint64)
)
uc_emu_stop = types.ExternalFunction("uc_emu_stop", types.int32(types.uint64))
uc_reg_read = types.ExternalFunction("uc_reg_read", types.int32(types.uint64, types.int32, types.voidptr))
uc_reg_write = types.ExternalFunction("uc_reg_write", types.int32(types.uint64, types.int32, types.voidptr))
uc_ctl_range = types.ExternalFunction(
    "uc_ctl", types.int32(types.uint64, types.int32, types.uint64, types.uint64)
)
uc_ctl_plain = types.ExternalFunction("uc_ctl", types.int32(types.uint64, types.int32))


def address_of_function(name: str) -> int:
    """Where a function of the emulator's lies in this process."""
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def _control(code: int, arguments: int) -> int:
    return ctypes.c_int32(code | arguments << 26 | uc.UC_CTL_IO_WRITE << 30).value


#: uc_ctl words: throw away the translations of a byte range; forget all filled pages.
REMOVE_CACHE = _control(uc.UC_CTL_TB_REMOVE_CACHE, 2)
FLUSH_TLB = _control(uc.UC_CTL_TLB_FLUSH, 0)

#: Signatures of native hooks (unicorn.h, uc_cb_*).
BLOCK_HOOK = types.void(types.uint64, types.uint64, types.uint32, types.uint64)
REFUSAL_HOOK = types.boolean(types.uint64, types.int32, types.uint64, types.int32, types.int64, types.uint64)
MEMORY_HOOK = types.void(types.uint64, types.int32, types.uint64, types.int32, types.int64, types.uint64)
FILL_HOOK = types.boolean(types.uint64, types.uint64, types.int32, types.uint64, types.uint64)
INTERRUPT_HOOK = types.void(types.uint64, types.uint32, types.uint64)
SYSTEM_CALL_HOOK = types.void(types.uint64, types.uint64)
INSTRUCTION_HOOK = types.int32(types.uint64, types.uint64)
MMIO_READ_HOOK = types.uint64(types.uint64, types.uint64, types.uint32, types.uint64)
MMIO_WRITE_HOOK = types.void(types.uint64, types.uint64, types.uint32, types.uint64, types.uint64)
#: That of an instruction set's own decoder of plain blocks: host address of the code (uint64), its size in
#: bytes, host address of uint16[size]. Returns how many instructions it has, negative if the last one is a
#: branch, 0 unless all are plain; their offsets are in the array.
PLAIN_BLOCK = types.int64(types.uint64, types.int64, types.uint64)

#: The kind of a write, in a memory hook.
MEMORY_WRITE = uc.UC_MEM_WRITE
#: What a TLB-fill hook returns through its pointer (unicorn.h, uc_tlb_entry).
TLB_ENTRY = np.dtype([("address", "<u8"), ("permissions", "<u4"), ("padding", "<u4")])


def hook(signature: Any) -> Callable[[Callable[..., Any]], CFunction]:
    """Makes a function over kernels a native hook of this signature (`BLOCK_HOOK` and so on). It is compiled,
    or loaded, when it is first installed: no run needs them all."""
    return lambda function: CFunction(signature, function)


@intrinsic
def pointer(typing_context: Any, address: Any) -> Any:
    """The address (uint64) as a pointer that `carray` takes."""
    signature = types.voidptr(types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return signature, generate


@intrinsic
def call_plain_block(typing_context: Any, function: Any, code: Any, size: Any, offsets: Any) -> Any:
    """Call the `PLAIN_BLOCK` at an address (uint64)."""
    signature = types.int64(types.uint64, *PLAIN_BLOCK.args)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = ir.IntType(64)
        kind = ir.FunctionType(number, [number] * 3).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], kind), arguments[1:])

    return signature, generate


def row_getter(dtype: np.dtype[Any]) -> Any:
    """A kernel function from an address (uint64) to the row of `dtype` there.

    An array view of the same memory would do, but costs reference counting on paths that run for every
    block and access.
    """

    @intrinsic
    def row_at(typing_context: Any, address: Any) -> Any:
        row_type = from_dtype(dtype)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(row_type))

        return row_type(types.uint64.real), generate

    return row_at


_NUMBERS = {8: types.uint8, 16: types.uint16, 32: types.uint32, 64: types.uint64}


def _peek(bits: int) -> Any:
    number_type = _NUMBERS[bits]

    @intrinsic
    def peek(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            where = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            return builder.load(where, align=1)

        return number_type(types.uint64), generate

    return peek


def _poke(bits: int) -> Any:
    number_type = _NUMBERS[bits]

    @intrinsic
    def poke(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            where = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            builder.store(arguments[1], where, align=1)
            return context.get_dummy_value()

        return types.void(types.uint64, number_type), generate

    return poke


#: Kernel functions: the little-endian number of that many bits at an address (uint64), and setting it.
peek8, peek16, peek32, peek64 = _peek(8), _peek(16), _peek(32), _peek(64)
poke8, poke16, poke32, poke64 = _poke(8), _poke(16), _poke(32), _poke(64)


def check(status: int, what: str) -> None:
    """Raise CorebraidError when a libunicorn call failed."""
    if status:
        raise CorebraidError(
            f"the emulator refused to {what}",
            found=f"status {status}",
            remedy="check that the installed unicorn package is 2.1.x",
        )


def add_hook(
    handle: int, kind: int, callback: Any, user: int, *extra: int, at: int | None = None, size: int = 1
) -> int:
    """Install a native hook for all addresses, or for `size` of them from `at` on. `extra`: the instruction,
    for UC_HOOK_INSN. Returns what `delete_hook` takes."""
    slot = ctypes.c_size_t()
    status = library.uc_hook_add(
        ctypes.c_void_p(handle),
        ctypes.byref(slot),
        ctypes.c_int(kind),
        ctypes.c_void_p(callback.address),
        ctypes.c_void_p(user),
        ctypes.c_uint64(1 if at is None else at),
        ctypes.c_uint64(0 if at is None else at + size - 1),
        *(ctypes.c_int(number) for number in extra),
    )
    check(status, "install a hook")
    return int(slot.value or 0)


def delete_hook(handle: int, number: int) -> None:
    """Remove a native hook. The emulator must be stopped."""
    check(library.uc_hook_del(ctypes.c_void_p(handle), ctypes.c_size_t(number)), "remove a hook")


def map_device_page(handle: int, address: int, size: int, read: Any, write: Any, user: int) -> None:
    """Map a page whose accesses call `read` and `write` (native), for device registers."""
    status = library.uc_mmio_map(
        ctypes.c_void_p(handle),
        ctypes.c_uint64(address),
        ctypes.c_size_t(size),
        ctypes.c_void_p(read.address),
        ctypes.c_void_p(user),
        ctypes.c_void_p(write.address),
        ctypes.c_void_p(user),
    )
    check(status, "map the device page")


def forbid_page(handle: int, address: int, size: int) -> None:
    """Let accesses to a mapped page go through UC_HOOK_MEM_READ_PROT and UC_HOOK_MEM_WRITE_PROT."""
    status = library.uc_mem_protect(
        ctypes.c_void_p(handle), ctypes.c_uint64(address), ctypes.c_size_t(size), ctypes.c_uint32(0)
    )
    check(status, "protect the device page")
