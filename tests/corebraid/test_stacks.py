"""Where a guest died, with its stack: of committed programs, and of such as gcc makes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_factory import FIRMWARE, ROOT, record, run
from stack_factory import compiled, needs_gcc

from corebraid.names.program import GuestProgram
from corebraid.study.ended import end_place
from corebraid.study.stacks import Stack, stack_at_end
from recorder.files.final_memory import FinalMemory
from recorder.files.manifest import FINAL_IMG
from recorder.files.reader import Recording

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"


def stack_of(directory: Path) -> Stack:
    found = stack_at_end(directory, Recording.open(directory).manifest)
    assert found is not None
    return found


def recorded(folder: Path, program: Path, *options: object) -> Stack:
    record(folder / f"{program.name}.rec", program, "--cores", 2, *options)
    return stack_of(folder / f"{program.name}.rec")


def functions(stack: Stack) -> list[str]:
    """Names without offsets, versions and what gcc adds to those of copies."""
    found = [one.name.partition("+")[0].rpartition("!")[2] for one in (*stack.first, *stack.last)]
    return [name.partition(".")[0] for name in found]


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thread that reads through a null pointer."""
    directory = tmp_path_factory.mktemp("crash") / "rec"
    record(directory, PROGRAMS / "crash")
    return directory


def test_a_thread_is_told_to_where_it_began(crash: Path) -> None:
    stack = stack_of(crash)
    assert stack.who == "thread 1002"
    assert (stack.first[0].name, stack.first[0].line) == ("look_up", "crash.c:13")
    # What begins a thread, in the C library that there is.
    assert len(stack.first) == 3
    assert (stack.remark, stack.left_out, stack.last) == ("", 0, ())


def test_info_record_and_hunt_tell_it(crash: Path, tmp_path: Path) -> None:
    text = run("info", crash).out
    assert "killed by SIGSEGV at address 0x8" in text
    assert "stack      stack of thread 1002:\n             #0 look_up (crash.c:13)\n" in text
    facts = json.loads(run("info", crash, "--json").out)
    assert facts["end"]["address"] == 8
    assert facts["stack"]["frames"][0] == {
        "number": 0, "pc": facts["stack"]["frames"][0]["pc"], "symbol": "look_up", "line": "crash.c:13",
        "inlined": False, "signal": False, "arguments": {},
    }  # fmt: skip
    ran = record(tmp_path / "rec", PROGRAMS / "crash", "--json", "--output", tmp_path / "out")
    assert "corebraid:   #0 look_up (crash.c:13)" in ran.lines
    assert json.loads(ran.out)["stack"] == facts["stack"]
    ran = run(
        "hunt", "-o", tmp_path / "hunt", "--no-explain", "--no-reduce", "--cores", 2, PROGRAMS / "crash"
    )
    lines = ran.out.splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith("found in run 1 "))
    assert "killed by SIGSEGV at address 0x8" in lines[at]
    assert lines[at + 1].startswith("  stack of thread ")
    assert lines[at + 2] == "    #0 look_up (crash.c:13)"


def test_an_abort_is_told_through_the_c_library(tmp_path: Path) -> None:
    stack = recorded(tmp_path, PROGRAMS / "abort_now")
    names = functions(stack)
    assert names.index("raise") < names.index("abort") < names.index("__assert_fail") < names.index("check")
    assert "check" in names[names.index("check") :]
    assert stack.first[names.index("check")].line == "abort_now.c:8"


def test_who_did_not_die_has_no_stack(tmp_path: Path) -> None:
    record(tmp_path / "rec", FIRMWARE / "fig1.elf", "--cores", 2)
    assert stack_at_end(tmp_path / "rec", Recording.open(tmp_path / "rec").manifest) is None
    assert json.loads(run("info", tmp_path / "rec", "--json").out)["stack"] is None


def test_firmware_without_tables_has_one_frame(tmp_path: Path) -> None:
    ran = record(tmp_path / "rec", FIRMWARE / "fault_div.elf", "--cores", 2)
    assert not any("stack of" in line for line in ran.lines)
    stack = stack_of(tmp_path / "rec")
    assert (stack.who, functions(stack)) == ("core 1", ["divide_by_zero"])
    assert "no frame table" in stack.remark


