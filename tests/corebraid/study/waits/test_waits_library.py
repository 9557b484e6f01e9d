"""Which functions wait, and at what: calls as they were on the stacks of real programs, as data; and one
program whose functions are called as Rust's are."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_factory import run
from stack_factory import compiled, needs_gcc

from corebraid.study.waits.library import Kind, known
from corebraid.study.waits.named import Call, looked

_FUTEX = "std::sys::pal::unix::futex::futex_wait"
_PARK = ("<std::sys::sync::thread_parking::futex::Parker>::park", "<std::thread::thread::Thread>::park")
_CHANNEL = (
    *_PARK, "<std::sync::mpmc::context::Context>::wait_until",
    "std::sync::mpmc::list::Channel<T>::recv::{{closure}}",
    "std::sync::mpmc::context::Context::with::{{closure}}", "std::thread::local::LocalKey<T>::try_with",
    "std::sync::mpmc::context::Context::with",
)  # fmt: skip
_CONDVAR = (
    "<std::sys::sync::condvar::futex::Condvar>::wait_optional_timeout",
    "<std::sys::sync::condvar::futex::Condvar>::wait",
)
_ONCE = ("<std::sys::sync::once::futex::Once>::call", "std::sync::once::Once::call_once_force")
#: Of rustc 1.95, with inlined functions or without, between `futex_wait` and the program's own function; then
#: what older versions call the same (1.62 to 1.80).
RUST = [
    (Kind.RUST_MUTEX, ("<std::sys::sync::mutex::futex::Mutex>::lock_contended",)),
    (
        Kind.RUST_MUTEX,
        (
            "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
            "<std::sys::sync::mutex::futex::Mutex>::lock",
            "std::sync::poison::mutex::Mutex<T>::lock",
        ),
    ),
    # It has been woken, and wants its mutex back.
    (Kind.RUST_MUTEX, ("<std::sys::sync::mutex::futex::Mutex>::lock_contended", *_CONDVAR)),
    (
        Kind.RUST_REENTRANT,
        (
            "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
            "<std::sync::reentrant_lock::ReentrantLock<T>>::lock",
        ),
    ),
    (Kind.RUST_RWLOCK, ("<std::sys::sync::rwlock::futex::RwLock>::read_contended",)),
    (Kind.RUST_RWLOCK, ("<std::sys::sync::rwlock::futex::RwLock>::write_contended",)),
    (Kind.RUST_CONDVAR, (*_CONDVAR, "std::sync::poison::condvar::Condvar::wait")),
    (
        Kind.RUST_BARRIER,
        (
            *_CONDVAR,
            "<std::sync::nonpoison::condvar::Condvar>::wait::<std::sync::barrier::BarrierState>",
            "<std::sync::barrier::Barrier>::wait",
        ),
    ),
    (Kind.RUST_ONCE, ("<std::sys::sync::once::futex::Once>::call", "std::sync::once::Once::call_once")),
    (Kind.RUST_ONCE_LOCK, (*_ONCE, "std::sync::once_lock::OnceLock<T>::initialize")),
    (Kind.RUST_LAZY_LOCK, (*_ONCE, "std::sync::lazy_lock::LazyLock<T,F>::force")),
    (Kind.RUST_PARKED, (*_PARK, "std::thread::functions::park")),
    (Kind.RUST_SCOPE, (*_PARK, "std::thread::scoped::scope")),
    (Kind.RUST_RECEIVE, (*_CHANNEL, "std::sync::mpsc::Receiver<T>::recv")),
    (Kind.RUST_RECEIVE, (*_PARK, "<std::sync::mpmc::list::Channel<u32>>::recv")),
    (
        Kind.RUST_SEND,
        (*_PARK, "std::sync::mpmc::zero::Channel<T>::send", "std::sync::mpsc::SyncSender<T>::send"),
    ),
    (Kind.RUST_MUTEX, ("std::sys::unix::locks::futex_mutex::Mutex::lock_contended",)),
    (Kind.RUST_RWLOCK, ("std::sys::unix::locks::futex_rwlock::RwLock::write_contended",)),
    (Kind.RUST_CONDVAR, ("std::sys::unix::locks::futex_condvar::Condvar::wait_optional_timeout",)),
    (Kind.RUST_ONCE, ("std::sys_common::once::futex::Once::call",)),
    (Kind.RUST_PARKED, ("std::sys_common::thread_parking::futex::Parker::park", "std::thread::park")),
]


@pytest.mark.parametrize("in_libc", [True, False])
@pytest.mark.parametrize(("kind", "names"), RUST)
def test_what_rust_waits_at(kind: Kind, names: tuple[str, ...], in_libc: bool) -> None:
    """in_libc: `syscall` is in a library, not part of the program."""
    calls = [Call("syscall", in_libc, None)]
    # What has called the library does not say what it waits at, though it be called inside another's wait.
    outside = ("waits::main::{{closure}}", "std::sync::lazy_lock::LazyLock<T,F>::force")
    calls += [Call(name, False, None) for name in (_FUTEX, *names, *outside)]
    found, _ = looked(calls)
    assert found is not None
    assert found[0].kind is kind


@pytest.mark.parametrize(
    "name",
    [
        "waits::Mutex::lock", "mine::std::sync::Mutex::lock", "<waits::Gate>::wait", _FUTEX,
        "std::thread::local::LocalKey<T>::try_with", "std::sync::mpmc::context::Context::with",
        "std::sync::mpsc::channel", "std::thread::spawn", "std::mutex::lock", "Condvar::wait",
        "<std::sys::sync::mutex::futex::Mutex>::wake",
    ],
)  # fmt: skip
def test_what_does_not_wait_or_is_the_programs_own(name: str) -> None:
    assert known(name) is None


#: The functions have the names, mangled, of those that rustc 1.95 makes.
_GUEST = r"""
#define _GNU_SOURCE
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STD(rest) asm("_RNv" rest)
#define FN __attribute__((noinline)) void
FN futex_wait(int *word) STD("NtNtNtNtCsjrHSEGnQ3l9_3std3sys3pal4unix5futex10futex_wait");
FN lock_contended(int *word)
    STD("MNtNtNtNtCsjrHSEGnQ3l9_3std3sys4sync5mutex5futexNtB2_5Mutex14lock_contended");
