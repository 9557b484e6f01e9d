"""Texts of /proc that tell of the machine: processors, memory, time."""

from __future__ import annotations

import random
from collections.abc import Callable

from emu.linux.ground.utsname import HOST, RELEASE, VERSION
from emu.linux.memory.address_space import MOST_MAPPINGS
from emu.linux.pseudo.proc_facts import ProcFacts

_HZ_NS = 10_000_000
_BOOT_ID = "00000000-0000-4000-8000-000000000000"


def cpuinfo(facts: ProcFacts) -> bytes:
    """/proc/cpuinfo."""
    lines = facts.cpu_lines()
    return "".join(f"processor\t: {core}\n{lines}\n" for core in range(facts.n_cores)).encode()


def meminfo(facts: ProcFacts) -> bytes:
    """/proc/meminfo, in kB."""
    total = facts.memory_limit // 1024
    free = max(0, total - facts.memory_used() // 1024)
    values = {
        "MemTotal": total, "MemFree": free, "MemAvailable": free, "Buffers": 0, "Cached": 0,
        "SwapCached": 0, "Active": total - free, "Inactive": 0, "SwapTotal": 0, "SwapFree": 0, "Dirty": 0,
        "Writeback": 0, "AnonPages": total - free, "Mapped": 0, "Shmem": 0, "Slab": 0,
        "CommitLimit": total, "Committed_AS": total - free, "VmallocTotal": 34359738367, "VmallocUsed": 0,
    }  # fmt: skip
    pages = "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n"
    return ("".join(f"{name + ':':<16}{value:>8} kB\n" for name, value in values.items()) + pages).encode()


def stat(facts: ProcFacts) -> bytes:
    """/proc/stat: all time was spent in user mode or idle."""
    up = facts.clock.monotonic() // _HZ_NS
    busy = facts.cpu_time(None) // _HZ_NS
    each, idle = busy // facts.n_cores, max(0, up - busy // facts.n_cores)
    rows = [f"cpu  {each * facts.n_cores} 0 0 {idle * facts.n_cores} 0 0 0 0 0 0"]
    rows += [f"cpu{core} {each} 0 0 {idle} 0 0 0 0 0 0" for core in range(facts.n_cores)]
    boot = (facts.clock.realtime() - facts.clock.monotonic()) // 1_000_000_000
    tasks = len(facts.tids())
    rows += ["intr 0", "ctxt 0", f"btime {boot}", f"processes {tasks}", f"procs_running {tasks}"]
    return "\n".join([*rows, "procs_blocked 0", "softirq 0 0 0 0 0 0 0 0 0 0 0", ""]).encode()


def uptime(facts: ProcFacts) -> bytes:
    """/proc/uptime: seconds since the start, and idle seconds of all processors."""
    up = facts.clock.monotonic()
    idle = max(0, up * facts.n_cores - facts.cpu_time(None))
    return f"{up // 1_000_000_000}.{up // _HZ_NS % 100:02d} {idle // 1_000_000_000}.00\n".encode()


def loadavg(facts: ProcFacts) -> bytes:
    """/proc/loadavg."""
    tids = facts.tids()
    running = sum(1 for tid in tids if facts.task_state(tid).startswith("R"))
    return f"0.00 0.00 0.00 {running}/{len(tids)} {max(tids, default=facts.pid)}\n".encode()


def random_uuid(source: random.Random) -> Callable[[], bytes]:
    """/proc/sys/kernel/random/uuid: a new one at every read."""

    def make() -> bytes:
        number = source.getrandbits(128) & ~(0xF << 76) & ~(3 << 62) | 4 << 76 | 2 << 62
        digits = f"{number:032x}"
        cuts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return ("-".join(cuts) + "\n").encode()

    return make


#: Texts that never change, by path below /proc.
CONSTANTS = {
    "version": f"Linux version {RELEASE} (corebraid) {VERSION}\n",
    "cmdline": "\n",
    "filesystems": "nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\nnodev\tdevtmpfs\n\text4\n",
    "swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
    "sys/vm/overcommit_memory": "0\n",
    "sys/vm/overcommit_ratio": "50\n",
    "sys/vm/max_map_count": f"{MOST_MAPPINGS}\n",
    "sys/vm/mmap_min_addr": "65536\n",
    "sys/vm/nr_hugepages": "0\n",
    "sys/vm/swappiness": "60\n",
    "sys/kernel/pid_max": "32768\n",
    "sys/kernel/threads-max": "65536\n",
    "sys/kernel/osrelease": f"{RELEASE}\n",
    "sys/kernel/ostype": "Linux\n",
    "sys/kernel/version": f"{VERSION}\n",
    "sys/kernel/hostname": f"{HOST}\n",
    "sys/kernel/domainname": "(none)\n",
    "sys/kernel/ngroups_max": "65536\n",
    "sys/kernel/cap_last_cap": "40\n",
    "sys/kernel/core_pattern": "core\n",
    "sys/kernel/randomize_va_space": "0\n",
    "sys/kernel/sem": "32000\t1024000000\t500\t32000\n",
    "sys/kernel/shmmax": "18446744073692774399\n",
    "sys/kernel/random/boot_id": f"{_BOOT_ID}\n",
    "sys/kernel/random/entropy_avail": "256\n",
    "sys/kernel/random/poolsize": "256\n",
    "sys/kernel/sched_rr_timeslice_ms": "100\n",
    "sys/kernel/yama/ptrace_scope": "1\n",
    "sys/fs/file-max": "65536\n",
    "sys/fs/nr_open": "4096\n",
    "sys/fs/pipe-max-size": "1048576\n",
    "sys/fs/inotify/max_user_watches": "8192\n",
    "sys/fs/epoll/max_user_watches": "8192\n",
    "sys/fs/mqueue/msg_max": "10\n",
    "sys/net/core/somaxconn": "4096\n",
    "sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
    "sys/crypto/fips_enabled": "0\n",
}