def test_memory_that_is_damaged_is_a_remark(crash: Path, tmp_path: Path) -> None:
    shutil.copytree(crash, tmp_path / "rec")
    image = tmp_path / "rec" / FINAL_IMG
    raw = bytearray(image.read_bytes())
    raw[0] ^= 0xFF
    image.write_bytes(raw)
    ran = run("info", tmp_path / "rec")
    assert ran.code == 0
    assert "it is not known: " in ran.out
    image.unlink()
    assert "it is not known: " in run("info", tmp_path / "rec").out


# -- made by gcc ---------------------------------------------------------------------------------------------

CALLS = """
#include <stdio.h>
static volatile long *volatile nowhere;
static inline __attribute__((always_inline)) long innermost(long n) { return *nowhere + n; }
__attribute__((noinline)) long third(long n) {
    return innermost(n) + 3;
}
__attribute__((noinline)) long second(long n) { long more[9] = {n}; return third(more[n & 7]) + more[0]; }
__attribute__((noinline)) long first(long n) { return n > 2 ? first(n - 1) + 1 : second(n) + 2; }
int main(int argc, char **argv) { printf("%ld\\n", first(argc + 4)); return 0; }
"""
FLAGS = [
    ("-O0",), ("-O2",), ("-O2", "-static"), ("-O2", "-no-pie", "-fno-pie"), ("-O2", "-static-pie"),
    ("-O1", "-gdwarf-4"), ("-O2", "-g", "-gz=zlib"), ("-Os", "-fno-asynchronous-unwind-tables"),
]  # fmt: skip


@needs_gcc
@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_functions_are_told_whatever_the_compiler_did(flags: tuple[str, ...], tmp_path: Path) -> None:
    stack = recorded(tmp_path, compiled(tmp_path, "calls.c", CALLS, "-fno-optimize-sibling-calls", *flags))
    names = functions(stack)
    assert names[:8] == ["innermost", "third", "second", *["first"] * 4, "main"]
    assert stack.first[0].inlined
    assert [one.inlined for one in stack.first[1:]] == [False] * (len(names) - 1)
    assert [one.line for one in stack.first[:4]] == ["calls.c:4", "calls.c:6", "calls.c:8", "calls.c:9"]
    assert names[-1] == "_start"
    assert stack.remark == ""


