"""The Linux programs that are measured, with inputs made from a seed, and what each of them needs."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from bench.programs import FIRMWARE

OURS = FIRMWARE / "linux" / "x86_64"
_PATH = "/usr/local/bin:/usr/bin:/bin"

_THREADS_PY = """\
import threading
out = [0] * 4
def work(k):
    s = 0
    for i in range({rounds}):
        s = (s * 31 + i * k) % 1000003
    out[k] = s
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(out)
"""

_SQL = """\
create table t(a integer, b text);
with recursive c(x) as (select 1 union all select x + 1 from c where x < {rows})
  insert into t select x * 7919 % 3001, 'row ' || x from c;
create index i on t(a);
select count(*), sum(a), max(b) from t where a between 100 and 2000;
select a % 7, count(*) from t group by 1 order by 2, 1;
"""


@dataclass(frozen=True)
class LinuxProgram:
    """One program. path: None where it is not installed. arguments: without the program's name."""

    name: str
    path: Path | None
    arguments: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        """argv."""
        return [str(self.path), *self.arguments]


def make_inputs(folder: Path, scale: float) -> None:
    """Write what the programs read; the same for the same scale. scale: 1 for what is published."""
    source = random.Random("linux programs")
    words = [bytes(source.choices(b"etaoinshrdlu", k=source.randint(2, 9))) for _ in range(3000)]
    text = b" ".join(source.choices(words, k=int(25_000 * scale) + 100))
    (folder / "text").write_bytes(text)
    (folder / "threads.py").write_text(_THREADS_PY.format(rounds=int(5000 * scale) + 10))
    (folder / "queries.sql").write_text(_SQL.format(rows=int(3000 * scale) + 10))


def programs(folder: Path) -> dict[str, LinuxProgram]:
    """All programs by name, on the inputs in `folder`."""
    text = str(folder / "text")
    installed = (
        LinuxProgram("pigz -p 4", _find("pigz"), ("-p", "4", "-n", "-c", text)),
        LinuxProgram("zstd -T2", _find("zstd"), ("-q", "-T2", "-c", text)),
        LinuxProgram("busybox sha256sum", _find("busybox"), ("sha256sum", text)),
        LinuxProgram("openssl dgst", _find("openssl"), ("dgst", "-sha256", text)),
        LinuxProgram(
            "sqlite3",
            _find("sqlite3"),
            ("-batch", "-init", str(folder / "queries.sql"), ":memory:", "select 1;"),
        ),
        LinuxProgram("python3, 4 threads", _python(), ("-I", "-S", str(folder / "threads.py"))),
    )
    ours = (LinuxProgram("mutexes", OURS / "mutexes"), LinuxProgram("strings", OURS / "strings"))
    return {_key(program): program for program in (*ours, *installed)}


def _key(program: LinuxProgram) -> str:
    return program.name.split()[0].rstrip(",")


def _find(name: str) -> Path | None:
    found = shutil.which(name, path=_PATH)
    return None if found is None else Path(found)


def _python() -> Path | None:
    """The system's interpreter, which needs nothing outside the system's directories."""
    found = _find("python3")
    return None if found is None else Path(os.path.realpath(found))


def tool(name: str) -> str | None:
    """Path of a tool to compare with; None where it is not installed."""
    return shutil.which(name, path=_PATH) or shutil.which(name)
