"""`corebraid record` on Linux programs that are none, that misbehave, and on a machine that does: one clear
line, the right exit code, and either a recording that opens or none at all."""

from __future__ import annotations

import os
import re
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_factory import ROOT, Ran, run, start
from cli_factory import refused as assert_refused

from corebraid.__main__ import main
from corebraid.study.deadlocks import waits_of
from emu.linux.tasks.waiting import Awaited
from recorder.files.manifest import load

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"
HELLO, DYNAMIC = PROGRAMS / "static_hello", PROGRAMS / "exit_seven"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def record(*arguments: object) -> Ran:
    """`record -o rec` in the current directory."""
    return run("record", "-o", "rec", *arguments)


def program(name: str, content: bytes, mode: int = 0o755) -> Path:
    """A file in the current directory."""
    path = Path(name).absolute()
    path.write_bytes(content)
    path.chmod(mode)
    return path


def patched(original: Path, offset: int, layout: str, value: int) -> bytes:
    """A program with another number in its ELF header (elf(5))."""
    raw = bytearray(original.read_bytes())
    struct.pack_into(layout, raw, offset, value)
    return bytes(raw)


def refused(ran: Ran, *words: str, code: int = 2) -> None:
    """One line of ours with all these words, and nothing left."""
    assert_refused(ran, *words, code=code)
    assert not Path("rec").exists()


def whole(ran: Ran, code: int, *words: str) -> None:
    """It ended with this code and these words on stderr; what it left replays, core by core."""
    assert ran.code == code, ran.err
    for word in words:
        assert word in ran.err
    assert "Traceback" not in ran.err
    verified = run("verify", "rec")
    assert verified.code == 0, verified.err
    assert "the interleaving that ran is one of the legal orders" in verified.out


# -- no programs -----------------------------------------------------------------------------------------

NO_PROGRAMS: dict[str, tuple[Callable[[], bytes], tuple[str, ...]]] = {
    "text": (lambda: b"hello\n", ("not a program", "ELF")),
    "empty": (lambda: b"", ("an empty file",)),
    "nameless script": (lambda: b"#!\n", ("names no interpreter",)),
    "lost script": (lambda: b"#!/no/such/one -x\n", ("/no/such/one", "interpreter of the script")),
    "32 bits": (lambda: patched(DYNAMIC, 4, "<B", 1), ("32-bit",)),
    "aarch64": (lambda: patched(DYNAMIC, 18, "<H", 183), ("another instruction set", "EM_AARCH64")),
    "riscv": (lambda: patched(HELLO, 18, "<H", 243), ("another instruction set", "EM_RISCV")),
    "core dump": (lambda: patched(DYNAMIC, 16, "<H", 4), ("a core dump",)),
    "object": (lambda: patched(DYNAMIC, 16, "<H", 1), ("not an executable", "ET_REL")),
    "cut": (lambda: DYNAMIC.read_bytes()[:3000], ("damaged",)),
    "cut header": (lambda: HELLO.read_bytes()[:40], ("damaged",)),
    "cut segment": (lambda: HELLO.read_bytes()[:100_000], ("cut off",)),
    "no library": (
        lambda: DYNAMIC.read_bytes().replace(b"libc.so.6", b"libq.so.6"),
        ("libq.so.6", "looked for in", "/lib"),
    ),
}


@pytest.mark.parametrize("kind", NO_PROGRAMS)
def test_no_program(kind: str) -> None:
    content, words = NO_PROGRAMS[kind]
    refused(record(program("guest", content())), *words)


def test_scripts_in_a_circle() -> None:
    path = program("circle", b"")
    path.write_bytes(b"#!" + bytes(path) + b"\n")
    refused(record(path), "scripts that interpret each other")


def test_a_chain_of_scripts_runs() -> None:
    inner = program("inner", b"#!" + bytes(HELLO) + b" one\n")
    outer = program("outer", b"#!" + bytes(inner) + b"\n")
    ran = record(outer, "two")
    assert ran.code == 0, ran.err
    assert f"[one] [{inner}] [{outer}] [two]" in ran.out


def test_no_permission_to_execute() -> None:
    refused(record(program("guest", HELLO.read_bytes(), 0o644)), "no execute permission", "chmod")


def test_what_is_no_file() -> None:
    refused(record(Path.cwd()), "directory")
    refused(record("./nothing"), "cannot be read")
    refused(record("nothing-in-path"), "there is no such program", "PATH")
    refused(record(""), "there is no such program")
    refused(record("./" + "x" * 5000), "File name too long")
    os.mkfifo("fifo", 0o755)
    refused(record("./fifo"), "regular file")
    refused(record("/dev/zero"), "regular file")
    Path("loop").symlink_to("loop")
    refused(record("./loop"), "symbolic links")


# -- wrong use -------------------------------------------------------------------------------------------

