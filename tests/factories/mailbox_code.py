"""Guests that send and receive mail."""

from __future__ import annotations

import numpy as np
from guest import (
    DATA,
    Code,
)

from emu.devices.mail_state import (
    REPLY,
    REQUEST,
)
from emu.devices.mailbox import (
    MAIL_ACCEPT,
    MAIL_AWAIT,
    MAIL_FROM,
    MAIL_ID,
    MAIL_IN,
    MAIL_OUT,
    MAIL_POST,
)


def put(code: Code, register: np.uint64, value: int | str) -> Code:
    return code.device(int(register), value)


def send(code: Code, to: int, entry: int, kind: int, number: int, word: int | str) -> Code:
    put(code, MAIL_ID, number)
    put(code, MAIL_OUT, word)
    return put(code, MAIL_POST, to | entry << 8 | kind << 16 | 1 << 20)


def receive(code: Code, name: str) -> Code:
    """Wait for mail; its head in rax, its word in rbx."""
    code.label(name).ask(int(MAIL_AWAIT), "rax").compare("rax", 0).jump_if("z", name)
    return code.ask(int(MAIL_FROM), "rcx").ask(int(MAIL_IN), "rbx")


def ping(rounds: int) -> Code:
    """Core 0 asks core 1 `rounds` times to add 5; it powers off with the sum's low byte."""
    code = Code()
    code.split("asker", "server")
    code.label("asker").mov("r12", rounds).mov("r13", 3).label("more")
    send(code, 1, 4, REQUEST, 77, "r13")
    receive(code, "answer").raw("49 89 dd")  # mov r13, rbx
    code.store(DATA, "r13").loop("r12", "more").power_off("r13")
    code.label("server")
    put(code, MAIL_ACCEPT, 1 << 4)
    receive(code, "request").add("rbx", 5)
    send(code, 0, 4, REPLY, 77, "rbx")
    return code.jump("request")
