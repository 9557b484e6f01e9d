"""Parts of variables: against a C program that prints where each of its own is."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from cli_factory import ROOT
from elftools.elf.elffile import ELFFile
from stack_factory import compiled, needs_gcc

from corebraid.names.data_names import DataNames
from corebraid.names.debug_entries import variables as variables_module
from corebraid.names.debug_entries.variables import Variables
from corebraid.names.debug_files import DebugFiles
from corebraid.names.left_out import told_left_out
from corebraid.names.placed_files import PlacedFiles, PlacedPart
from corebraid.names.symbols import Symbols

SOURCE = """
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
struct point { int x, y; };
struct account {
    pthread_mutex_t lock; long balance; struct { short a, b; } small[3]; union { long l; char c[8]; };
    struct point at; _Atomic int count; char name[16]; unsigned low : 3, high : 5; double last;
};
struct account accounts[4];
static int grid[3][5][2];
static struct point origin;
atomic_long hits;
const char *texts[] = {"a", "b"};
typedef struct { struct account *list; const struct point here; } bank_t;
static volatile bank_t bank = {accounts, {1, 2}};
long plain;
union { int i; char c[16]; } either;
struct empty {} nothing;
extern struct account accounts[4];
long unknown_to_all[3];
#define AT(what) printf("%p %s\\n", (void *)&what, #what)
#define BYTE(what, text) printf("%p %s\\n", (void *)((char *)&what + 1), text)
int main(void) {
    static struct point inside[2];
    AT(accounts[0].lock); AT(accounts[1].balance); AT(accounts[2].small[0].a); AT(accounts[2].small[2].b);
    AT(accounts[3].at.y); AT(accounts[3].count); AT(accounts[3].name[15]); AT(accounts[3].last);
    AT(grid[0][0][0]); AT(grid[2][4][1]); AT(grid[1][0][1]); AT(origin.x); AT(origin.y); AT(hits);
    AT(texts[0]); AT(texts[1]); AT(bank.list); AT(bank.here.y); AT(plain); AT(either);
    BYTE(origin.y, "origin.y+0x1"); BYTE(plain, "plain+0x1"); BYTE(either, "either+0x1");
    BYTE(accounts[1].lock, "accounts[1].lock+0x1"); BYTE(hits, "hits+0x1");
    BYTE(grid[2][4][1], "grid[2][4][1]+0x1");
    char *c = &accounts[1].c[3];
    printf("%p accounts[1]+0x%lx\\n", (void *)c, c - (char *)&accounts[1]);
    AT(inside[1].y);
    return unknown_to_all[2];
}
"""


def names_of(raw: bytes) -> DataNames:
    return DataNames(Symbols.of_elf(raw), PlacedFiles([PlacedPart(0, 1 << 40, 0, "data", raw)]), DebugFiles())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("data"), "data.c", SOURCE, "-no-pie", "-w", "-O0")


@needs_gcc
@pytest.mark.parametrize("flags", [("-O0",), ("-O2",), ("-gdwarf-4",), ("-gz=zlib",)], ids=" ".join)
def test_parts_are_called_as_in_the_source(flags: tuple[str, ...], tmp_path: Path) -> None:
    path = compiled(tmp_path, "data.c", SOURCE, "-no-pie", "-w", *flags)
    raw, checked = path.read_bytes(), 0
    names = names_of(raw)
    for line in subprocess.run([path], capture_output=True, text=True, check=True).stdout.splitlines():
        address, _, name = line.partition(" ")
        found = names.name(int(address, 16))
        if name.startswith("inside"):
            # A compiler numbers variables of functions.
            found = "inside" + found.partition("[")[1] + found.partition("[")[2]
        assert found == name
        checked += 1
    assert checked == 28


CLANG = next((name for name in ("clang", "clang-14", "clang-16", "clang-19") if shutil.which(name)), None)


@pytest.mark.skipif(CLANG is None, reason="there is no clang, which gives addresses by numbers")
@pytest.mark.parametrize("flags", [("-O0",), ("-O1", "-gdwarf-5")], ids=" ".join)
def test_addresses_by_numbers(flags: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "data.c").write_text(SOURCE)
    command = [str(CLANG), "-g", "-no-pie", "-w", *flags, "data.c", "-o", "data", "-pthread"]
    subprocess.run(command, cwd=tmp_path, check=True)
    names, checked = names_of((tmp_path / "data").read_bytes()), 0
    ran = subprocess.run([tmp_path / "data"], capture_output=True, text=True, check=True)
    for line in ran.stdout.splitlines():
        address, _, name = line.partition(" ")
        if name.startswith(("accounts", "bank", "texts", "plain")):
            assert names.name(int(address, 16)) == name
            checked += 1
    assert checked > 10


@needs_gcc
def test_what_lies_behind_a_variable_and_what_has_no_type(program: Path) -> None:
    raw = program.read_bytes()
    symbols = Symbols.of_elf(raw)
    parts, plain = Variables(raw, "data"), symbols.named("plain")
    assert plain is not None
    assert parts.part(plain.address, 0) == ""
    assert parts.part(plain.address, 7) == "+0x7"
    assert parts.part(plain.address, 8) is parts.part(plain.address, -1) is None
    assert parts.part(plain.address + 1, 0) is None
    main = symbols.named("main")
    assert main is not None
    assert names_of(raw).name(main.address + 4) == "main+0x4"
    bare = (ROOT / "firmware" / "linux" / "x86_64" / "bug_atomicity").read_bytes()
    balances = Symbols.of_elf(bare).named("balances")
    assert balances is not None
    assert names_of(bare).name(balances.address + 8) == "balances+0x8"
    assert names_of(bare).name(0) == ""


@needs_gcc
def test_what_looking_may_take_is_bounded(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables_module, "_MOST_EFFORT", 300)
    raw = program.read_bytes()
    plain = Symbols.of_elf(raw).named("plain")
    assert plain is not None
    with told_left_out() as said:
        assert names_of(raw).name(plain.address) == "plain"
    assert len(said) == 1
    assert "types of variables of data are left out" in said[0]


@needs_gcc
@pytest.mark.parametrize("seed", range(3))
def test_changed_bytes_do_no_harm(seed: int, program: Path) -> None:
    draw, raw = random.Random(seed), program.read_bytes()
    places = {}
    with program.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if section.name in (".debug_info", ".debug_abbrev"):
                places[section.name] = section["sh_offset"], section["sh_size"]
    symbols = Symbols.of_elf(raw)
    addresses = [symbol.address for name in ("accounts", "grid", "bank") if (symbol := symbols.named(name))]
    began = time.monotonic()
    for _ in range(60):
        changed = bytearray(raw)
        for at, size in places.values():
            for _ in range(draw.choice((0, 1, 3, 30))):
                byte = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
                changed[at + draw.randrange(size)] = byte
        parts = Variables(bytes(changed), "data")
        for address in addresses:
            found = parts.part(address, draw.randrange(64))
            assert found is None or isinstance(found, str)
    assert time.monotonic() - began < 90