@needs_gcc
@pytest.mark.parametrize("flags", [("-O0",), ("-O2",), ("-O2", "-static")], ids=" ".join)
def test_frames_are_those_that_frame_pointers_lead_to(flags: tuple[str, ...], tmp_path: Path) -> None:
    """A naive twin: the chain of frame pointers, of the program's own functions."""
    flags = (*flags, "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
    # A function that calls none has no frame pointer.
    source = CALLS.replace("return innermost(n) + 3;", 'return innermost(printf("\\n") + n) + 3;')
    stack = recorded(tmp_path, compiled(tmp_path, "calls.c", source, *flags))
    recording = Recording.open(tmp_path / "calls.rec")
    place, memory = end_place(recording), FinalMemory(recording)
    assert place is not None
    program = GuestProgram.of(recording.path, recording.manifest)
    pointer, chain = program.isa.read(place.context, "rbp"), [place.pc]
    while not program.symbols.name(chain[-1]).startswith("main"):
        words = memory.read(pointer, 16)
        assert words is not None
        pointer, pc = (int.from_bytes(words[at : at + 8], "little") for at in (0, 8))
        chain.append(pc)
    called = [one.pc for one in stack.first if not one.inlined]
    assert len(chain) > 5
    assert called[: len(chain)] == chain


@needs_gcc
@pytest.mark.skipif(shutil.which("gdb") is None, reason="there is no gdb to compare with")
@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-static")], ids=" ".join)
def test_frames_are_those_that_gdb_tells(flags: tuple[str, ...], tmp_path: Path) -> None:
    program = compiled(tmp_path, "calls.c", CALLS, "-fno-optimize-sibling-calls", *flags)
    command = ["gdb", "-q", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "run", "-ex", "bt"]
    ran = subprocess.run([*command, str(program)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    told = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\w+).* at (\S+)$", ran.stdout, re.MULTILINE)
    if not told:
        pytest.skip("gdb may run nothing here")
    stack = recorded(tmp_path, program)
    ours = [(name, one.line) for name, one in zip(functions(stack), stack.first, strict=True)]
    # Where it stands at the first instruction of a call that was compiled in, gdb tells of the caller alone.
    assert ours[1 if told[0][0] != "innermost" else 0 :][: len(told)][1:] == told[1:]
    assert told[-1][0] == "main"


HANDLER = """
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
static char other[65536];
static __attribute__((noinline)) void give_up(void) { abort(); }
static void handler(int number) { give_up(); }
static __attribute__((noinline)) int leaf(volatile int *p) { return *p + 1; }
static void *work(void *a) {
    stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
    return (void *)(long)(leaf(a) + 2);
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    return pthread_join(thread, NULL);
}
"""


@needs_gcc
@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-static")], ids=" ".join)
def test_a_signal_on_another_stack_is_passed(flags: tuple[str, ...], tmp_path: Path) -> None:
    stack = recorded(tmp_path, compiled(tmp_path, "handler.c", HANDLER, *flags))
    names = functions(stack)
    at = names.index("handler")
    assert names[at - 1] == "give_up"
    assert stack.first[at + 1].signal
    assert names[at + 2 : at + 4] == ["leaf", "work"]
    assert stack.remark == ""


@needs_gcc
def test_deep_recursion_is_told_from_both_ends(tmp_path: Path) -> None:
    source = """
    #include <stdio.h>
    __attribute__((noinline)) long down(long n) { char b[300]; b[n % 300] = 1; return down(n + 1) + b[5]; }
    int main(void) { printf("%ld\\n", down(1)); return 0; }
    """
    stack = recorded(tmp_path, compiled(tmp_path, "deep.c", source, "-O1", "-w"))
    assert functions(stack)[:32] == ["down"] * 32
    assert len(stack.first) == 32
    assert len(stack.last) == 16
    assert functions(stack)[-1] == "_start"
    assert "main" in functions(stack)[-5:]
    assert stack.left_out > 20_000
    assert stack.last[0].number == 32 + stack.left_out
    lines = stack.lines()
    assert lines[33] == f"  ... {stack.left_out:,} more"
    assert len(stack.short()) == 1 + 12 + 1
    assert stack.short()[-1] == f"  ... {stack.left_out + 36:,} more"


@needs_gcc
@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-fstack-protector-all")], ids=" ".join)
def test_a_smashed_stack_ends_with_a_remark(flags: tuple[str, ...], tmp_path: Path) -> None:
    source = """
    #include <string.h>
    __attribute__((noinline)) void smash(int n) {
        char b[16]; memset(b, 0x41, n); __asm__ volatile("" :: "r"(b) : "memory");
    }
    int main(int argc, char **argv) { smash(argc + 200); return 0; }
    """
    stack = recorded(tmp_path, compiled(tmp_path, "smash.c", source, "-w", *flags))
    assert "smash" in functions(stack)
    assert stack.first[-1].pc == 0x4141414141414141
    assert stack.lines()[-1] == f"  ({stack.remark})"
    assert "overwritten" in stack.remark


@needs_gcc
def test_a_call_of_a_null_pointer(tmp_path: Path) -> None:
    source = """
    static int (*volatile f)(int);
    __attribute__((noinline)) int through(int x) { return f(x) + 1; }
    int main(void) { return through(3); }
    """
    stack = recorded(tmp_path, compiled(tmp_path, "null.c", source, "-O1"))
    assert stack.first[0].pc == 0
    assert functions(stack)[1:3] == ["through", "main"]


@needs_gcc
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    ("signal", "who", "where"),
    [("SIGQUIT", "thread 1001", "sleep_on"), ("SIGTERM", "thread 1000", "main")],
)
def test_a_thread_that_is_killed_as_it_sleeps_is_the_one_that_is_told(
    signal: str, who: str, where: str, cores: int, tmp_path: Path
) -> None:
    """It does not run any more: its registers come to a core all the same. Where no core is dumped all
    threads die at once, whomever the signal was sent to: told is who has sent it."""
    source = """
    #include <pthread.h>
    #include <semaphore.h>
    #include <signal.h>
    #include <unistd.h>
    static sem_t never;
    static void *sleep_on(void *a) { sem_wait(&never); return a; }
    int main(void) {
        pthread_t t;
        pthread_create(&t, NULL, sleep_on, NULL);
        for (int i = 0; i < 20; i++) usleep(1000);
        pthread_kill(t, SIGTERM);
        for (;;) usleep(1000);
    }
    """.replace("SIGTERM", signal)
    program = compiled(tmp_path, "sleeper.c", source, "-O1")
    record(tmp_path / "rec", program, "--cores", cores)
    stack = stack_of(tmp_path / "rec")
    assert stack.who == who
    assert where in functions(stack)
    ran = run("verify", tmp_path / "rec")
    assert ran.code == 0, ran.err


ARGUMENTS = """
#include <stdbool.h>
#include <stdio.h>
enum color { RED, GREEN = 7, BLUE = -2 };
struct pair { long a, b; };
typedef unsigned char byte;
static volatile int *volatile nowhere;
__attribute__((noinline)) double deepest(float ratio, double wide, enum color color, bool yes, short least) {
    printf("%f\\n", ratio * wide);
    return *nowhere + ratio + wide + color + yes + least;
}
__attribute__((noinline)) long middle(byte small, unsigned long big, const char *text, struct pair pair) {
    long found = (long)deepest(2.5f, -1e300, BLUE, true, -3);
    return found + small + (long)big + text[0] + pair.b;
}
__attribute__((noinline)) long outer(long n, int m) {
    struct pair pair = {n, m};
    long found = n > 1 ? outer(n - 1, m) : middle(200, 0xffffffffffffffffUL, (const char *)16, pair);
    return found + n + m;
}
int main(void) { return (int)outer(3, -9) & 1; }
"""
KNOWN = {
    "deepest": {"ratio": "2.5", "wide": "-1e+300", "color": "BLUE", "yes": "true", "least": "-3"},
    "middle": {"small": "200", "big": str((1 << 64) - 1), "text": "0x10"},
}


@needs_gcc
@pytest.mark.parametrize(
    "flags", [("-O0",), ("-O0", "-gdwarf-4"), ("-O1",), ("-O2",), ("-O3",)], ids=" ".join
)
def test_arguments_are_right_or_left_out(flags: tuple[str, ...], tmp_path: Path) -> None:
    flags = ("-w", "-fno-optimize-sibling-calls", *flags)
    stack = recorded(tmp_path, compiled(tmp_path, "arguments.c", ARGUMENTS, *flags))
    told, n = 0, 0
    for one, name in zip(stack.first, functions(stack), strict=True):
        known = KNOWN.get(name, {})
        if name == "outer":
            n += 1
            known = {"n": str(n), "m": "-9"}
        for argument, value in one.arguments:
            assert known.get(argument) == value, (name, argument)
            told += 1
        if "-O0" in flags:
            assert dict(one.arguments) == known
    assert n == 3 or "-O3" in flags or "-O2" in flags
    assert told > 2
    if "-O0" in flags:
        facts = stack.facts()["frames"]
        assert facts[1]["arguments"] == KNOWN["middle"]  # type: ignore[index]
        assert stack.first[2].text().endswith(": n=1, m=-9")


@needs_gcc
def test_an_argument_that_is_not_stored_yet_is_left_out(tmp_path: Path) -> None:
    """Where the stack overflows, it is the store of an argument that fails."""
    source = """
    long down(long n) { char b[5000]; b[n % 5000] = 1; return down(n + 1) + b[5]; }
    int main(void) { return (int)down(1); }
    """
    stack = recorded(tmp_path, compiled(tmp_path, "early.c", source, "-O0", "-w"))
    assert stack.first[0].arguments == ()
    inner = [int(dict(one.arguments)["n"]) for one in stack.first[1:]]
    assert inner == list(range(inner[0], inner[0] - len(inner), -1))


NAMED = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
static void *short_lived(void *a) { pthread_setname_np(pthread_self(), "early"); return a; }
static void *fails(void *a) {
    for (int i = 0; i < 99999; i++) __asm__ volatile("");
    abort();
}
int main(void) {
    pthread_t one, other;
    pthread_create(&one, NULL, short_lived, NULL);
    pthread_join(one, NULL);
    pthread_create(&other, NULL, fails, NULL);
    pthread_setname_np(other, "worker 2");
    return pthread_join(other, NULL);
}
"""


@needs_gcc
def test_threads_are_called_by_their_names(tmp_path: Path) -> None:
    stack = recorded(tmp_path, compiled(tmp_path, "named.c", NAMED))
    assert stack.who == "thread 1002 (worker 2)"
    manifest = Recording.open(tmp_path / "named.rec").manifest
    assert manifest.end is not None
    assert manifest.end.names == ((1001, "early"), (1002, "worker 2"))