FN park(int *word) STD("Ms_NtNtCsjrHSEGnQ3l9_3std6thread6threadNtB4_6Thread4park");
FN recv(int *word) asm("_ZN3std4sync4mpsc17Receiver$LT$T$GT$4recv17h5d80b531da6355c6E");
static struct { int word; } guard = {2}, parker = {2};

void futex_wait(int *word) { syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0); asm volatile(""); }
void lock_contended(int *word) { futex_wait(word); asm volatile(""); }
void park(int *word) { futex_wait(word); asm volatile(""); }
void recv(int *word) { park(word); asm volatile(""); }

int main(int n, char **arguments) {
    const char *how = arguments[n - 1];
    if (!strcmp(how, "mutex")) lock_contended(&guard.word);
    if (!strcmp(how, "park")) park(&parker.word);
    if (!strcmp(how, "receive")) recv(&parker.word);
    return 0;
}
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("rust"), "waits.c", _GUEST, "-O1", "-g0", "-w")


@needs_gcc
@pytest.mark.parametrize(
    ("how", "waits"),
    [
        ("mutex", "the std::sync::Mutex at 0x# (guard)"),
        ("park", "its std::thread::Thread::unpark"),
        ("receive", "a message of a std::sync::mpsc channel"),
    ],
)
def test_it_is_told_of_a_recording(guest: Path, tmp_path: Path, how: str, waits: str) -> None:
    ran = run("record", "-o", tmp_path / "rec", "--cores", 2, "--", guest, how)
    line = next(line for line in ran.err.splitlines() if " waits for " in line)
    told = line.partition(" waits for ")[2]
    assert " ".join("0x#" if word.startswith("0x") else word for word in told.split(" ")) == waits