WRONG_BINDS = (
    "", ":", "a:b", "/tmp:relative", "/tmp:/x:ww", "/no/such/thing:/x", "/proc:/p", "/dev/null:/n",
    "/tmp:/proc/x", "/tmp:/:rw",
)  # fmt: skip


@pytest.mark.parametrize("bind", WRONG_BINDS)
def test_wrong_binds(bind: str) -> None:
    refused(record("--bind", bind, HELLO))


@pytest.mark.parametrize("variable", ["", "=x", "NO_SUCH_VARIABLE_HERE"])
def test_wrong_variables(variable: str) -> None:
    refused(record("--env", variable, HELLO), "variable")


@pytest.mark.parametrize("memory", ["0", "4k", "1000000g"])
def test_wrong_memory(memory: str) -> None:
    refused(record("--memory", memory, HELLO), "memory")


def test_what_is_there_stays() -> None:
    Path("there").mkdir()
    program("file", b"mine")
    for place in ("there", "file"):
        ran = run("record", "-o", place, HELLO)
        assert (ran.code, len(ran.lines)) == (2, 1)
        assert "nothing was written over" in ran.err
    assert list(Path("there").iterdir()) == []
    assert Path("file").read_bytes() == b"mine"
    refused(run("record", "-o", "no/such/place", HELLO), "cannot be made")


def test_kept_writes_have_a_place_of_their_own() -> None:
    Path("full").mkdir()
    program("full/mine", b"")
    refused(record("--keep-writes", "full", HELLO), "empty directory")
    Path("loop").symlink_to("loop")
    for kept in ("loop", "loop/below", "n" * 300):
        refused(record("--keep-writes", kept, HELLO), kept[:50], "kept")
    refused(record("--keep-writes", "rec", HELLO), "in the recording")
    refused(record("--keep-writes", "rec/below", HELLO), "in the recording")


def test_all_evidence_is_what_a_linux_guest_has() -> None:
    ran = record("--evidence", "all", HELLO)
    assert ran.code == 0, ran.err
    assert "opr" in ran.err
    assert "rpc" not in ran.err


# -- names and arguments ---------------------------------------------------------------------------------


def test_programs_by_any_name() -> None:
    program("-o", HELLO.read_bytes())
    Path("to-hello").symlink_to(HELLO)
    for number, name in enumerate(("./-o", "./to-hello", HELLO)):
        ran = run("record", "-o", f"rec{number}", "--", name, "--help")
        assert ran.code == 0, ran.err
        assert ran.out == f"static_hello: {Path(name).name} [--help] GREETING=(none)\n"
    assert "looked for in PATH; there is ./to-hello" in run("record", "-o", "x", "--", "to-hello").err


def test_the_recording_is_named_like_the_program() -> None:
    assert run("record", HELLO).code == 0
    assert run("record", HELLO).code == 0
    assert sorted(path.name for path in Path().iterdir()) == ["static_hello.2.rec", "static_hello.rec"]


def test_arguments_are_bytes() -> None:
    given = [b"\xff\xfe\x80", b"", b"a b\nc", "ä".encode()]
    command = [
        sys.executable,
        "-m",
        "corebraid",
        "record",
        "-o",
        "rec",
        "--env",
        b"GREETING=\xff",
        "--",
        HELLO,
    ]
    ran = subprocess.run([*command, *given], capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert ran.returncode == 0, ran.stderr
    assert (
        ran.stdout
        == b"static_hello: static_hello " + b"".join(b"[%b] " % g for g in given) + b"GREETING=\xff\n"
    )


def test_arguments_that_do_not_fit() -> None:
    refused(record(HELLO, *(["x" * 100_000] * 25)), "arguments are too long")


# -- guests that fail ------------------------------------------------------------------------------------


def test_a_guest_that_is_killed() -> None:
    whole(record(PROGRAMS / "crash"), 3, "SIGSEGV", "core ", "pc 0x", "look_up", "crash.c:13")


def test_its_exit_code_is_passed_on() -> None:
    assert record("--pass-exit-code", PROGRAMS / "crash").code == 139
    assert run("record", "-o", "other", "--pass-exit-code", PROGRAMS / "exit_seven").code == 7


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fork_try", ("processes are not supported",)),
        ("exec_try", ("execve",)),
        ("avx_try", ("vaddps", "avx_try.c:9")),
        ("deadlock_sure", ("deadlock",)),
    ],
)
def test_a_guest_that_cannot_go_on(name: str, words: tuple[str, ...]) -> None:
    whole(record(PROGRAMS / name), 3, *words)


