"""The frame of a signal handler, byte by byte, and the way back."""

from __future__ import annotations

from dataclasses import replace

import pytest
import unicorn
from signal_factory import (
    BASE,
    CODE,
    HANDLER,
    RESTORER,
    SIZE,
    STACK,
    catch,
    make_task,
    post,
    random_context,
    register,
    set_register,
)
from unicorn import x86_const as x86

from emu.linux.calls.signals import sys_rt_sigreturn, sys_sigaltstack
from emu.linux.faults import bad_access, exception
from emu.linux.ground.failure import Errno
from emu.linux.signals.delivery import Death, deliver
from emu.linux.signals.float_image import float_image
from emu.linux.signals.numbers import SA_ONSTACK, SIGFPE, SIGILL, SIGSEGV, SIGUSR1, SIGUSR2, signal_set
from isa.decoded import Access
from isa.x86_64.registers import X86_64
from isa.x86_64.signals import SIGNALS_X86_64

#: Offsets from the frame, as a C program with <ucontext.h> prints them; general registers in their order.
_REGISTERS = (
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx",
    "rsp", "rip", "rflags",
)  # fmt: skip
_FIRST_REGISTER, _SEGMENTS, _ERR, _TRAPNO, _OLDMASK, _CR2, _FPSTATE, _MASK, _INFO, _END = (
    48, 192, 200, 208, 216, 224, 232, 304, 312, 440,
)  # fmt: skip


def _return(task):
    """The handler's `ret` and its restorer's system call."""
    set_register(task, "rsp", register(task, "rsp") + 8)
    return sys_rt_sigreturn(task)


def test_the_frame_lies_where_linux_puts_it_and_holds_every_register():
    task = make_task()
    before = task.registers
    task.process.signals.set_blocked(task, signal_set(SIGUSR2))
    catch(task, SIGUSR1, mask=signal_set(5))
    post(task, SIGUSR1, value=0x1122334455)
    assert deliver(task) is None

    frame = register(task, "rsp")
    # 512 bytes of FXSAVE at a multiple of 64 below the red zone, under it the frame, 8 below one of 16.
    image = (STACK - 128 - 512) // 64 * 64
    assert frame == image - 456
    assert frame % 16 == 8
    number = task.process.memory.read_number
    assert number(frame, 8) == RESTORER
    assert number(frame + 8, 8) == 6
    assert number(frame + 16, 8) == 0
    for n, name in enumerate(_REGISTERS):
        assert number(frame + _FIRST_REGISTER + 8 * n, 8) == X86_64.read(before, name), name
    assert number(frame + _SEGMENTS, 8) == 0x002B_0000_0000_0033
    assert number(frame + _FPSTATE, 8) == image
    assert number(frame + _OLDMASK, 8) == number(frame + _MASK, 8) == signal_set(SIGUSR2)
    info = task.process.memory.read(frame + _INFO, 128)
    assert info == bytes([10]) + bytes(23) + (0x1122334455).to_bytes(8, "little") + bytes(96)
    assert SIGNALS_X86_64.frame.layout.size == _END


def test_the_handler_starts_as_linux_starts_it():
    task = make_task()
    set_register(task, "rflags", 0x10D46)
    catch(task, SIGUSR1, mask=signal_set(5))
    post(task, SIGUSR1)
    deliver(task)
    frame = register(task, "rsp")
    assert [register(task, name) for name in ("rdi", "rsi", "rdx", "rax", "rip")] == [
        SIGUSR1, frame + 312, frame + 8, 0, HANDLER,
    ]  # fmt: skip
    assert register(task, "rflags") == 0x846
    assert register(task, "mxcsr") == 0x1F80
    assert register(task, "fpcw") == 0x37F
    assert register(task, "fptag") == 0xFFFF
    assert register(task, "xmm3") == 0
    assert task.signals.blocked == signal_set(SIGUSR1, 5)
    assert task.changed


@pytest.mark.parametrize("seed", range(8))
def test_deliver_and_return_leave_every_register_as_it_was(seed):
    task = make_task()
    task.context = before = random_context(seed)
    catch(task, SIGUSR1)
    post(task, SIGUSR1)
    deliver(task)
    for name in ("rbx", "r15", "xmm7", "st2", "fpsw"):
        set_register(task, name, 0x1234)
    task.process.signals.set_blocked(task, signal_set(9, 12, 19, 33))
    _return(task)
    assert task.registers == before
    assert task.signals.blocked == 0


