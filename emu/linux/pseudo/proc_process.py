"""Texts of /proc/self and /proc/self/task/TID (proc(5))."""

from __future__ import annotations

from corebraid.base.memory import PAGE_BYTES
from emu.linux.files.open_file import OpenFile
from emu.linux.pseudo.proc_facts import ProcFacts

_HZ_NS = 10_000_000
_MOUNTS = (
    ("rootfs", "/", "ext4", "rw,relatime"),
    ("proc", "/proc", "proc", "rw,nosuid,nodev,noexec,relatime"),
    ("sysfs", "/sys", "sysfs", "ro,nosuid,nodev,noexec,relatime"),
    ("udev", "/dev", "devtmpfs", "rw,nosuid,relatime"),
    ("tmpfs", "/dev/shm", "tmpfs", "rw,nosuid,nodev"),
)
_CAPABILITIES = "".join(
    f"{name}:\t0000000000000000\n" for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
)


def status(facts: ProcFacts, tid: int) -> bytes:
    """status."""
    size, used = facts.memory_size() // 1024, facts.memory_used() // 1024
    descriptors = facts.descriptors()
    slots = max(64, 1 << max(0, descriptors[-1][0]).bit_length()) if descriptors else 64
    affinity = facts.task_affinity(tid)
    cores = [core for core in range(facts.n_cores) if affinity >> core & 1]
    text = (
        f"Name:\t{facts.task_name(tid)}\nUmask:\t{facts.umask:04o}\nState:\t{facts.task_state(tid)}\n"
        f"Tgid:\t{facts.pid}\nNgid:\t0\nPid:\t{tid}\nPPid:\t1\nTracerPid:\t0\n"
        f"Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nFDSize:\t{slots}\nGroups:\t1000 \n"
        f"NStgid:\t{facts.pid}\nNSpid:\t{tid}\nNSpgid:\t{facts.pid}\nNSsid:\t{facts.pid}\n"
        f"VmPeak:\t{size:8} kB\nVmSize:\t{size:8} kB\nVmLck:\t       0 kB\nVmPin:\t       0 kB\n"
        f"VmHWM:\t{used:8} kB\nVmRSS:\t{used:8} kB\nRssAnon:\t{used:8} kB\nRssFile:\t       0 kB\n"
        f"RssShmem:\t       0 kB\nVmData:\t{size:8} kB\nVmStk:\t     132 kB\nVmExe:\t       4 kB\n"
        f"VmLib:\t       0 kB\nVmPTE:\t       4 kB\nVmSwap:\t       0 kB\nHugetlbPages:\t       0 kB\n"
        f"CoreDumping:\t0\nTHP_enabled:\t0\nThreads:\t{len(facts.tids())}\n"
        f"{facts.signal_lines(tid)}{_CAPABILITIES}NoNewPrivs:\t1\nSeccomp:\t0\nSeccomp_filters:\t0\n"
        f"Cpus_allowed:\t{affinity:x}\nCpus_allowed_list:\t{ranges(cores)}\n"
        f"Mems_allowed:\t1\nMems_allowed_list:\t0\n"
        f"voluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0\n"
    )
    return text.encode("utf-8", "surrogateescape")


def ranges(numbers: list[int]) -> str:
    """Ascending numbers as Linux lists processors: 0-3,5."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in parts)


def stat(facts: ProcFacts, tid: int, thread: bool) -> bytes:
    """stat; thread: of the one task alone."""
    time = facts.cpu_time(tid if thread else None) // _HZ_NS
    fields = ["0"] * 52
    name, state = facts.task_name(tid), facts.task_state(tid)[0]
    values = {
        1: tid, 4: 1, 5: facts.pid, 6: facts.pid, 7: 0, 8: -1, 9: 0x400000, 14: time, 15: 0, 18: 20, 19: 0,
        20: len(facts.tids()), 22: 100, 23: facts.memory_size(), 24: facts.memory_used() // PAGE_BYTES,
        25: (1 << 64) - 1, 38: 17,
    }  # fmt: skip
    for number, value in values.items():
        fields[number - 1] = str(value)
    fields[1], fields[2] = f"({name})", state
    return (" ".join(fields) + "\n").encode("utf-8", "surrogateescape")


def statm(facts: ProcFacts) -> bytes:
    """statm, in pages."""
    size, used = facts.memory_size() // PAGE_BYTES, facts.memory_used() // PAGE_BYTES
    return f"{size} {used} 0 1 0 {used} 0\n".encode()


def mounts() -> bytes:
    """mounts."""
    return "".join(f"{what} {where} {kind} {how} 0 0\n" for what, where, kind, how in _MOUNTS).encode()


def mountinfo() -> bytes:
    """mountinfo."""
    rows = (
        f"{20 + i} {1 if i == 0 else 20} 8:{i} / {where} {how} - {kind} {what} rw\n"
        for i, (what, where, kind, how) in enumerate(_MOUNTS)
    )
    return "".join(rows).encode()


def fdinfo(file: OpenFile) -> bytes:
    """fdinfo/N."""
    position = getattr(file, "position", 0)
    return f"pos:\t{position}\nflags:\t0{file.flags:o}\nmnt_id:\t20\nino:\t{file.stat().inode}\n".encode()


def io(facts: ProcFacts) -> bytes:
    """io: not counted."""
    names = ("rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes", "cancelled_write_bytes")
    return "".join(f"{name}: 0\n" for name in names).encode()