@pytest.mark.parametrize("name", [") waits for x", "; thread 7 (a", "0x1000040a0"])
def test_a_deadlock_of_threads_with_a_strange_name(name: str) -> None:
    ran = record(program(name, (PROGRAMS / "deadlock_sure").read_bytes()))
    assert ran.code == 3, ran.err
    end = load(Path("rec")).end
    assert end is not None
    assert [(one.what, one.owner) for one in waits_of(end)] == [
        (Awaited.THREAD, 1001), (Awaited.MUTEX, 1002), (Awaited.MUTEX, 1001)
    ]  # fmt: skip
    told = [line for line in ran.lines if f"({name}) waits for" in line]
    assert len(told) == 3, ran.err
    assert told[1].startswith(f"corebraid: thread 1001 ({name}) waits for the mutex at 0x")
    assert told[1].endswith("(first), held by thread 1002")
    assert not any(line.startswith("corebraid: thread 7") for line in ran.lines)


def test_a_guest_that_wants_all_memory() -> None:
    whole(record("--memory", "16m", PROGRAMS / "alloc_forever"), 3, "SIGKILL", "--memory")


@pytest.mark.parametrize("limit", [("--limit", "150000"), ("--time-limit", "0.5")])
def test_a_guest_that_never_ends(limit: tuple[str, str]) -> None:
    whole(record(*limit, PROGRAMS / "loop_forever"), 0, "ended: ", limit[0].strip("-"))


# -- interrupts ------------------------------------------------------------------------------------------


def _wait_for(found: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not found():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_control_c_ends_the_recording_well() -> None:
    process = start("record", "-o", "rec", PROGRAMS / "loop_forever")
    assert process.stdout is not None
    assert process.stdout.readline() == b"loop_forever: start\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    lines = err.decode().splitlines()
    assert process.returncode == 130
    assert len(lines) == 1, lines
    assert lines[0].endswith("ended: interrupted")
    whole(Ran(0, "", err.decode()), 0)
    assert run("order", "rec").code == 0


def test_a_killed_recorder_leaves_what_it_wrote() -> None:
    process = start("record", "-o", "rec", "--strata", "cycles:20000", PROGRAMS / "loop_forever")
    log = Path("rec/core-0.log")
    _wait_for(lambda: log.exists() and log.stat().st_size > 50_000, "the log does not grow")
    process.kill()
    process.communicate(timeout=60)
    assert "incomplete" in run("info", "rec").err
    replayed = run("replay", "rec", "--core", "0")
    assert replayed.code == 0, replayed.err
    strata = re.search(r"(\d+) strata", replayed.out)
    assert strata is not None
    assert int(strata[1]) > 0
    assert run("order", "rec").code == 0
    assert run("check-order", "rec").code == 0


# -- a machine that has no room --------------------------------------------------------------------------


def _limited(most: int) -> Callable[[], None]:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    return limit


def _command(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "corebraid", *map(str, arguments)]
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, timeout=100, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("most", [100, 3000])
def test_a_full_disk_at_the_beginning_leaves_nothing(most: int) -> None:
    done = _command("record", "-o", "rec", PROGRAMS / "mutexes", preexec_fn=_limited(most))
    refused(Ran(done.returncode, "", done.stderr.decode()), "cannot be written")


def test_a_full_disk_in_the_middle_leaves_what_was_written() -> None:
    loop = PROGRAMS / "loop_forever"
    done = _command("record", "-o", "rec", "--strata", "cycles:10000", loop, preexec_fn=_limited(200_000))
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 2
    assert len(lines) == 1, lines
    assert "cannot be written" in lines[0]
    assert run("replay", "rec", "--core", "1").code == 0


@pytest.mark.soak
def test_output_that_goes_nowhere() -> None:
    done = _command("record", "-o", "rec", HELLO, stdout=subprocess.PIPE, preexec_fn=lambda: os.close(1))
    assert done.returncode == 0, done.stderr
    with Path("/dev/full").open("wb") as full:
        done = _command("record", "-o", "rec2", HELLO, stdout=full)
    assert done.returncode == 2
    assert b"what the guest printed could not all be written" in done.stderr
    assert b"Traceback" not in done.stderr
    reader, writer = os.pipe()
    os.close(reader)
    done = _command("record", "-o", "rec3", HELLO, stdout=writer)
    os.close(writer)
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1
    for name in ("rec", "rec2", "rec3"):
        assert run("verify", name).code == 0


def test_no_standard_streams_at_all() -> None:
    assert _command("record", "-o", "rec", HELLO, preexec_fn=lambda: os.closerange(0, 3)).returncode == 0
    assert run("verify", "rec").code == 0


def test_no_current_directory(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = _command("record", "-o", tmp_path / "rec", HELLO, cwd=gone, preexec_fn=gone.rmdir)
    refused(Ran(done.returncode, "", done.stderr.decode()), "there is no current directory")


def test_closed_streams_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    monkeypatch.setattr(sys, "argv", ["corebraid", "--version"])
    with pytest.raises(SystemExit) as ending:
        main()
    assert ending.value.code == 0
    assert all(getattr(sys, name) is not None for name in ("stdin", "stdout", "stderr"))