def test_return_takes_no_privileged_flags_and_no_thread_pointer_from_the_frame():
    task = make_task()
    catch(task, SIGUSR1)
    post(task, SIGUSR1)
    deliver(task)
    frame = register(task, "rsp")
    task.process.memory.write_number(frame + _FIRST_REGISTER + 8 * 17, 8, 0xFFFF_FFFF)
    set_register(task, "fs_base", 0x7777)
    set_register(task, "rflags", 0x2)
    _return(task)
    assert register(task, "rflags") == 0x40DD7
    assert register(task, "fs_base") == 0x7777


def test_a_handler_can_change_where_its_return_goes():
    task = make_task()
    catch(task, SIGUSR1)
    post(task, SIGUSR1)
    deliver(task)
    frame = register(task, "rsp")
    task.process.memory.write_number(frame + _FIRST_REGISTER + 8 * 16, 8, 0x404040)
    task.process.memory.write_number(frame + _MASK, 8, signal_set(3, 9, 19))
    _return(task)
    assert register(task, "rip") == 0x404040
    assert task.signals.blocked == signal_set(3)


@pytest.mark.parametrize("damage", ["mxcsr", "fpstate", "stack"])
def test_a_bad_frame_is_a_segmentation_fault(damage):
    task = make_task()
    catch(task, SIGUSR1)
    post(task, SIGUSR1)
    deliver(task)
    frame, memory = register(task, "rsp"), task.process.memory
    if damage == "mxcsr":
        memory.write_number(memory.read_number(frame + _FPSTATE, 8) + 24, 4, 0x10000)
    elif damage == "fpstate":
        memory.write_number(frame + _FPSTATE, 8, 1)
    else:
        set_register(task, "rsp", 4)
    _return(task)
    assert deliver(task) == Death(SIGSEGV, True)


def test_a_frame_without_floating_point_state_gives_the_initial_one():
    task = make_task()
    catch(task, SIGUSR1)
    post(task, SIGUSR1)
    deliver(task)
    task.process.memory.write_number(register(task, "rsp") + _FPSTATE, 8, 0)
    _return(task)
    assert (register(task, "mxcsr"), register(task, "xmm0")) == (0x1F80, 0)


def _engine(context):
    engine = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
    engine.mem_map(0x1000, 0x2000)
    top = X86_64.read(context, "fpsw") >> 11 & 7
    for entry in X86_64.registers:
        value, name = X86_64.read(context, entry.name), entry.name.upper()
        if name.startswith("ST"):
            physical = (top + int(name[2])) % 8
            engine.reg_write(x86.UC_X86_REG_FP0 + physical, (value & (1 << 64) - 1, value >> 64))
        else:
            engine.reg_write(getattr(x86, f"UC_X86_REG_{name}"), value)
    return engine


def test_the_image_is_what_the_processor_saves():
    context = random_context(3)
    context = X86_64.with_register(context, "rip", 0x1000)
    context = X86_64.with_register(context, "rax", 0x2000)
    engine = _engine(context)
    engine.mem_write(0x1000, b"\x0f\xae\x00")
    engine.emu_start(0x1000, 0x1003)
    saved = bytes(engine.mem_read(0x2000, 512))
    ours = float_image(X86_64, SIGNALS_X86_64.frame.floats, context)
    # Opcode and addresses of the last x87 instruction (6 to 24) are not among a context's registers.
    assert ours[:6] == saved[:6]
    assert ours[24:416] == saved[24:416]


def test_every_kind_of_x87_value_gets_its_tag_back():
    task = make_task()
    values = {0: 0, 1: 0x7FFF << 64 | 1 << 63, 2: 1, 3: 16383 << 64 | 1 << 63}
    for n, value in values.items():
        set_register(task, f"st{n}", value)
    # Top 4: st0 is physical 4. Zero 01, infinity 10, denormal 10, one 00; the others empty.
    set_register(task, "fptag", 0b00_10_10_01_11_11_11_11)
    before = task.registers
    catch(task, SIGUSR1)
    post(task, SIGUSR1)
    deliver(task)
    _return(task)
    assert task.registers == before


def _alternate_stack(task, base, size, flags=0):
    where = BASE + 64
    task.process.memory.write(
        where, base.to_bytes(8, "little") + flags.to_bytes(8, "little") + size.to_bytes(8, "little")
    )
    return sys_sigaltstack(task, where, 0)


