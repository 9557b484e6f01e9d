"""/sys: what programs ask about processors and memory, and nothing else."""

from __future__ import annotations

from functools import partial

from emu.linux.files.nodes import SYS_DEVICE
from emu.linux.pseudo.builder import Builder
from emu.linux.pseudo.proc import NodeMaker
from emu.linux.pseudo.proc_facts import ProcFacts
from emu.linux.pseudo.proc_process import ranges

_CPU = "devices/system/cpu"
_NODE = "devices/system/node"


def sys_texts(n_cores: int) -> dict[str, str]:
    """Every file that never changes, by its path below /sys."""
    all_cores = ranges(list(range(n_cores))) + "\n"
    mask = f"{(1 << n_cores) - 1:x}\n"
    texts = {
        f"{_CPU}/online": all_cores,
        f"{_CPU}/possible": all_cores,
        f"{_CPU}/present": all_cores,
        f"{_CPU}/offline": "\n",
        f"{_CPU}/isolated": "\n",
        f"{_CPU}/kernel_max": "8191\n",
        f"{_CPU}/smt/active": "0\n",
        f"{_CPU}/smt/control": "notsupported\n",
        f"{_NODE}/online": "0\n",
        f"{_NODE}/possible": "0\n",
        f"{_NODE}/has_cpu": "0\n",
        f"{_NODE}/has_memory": "0\n",
        f"{_NODE}/node0/cpulist": all_cores,
        f"{_NODE}/node0/cpumap": mask,
        f"{_NODE}/node0/distance": "10\n",
        "kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
        "kernel/mm/transparent_hugepage/hpage_pmd_size": "2097152\n",
    }
    for core in range(n_cores):
        here = f"{_CPU}/cpu{core}"
        texts[f"{here}/online"] = "1\n"
        texts[f"{here}/topology/core_id"] = f"{core}\n"
        texts[f"{here}/topology/physical_package_id"] = "0\n"
        texts[f"{here}/topology/thread_siblings_list"] = f"{core}\n"
        texts[f"{here}/topology/thread_siblings"] = f"{1 << core:x}\n"
        texts[f"{here}/topology/core_siblings_list"] = all_cores
        texts[f"{here}/topology/core_siblings"] = mask
    return texts


def node_meminfo(facts: ProcFacts) -> bytes:
    """The memory of the one node, in kB."""
    total = facts.memory_limit // 1024
    used = min(total, facts.memory_used() // 1024)
    values = {"MemTotal": total, "MemFree": total - used, "MemUsed": used}
    return "".join(f"Node 0 {name + ':':<15}{value:>8} kB\n" for name, value in values.items()).encode()


def add_sys(builder: Builder, facts: ProcFacts) -> None:
    """Put /sys in place."""
    maker = NodeMaker(builder, SYS_DEVICE, 0)
    top = maker.directory()
    top.fixed = True
    for path, text in sys_texts(facts.n_cores).items():
        maker.put(top, path, maker.text(text))
    maker.put(top, f"{_NODE}/node0/meminfo", maker.file(partial(node_meminfo, facts)))
    builder.put("/sys", top)
