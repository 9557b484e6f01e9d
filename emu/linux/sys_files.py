"""/sys: what programs ask about processors and memory, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.linux.nodes import SYS_DEVICE
from emu.linux.proc_facts import ProcFacts
from emu.linux.proc_files import NodeMaker
from emu.linux.proc_process import ranges

if TYPE_CHECKING:
    from emu.linux.tree_build import TreeBuilder

_CPU = "devices/system/cpu"
_NODE = "devices/system/node"


def sys_texts(n_cores: int, memory: int) -> dict[str, str]:
    """Every file by its path below /sys."""
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
        f"{_NODE}/node0/meminfo": f"Node 0 MemTotal: {memory // 1024:>14} kB\n",
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


def add_sys(builder: TreeBuilder, facts: ProcFacts) -> None:
    """Put /sys in place."""
    maker = NodeMaker(builder, SYS_DEVICE, 0)
    top = maker.directory()
    top.fixed = True
    for path, text in sys_texts(facts.n_cores, facts.memory_limit).items():
        maker.put(top, path, maker.text(text))
    builder.put("/sys", top)