def _told_stack(task):
    sys_sigaltstack(task, 0, BASE + 128)
    number = task.process.memory.read_number
    return number(BASE + 128, 8), number(BASE + 136, 4), number(BASE + 144, 8)


def test_onstack_runs_on_the_alternate_stack_and_nested_frames_go_below():
    task = make_task()
    assert _told_stack(task) == (0, 2, 0)
    _alternate_stack(task, BASE + 0x4000, 0x4000)
    assert _told_stack(task) == (BASE + 0x4000, 0, 0x4000)
    catch(task, SIGUSR1, SA_ONSTACK)
    catch(task, SIGUSR2, SA_ONSTACK)
    post(task, SIGUSR1)
    deliver(task)
    first = register(task, "rsp")
    assert BASE + 0x7000 < first < BASE + 0x8000
    assert _told_stack(task)[1] == 1
    with pytest.raises(Errno, match="EPERM"):
        _alternate_stack(task, BASE + 0x1000, 0x4000)
    post(task, SIGUSR2)
    deliver(task)
    assert BASE + 0x6000 < register(task, "rsp") < first - 128
    number = task.process.memory.read_number
    assert [number(first + offset, 8) for offset in (24, 32, 40)] == [BASE + 0x4000, 0, 0x4000]
    _return(task)
    _return(task)
    assert register(task, "rsp") == STACK
    assert _told_stack(task) == (BASE + 0x4000, 0, 0x4000)


def test_without_onstack_the_alternate_stack_is_not_used():
    task = make_task()
    _alternate_stack(task, BASE + 0x4000, 0x4000)
    catch(task, SIGUSR1)
    post(task, SIGUSR1)
    deliver(task)
    assert STACK - 0x800 < register(task, "rsp") < STACK


def test_autodisarm_takes_the_alternate_stack_away_while_the_handler_runs():
    task = make_task()
    _alternate_stack(task, BASE + 0x4000, 0x4000, 1 << 31)
    catch(task, SIGUSR1, SA_ONSTACK)
    post(task, SIGUSR1)
    deliver(task)
    assert _told_stack(task) == (0, 2, 0)
    _return(task)
    assert _told_stack(task) == (BASE + 0x4000, 1 << 31, 0x4000)


@pytest.mark.parametrize(
    ("base", "size", "flags", "error"), [(BASE, 2047, 0, "ENOMEM"), (BASE, 8192, 4, "EINVAL")]
)
def test_alternate_stacks_that_linux_refuses(base, size, flags, error):
    with pytest.raises(Errno, match=error):
        _alternate_stack(make_task(), base, size, flags)


def test_disable_forgets_the_alternate_stack():
    task = make_task()
    _alternate_stack(task, BASE + 0x4000, 0x4000)
    _alternate_stack(task, 123, 456, 2)
    assert _told_stack(task) == (0, 2, 0)


def test_no_room_for_the_frame_is_a_fault_that_the_alternate_stack_can_take():
    task = make_task()
    _alternate_stack(task, BASE + 0x4000, 0x4000)
    catch(task, SIGUSR1)
    catch(task, SIGSEGV, SA_ONSTACK, handler=HANDLER + 16)
    set_register(task, "rsp", BASE + 100)
    post(task, SIGUSR1)
    assert deliver(task) is None
    assert register(task, "rip") == HANDLER + 16
    assert task.process.memory.read_number(register(task, "rsp") + _INFO + 8, 4) == 0x80
    assert task.signals.blocked == signal_set(SIGSEGV)


def test_no_room_anywhere_kills():
    for caught in ((SIGUSR1,), (SIGUSR1, SIGSEGV), (SIGSEGV,)):
        task = make_task()
        for signal in caught:
            catch(task, signal)
        set_register(task, "rsp", BASE + SIZE + 0x8000)
        post(task, caught[0])
        assert deliver(task) == Death(SIGSEGV, True)


def test_an_alternate_stack_that_overflows_is_not_left_downwards():
    task = make_task()
    _alternate_stack(task, BASE + 0x4000, 2048)
    catch(task, SIGUSR1, SA_ONSTACK)
    catch(task, SIGUSR2, SA_ONSTACK)
    post(task, SIGUSR1)
    assert deliver(task) is None
    post(task, SIGUSR2)
    assert deliver(task) == Death(SIGSEGV, True)


