"""Which functions of libraries wait, and at what: POSIX threads and C11 (pthread_*(3), sem_wait(3),
cnd_wait(3)), what libstdc++ makes of them and of futexes (its headers <latch>, <barrier>, <semaphore>,
bits/atomic_wait.h), and what Rust's standard library makes of futexes (library/std/src/sync and sys/sync).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from emu.linux.tasks.own_waits import ANY_CALL


class Kind(Enum):
    """What a function waits at, and how that is called."""

    MUTEX = "the mutex"
    RWLOCK = "the reader-writer lock"
    CONDITION = "the condition variable"
    BARRIER = "the barrier"
    SEMAPHORE = "the semaphore"
    ONCE = "the initialisation by pthread_once"
    GUARD = "the initialisation of the static variable with its guard"
    FUTURE = "the result of a std::future"
    STD_LATCH = "the std::latch"
    STD_BARRIER = "the std::barrier"
    STD_SEMAPHORE = "the std::counting_semaphore"
    ATOMIC = "a change of the std::atomic"
    RUST_MUTEX = "the std::sync::Mutex"
    RUST_REENTRANT = "the std::sync::ReentrantLock"
    RUST_RWLOCK = "the std::sync::RwLock"
    RUST_CONDVAR = "the std::sync::Condvar"
    RUST_BARRIER = "the std::sync::Barrier"
    RUST_ONCE = "the initialisation by a std::sync::Once"
    RUST_ONCE_LOCK = "the initialisation of the std::sync::OnceLock"
    RUST_LAZY_LOCK = "the initialisation of the std::sync::LazyLock"
    RUST_PARKED = "its std::thread::Thread::unpark"
    RUST_RECEIVE = "a message of a std::sync::mpsc channel"
    RUST_SEND = "a receiver or room in a std::sync::mpsc channel"
    RUST_SCOPE = "the threads of its std::thread::scope to end"


@dataclass(frozen=True)
class Known:
    """A function that waits. own: the object is the one that its method is called of. reserved: no program
    may have a function of its own of that name."""

    kind: Kind
    own: bool = False
    reserved: bool = True


_TIMED = "(timed|clock)?"
#: Names of C, without the underscores in front and a version behind.
_C = (
    (rf"pthread_mutex_{_TIMED}lock(_full)?|mtx_(timed)?lock", Kind.MUTEX),
    (rf"pthread_rwlock_{_TIMED}(rd|wr)lock", Kind.RWLOCK),
    (rf"pthread_cond_{_TIMED}wait|cnd_(timed)?wait", Kind.CONDITION),
    ("pthread_barrier_wait", Kind.BARRIER),
    (rf"(new_)?sem_{_TIMED}wait(_slow)?(64)?", Kind.SEMAPHORE),
    ("pthread_once(_slow)?|call_once", Kind.ONCE),
    ("cxa_guard_acquire", Kind.GUARD),
)
#: Names of C++, demangled.
_CXX = (
    (r"std::__atomic_futex_unsigned_base::", Kind.FUTURE, False),
    # A waiter that a template makes says in its arguments whose it is.
    (r"std::__atomic_wait_address\w*<.*\bstd::latch::", Kind.STD_LATCH, False),
    (r"std::__atomic_wait_address\w*<.*\bstd::__tree_barrier<", Kind.STD_BARRIER, False),
    (r"std::__atomic_wait_address\w*<.*\bstd::__atomic_semaphore::", Kind.STD_SEMAPHORE, False),
    (r"std::latch::(arrive_and_)?wait\b", Kind.STD_LATCH, True),
    (r"std::barrier<.*>::(wait|arrive_and_wait)\b", Kind.STD_BARRIER, True),
    (r"std::counting_semaphore<.*>::(acquire|try_acquire_(for|until))\b", Kind.STD_SEMAPHORE, True),
    (
        r"std::(atomic<.*>|atomic_flag|__atomic_\w+<.*>|__atomic_flag\w*|atomic_ref<.*>)::wait\b",
        Kind.ATOMIC,
        True,
    ),
    (r"std::(__atomic_wait_\w+|__detail::__platform_wait)\b", Kind.ATOMIC, False),
)
#: Paths of Rust, demangled. Modules have moved between versions, so only their ends count.
_RUST = (
    (r"std::(sys|sync)\w*::(\w+::)*Mutex(<.*>)?::lock", Kind.RUST_MUTEX),
    (r"std::(sys|sync)\w*::(\w+::)*(ReentrantLock|ReentrantMutex)(<.*>)?::lock", Kind.RUST_REENTRANT),
    (r"std::(sys|sync)\w*::(\w+::)*RwLock(<.*>)?::(read|write)(_contended)?\b", Kind.RUST_RWLOCK),
    (r"std::(sys|sync)\w*::(\w+::)*Condvar::wait", Kind.RUST_CONDVAR),
    (r"std::sync::(\w+::)*Barrier::wait", Kind.RUST_BARRIER),
    (r"std::(sys|sync)\w*::(\w+::)*Once::(call|wait)", Kind.RUST_ONCE),
    (r"std::sync::(\w+::)*OnceLock(<.*>)?::", Kind.RUST_ONCE_LOCK),
    (r"std::sync::(\w+::)*LazyLock(<.*>)?::", Kind.RUST_LAZY_LOCK),
    (r"std::(sys|thread)\w*::(\w+::)*(Parker::park|Thread::park|park(_timeout)?\b)", Kind.RUST_PARKED),
    (r"std::sync::(\w+::)*(Channel|Receiver|Iter|IntoIter)(<.*>)?::(recv|next)", Kind.RUST_RECEIVE),
    (r"std::sync::(\w+::)*(Channel|Sender|SyncSender)(<.*>)?::send", Kind.RUST_SEND),
    (r"std::thread::(\w+::)*scope\b", Kind.RUST_SCOPE),
)
_ANY = frozenset(Kind)
#: What a function further out says better, if it waits at one of these: it is made of what stands before.
BETTER = {
    Kind.ATOMIC: _ANY,
    Kind.RUST_MUTEX: {Kind.RUST_REENTRANT},
    Kind.RUST_CONDVAR: {Kind.RUST_BARRIER},
    Kind.RUST_ONCE: {Kind.RUST_ONCE_LOCK, Kind.RUST_LAZY_LOCK},
    Kind.RUST_ONCE_LOCK: {Kind.RUST_LAZY_LOCK},
    Kind.RUST_PARKED: {Kind.RUST_RECEIVE, Kind.RUST_SEND, Kind.RUST_SCOPE},
}
#: The word that a thread waits at is one of the thread's own, and says nothing of these.
WITHOUT_PLACE = frozenset({Kind.RUST_PARKED, Kind.RUST_RECEIVE, Kind.RUST_SEND, Kind.RUST_SCOPE})
#: The word lies somewhere in these.
WITH_WORD = frozenset({Kind.FUTURE, Kind.RUST_BARRIER})
_C_KNOWN = [(re.compile(pattern), Known(kind, reserved=kind is Kind.GUARD)) for pattern, kind in _C]
_CXX_KNOWN = [(re.compile(pattern), Known(kind, own)) for pattern, kind, own in _CXX]
_RUST_KNOWN = [(re.compile(pattern), Known(kind)) for pattern, kind in _RUST]
_BEFORE = re.compile(r"^(void|bool|auto) ")
#: What compilers put behind the names of copies that they make.
_COPY = re.compile(r"\.(constprop|isra|part|cold|lto_priv|llvm)\b.*$")
#: Functions that only hand on: what the compiler makes of headers, and what a C library that is part of the
#: program calls by names that no program may have (C11, 7.1.3), or inlines. Their callers are looked at, too.
_HANDS_ON = re.compile(r"(std::|core::|alloc::|__|futex_|lll_)")
#: How Rust writes a method: `<std::thread::Thread>::park`.
_OF_TYPE = re.compile(r"^<([\w:]+)(<.*?>)?>::")


def known(name: str) -> Known | None:
    """What the function waits at, by its demangled name without file and offset."""
    bare = _COPY.sub("", name.partition("@")[0])
    plain = bare.lstrip("_")
    for pattern, found in _C_KNOWN:
        if pattern.fullmatch(plain):
            return found
    bare = _path(bare)
    known_here = (found for pattern, found in (*_CXX_KNOWN, *_RUST_KNOWN) if pattern.match(bare))
    return next(known_here, None)


def _path(name: str) -> str:
    """A name of C++ or Rust, beginning with its namespace or crate."""
    return _OF_TYPE.sub(r"\1::", _BEFORE.sub("", name))


def bare_name(name: str) -> str:
    """Without the version, what the linker and the compiler have put behind it, and underscores in front."""
    return _COPY.sub("", name.partition("@")[0]).lstrip("_")


def hands_on(name: str) -> bool:
    """Whether the function is part of a library though its code may be in the program."""
    return is_any_call(name) or _HANDS_ON.match(_path(name)) is not None


def is_any_call(name: str) -> bool:
    """Whether the function makes whatever system call its caller wants."""
    return name.partition("@")[0] == ANY_CALL
