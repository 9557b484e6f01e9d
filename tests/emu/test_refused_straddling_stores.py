"""A store over the end of a page whose next page refuses it: nothing is stored, and what the core had to get
for it is there afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from guest import DATA, Code
from static_guest import call, record_linux_guest

from bench.linux_soak import examine
from recorder.files.reader import Recording, iter_agent_trace, iter_image

PAGE = DATA + 0x2000


def guest(store: str, refused: int) -> Code:
    """The kernel writes on both sides of PAGE, which then takes no stores; `store` goes over the border, and
    the handler of its signal makes the page writable and ends."""
    code = Code()
    code.jump("start").label("handler")
    call(code, 10, rdi=PAGE, rsi=0x1000, rdx=3)
    code.load("rax", PAGE - 8).load("rbx", PAGE)
    call(code, 60, rdi=7).label("start")
    handler, restorer = code.address("handler"), code.address("handler")
    for at, word in enumerate((handler, 0x04000004, restorer, 0)):  # SA_SIGINFO | SA_RESTORER
        code.mov("rax", word).store(DATA + 8 * at, "rax")
    call(code, 13, rdi=11, rsi=DATA, rdx=0, r10=8)
    call(code, 318, rdi=PAGE - 16, rsi=32, rdx=0)
    call(code, 10, rdi=PAGE, rsi=0x1000, rdx=refused)
    return code.mov("rsi", PAGE - 3).raw(store)


@pytest.mark.parametrize("refused", [0, 1], ids=["no rights", "read only"])
@pytest.mark.parametrize("model", ["sc", "tso"])
@pytest.mark.parametrize("store", ["48 89 06", "89 06", "0f 11 06", "48 01 06", "db 3e"])
def test_what_it_would_have_overwritten_is_still_there(
    store: str, model: str, refused: int, tmp_path: Path
) -> None:
    path = record_linux_guest(guest(store, refused), tmp_path, model)
    examine(path, order=False)
    recording = Recording.open(path)
    assert recording.manifest.end is not None
    assert recording.manifest.end.exit_code == 7
    drawn = {}
    for rows in iter_agent_trace(recording):
        for row in rows:
            for k in range(int(row["size"])):
                drawn[int(row["addr"]) + k] = int(row["new"]) >> (8 * k) & 0xFF
    final = dict(iter_image(recording, "final"))
    for address in range(PAGE - 16, PAGE + 16):
        assert final[address & ~0xFFF][address & 0xFFF] == drawn[address]