def byte(address: int) -> Access:
    return Access(address, 1, written=False, stack=False)


def test_a_bad_access_tells_where_and_why():
    for mapped, present, write, code, error in (
        (False, False, True, 1, 6), (True, True, True, 2, 7), (True, True, False, 2, 5),
        (True, False, False, 2, 4),
    ):  # fmt: skip
        task = make_task()
        catch(task, SIGSEGV)
        bad_access(task, replace(byte(0xDEAD_B000), written=write), mapped=mapped, present=present)
        assert deliver(task) is None
        frame, number = register(task, "rsp"), task.process.memory.read_number
        assert [number(frame + _INFO + offset, 4) for offset in (0, 4, 8)] == [SIGSEGV, 0, code]
        assert number(frame + _INFO + 16, 8) == 0xDEAD_B000
        assert [number(frame + offset, 8) for offset in (_ERR, _TRAPNO, _CR2)] == [error, 14, 0xDEAD_B000]


def test_a_fetch_and_an_access_past_a_files_end():
    task = make_task()
    catch(task, SIGSEGV)
    catch(task, 7)
    bad_access(task, byte(0x5000), mapped=True, present=True, execute=True)
    deliver(task)
    assert task.process.memory.read_number(register(task, "rsp") + _ERR, 8) == 0x15
    bad_access(task, byte(0x5000), mapped=True, beyond=True)
    deliver(task)
    assert task.process.memory.read_number(register(task, "rsp") + _INFO, 4) == 7


def test_addresses_that_no_program_has():
    for address, trap, error, code, told in (
        (0x8000_0000_0000_0000, 13, 0, 0x80, 0), (0x0000_8000_0000_0000, 13, 0, 0x80, 0),
        (0xFFFF_7FFF_FFFF_FFFF, 13, 0, 0x80, 0),
        (0x0000_7FFF_FFFF_FFFF, 14, 5, 1, 0x0000_7FFF_FFFF_FFFF),
        (0x0000_7FFF_FFFF_EFFF, 14, 4, 1, 0x0000_7FFF_FFFF_EFFF),
        (0xFFFF_8000_0000_0000, 14, 5, 1, 0xFFFF_8000_0000_0000),
    ):  # fmt: skip
        task = make_task()
        catch(task, SIGSEGV)
        bad_access(task, byte(address), mapped=False)
        deliver(task)
        frame, number = register(task, "rsp"), task.process.memory.read_number
        assert [number(frame + offset, 8) for offset in (_TRAPNO, _ERR, _INFO + 16)] == [trap, error, told]
        assert number(frame + _INFO + 8, 4) == code


def test_exceptions_become_the_signals_that_linux_sends():
    for number, signal, code, address in (
        (0, SIGFPE, 1, CODE), (6, SIGILL, 2, CODE), (3, 5, 0x80, 0), (13, SIGSEGV, 0x80, 0), (17, 7, 1, CODE),
    ):  # fmt: skip
        task = make_task()
        catch(task, signal)
        exception(task, number)
        deliver(task)
        frame, read = register(task, "rsp"), task.process.memory.read_number
        assert read(frame + _TRAPNO, 8) == number
        got = [read(frame + _INFO, 4), read(frame + _INFO + 8, 4), read(frame + _INFO + 16, 8)]
        assert got == [signal, code, address]


def test_floating_point_exceptions_tell_which():
    task = make_task()
    catch(task, SIGFPE)
    # Division by zero raised and not masked; the denormal operand is masked.
    set_register(task, "mxcsr", 0x1F80 & ~(4 << 7) | 4 | 2)
    exception(task, 19)
    deliver(task)
    assert task.process.memory.read_number(register(task, "rsp") + _INFO + 8, 4) == 3


@pytest.mark.parametrize("how", ["blocked", "ignored", "default"])
def test_a_fault_nobody_may_handle_kills(how):
    task = make_task()
    if how == "blocked":
        catch(task, SIGSEGV)
        task.process.signals.set_blocked(task, signal_set(SIGSEGV))
    if how == "ignored":
        catch(task, SIGSEGV, handler=1)
    bad_access(task, byte(0x1234), mapped=False)
    assert deliver(task) == Death(SIGSEGV, True, 0x1234)
    assert str(Death(SIGSEGV, True)) == "killed by SIGSEGV"
