"""`who-wrote --chain` through copies of more than a register: of each byte where it is from."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_factory import run
from stack_factory import compiled, needs_gcc

import corebraid

#: Each of `made` comes from one of `from` alone, by another way; `sum` by arithmetic comes from both.
_GUEST = r"""
struct pair { unsigned long low, high; };
volatile struct pair from = {0, 0};
struct pair direct, halves, strings, unaligned[2], spread, sum;
volatile struct pair seed = {5, 6};

__attribute__((noinline)) static void fill(void) { from.low = seed.low + 1; from.high = seed.high + 1; }

int main(void) {
    fill();
    asm volatile("movups %1, %%xmm1; movaps %%xmm1, %%xmm0; movups %%xmm0, %0"
                 : "=m"(direct) : "m"(from) : "xmm0", "xmm1");
    asm volatile("movq 8+%1, %%xmm0; movhps %1, %%xmm0; movups %%xmm0, %0"
                 : "=m"(halves) : "m"(from) : "xmm0");
    void *to = &strings;
    volatile void *at = &from;
    unsigned long n = 2;
    asm volatile("rep movsq" : "+D"(to), "+S"(at), "+c"(n) : : "memory");
    asm volatile("movups %1, %%xmm0; movups %%xmm0, 4+%0; movups 4+%0, %%xmm1; movups %%xmm1, %2"
                 : "=m"(unaligned) : "m"(from), "m"(spread) : "xmm0", "xmm1", "memory");
    asm volatile("movups %1, %%xmm0; paddq %%xmm0, %%xmm0; movups %%xmm0, %0"
                 : "=m"(sum) : "m"(from) : "xmm0");
    return 0;
}
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copies")
    guest = compiled(folder, "copies.c", _GUEST, "-O1", "-w")
    run("record", "-o", folder / "rec", "--cores", 1, "--", guest)
    corebraid.order(folder / "rec")
    return folder / "rec"


def read(recording: Path, place: str) -> set[str]:
    """The variables at the end of the chain that begins at a place, and on the way."""
    facts = corebraid.who_wrote(recording, place, chain=8, only_order=True, no_stacks=True).facts()
    reads = [step["read"] for step in facts["chain"] if step["read"] is not None]
    return {one["data"] for one in reads}


@pytest.mark.sampled(2)
@needs_gcc
@pytest.mark.parametrize(
    ("place", "origins"),
    [
        ("direct.low", {"from.low", "seed.low"}),
        ("direct.high", {"from.high", "seed.high"}),
        ("halves.low", {"from.high", "seed.high"}),
        ("halves.high", {"from.low", "seed.low"}),
        ("strings.low", {"from.low", "seed.low"}),
        ("strings.high", {"from.high", "seed.high"}),
        ("sum.low", {"from.low", "from.high", "seed.low", "seed.high"}),
    ],
)
def test_the_other_half_is_not_told(recording: Path, place: str, origins: set[str]) -> None:
    assert read(recording, place) == origins


@needs_gcc
@pytest.mark.parametrize(
    ("place", "half", "other"), [("spread.low", "low", "high"), ("spread.high", "high", "low")]
)
def test_where_halves_lie_across_words(recording: Path, place: str, half: str, other: str) -> None:
    found = read(recording, place)
    assert {f"from.{half}", f"seed.{half}"} <= found
    assert not {f"from.{other}", f"seed.{other}"} & found
