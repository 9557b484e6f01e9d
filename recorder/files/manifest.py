"""The manifest: what a recording is, and which bytes it must have (docs/format.md, section 7).

`manifest.json` is written in one canonical form and carries its own digest, so that any changed byte is
found. It holds no time and no host name, and of paths only the one that a Linux program was started by,
which the program sees too: the same run gives the same bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

from corebraid.base.errors import FormatError, reason_of, unless_short
from corebraid.base.memory import DEVICE_BASE, PAGE_BYTES
from emu.bus.names import MESI, PAGE
from isa.registry import isa_named
from isa.table import Isa
from recorder.files.end import End, parse_end
from recorder.files.evidence_names import LOSSES, STREAMS, evidence_log
from recorder.files.frame import VERSION, VERSIONS, FileFacts, open_regular, read_bytes, versions
from recorder.files.json_fields import Fields, Scalar, parse_object, wrong
from recorder.files.sealed_json import HEX_256, canonical, check_seal, seal

FORMAT = "corebraid recording"
MANIFEST, AGENT_LOG, TRUTH_LOG = "manifest.json", "agent.log", "truth.log"
INITIAL_IMG, FINAL_IMG = "initial.img", "final.img"
#: A copy of the program, for its symbols; its SHA-256 is in the manifest.
PROGRAM_ELF = "program.elf"
#: Of that at most: files that are sparse take no room, and for ever to read.
MOST_PROGRAM_BYTES = 1 << 30
#: The order that was found, a file of the solver's (solver/check/certificate.py).
ORDER_CERT = "order.cert"
#: What was found of its slices while it was recorded, likewise (solver/evidence/lightplay/known.py).
SLICES_FOUND = "slices.found"
#: Of a ring that is not finished: its intervals (docs/format.md, section 15).
INTERVALS = "intervals"
MAX_CORES = 64
#: Characters of a schedule, of a list of switches some thousand; and of one that is tried and not kept.
MOST_SCHEDULE, _MOST_TRIED = 1 << 16, 1 << 24
#: Bytes of a line at most, where the bus does not move pages.
_MOST_LINE = 256
#: Stores that a core's store buffer holds at most.
MOST_BUFFERED = 64
#: Guest memory is the addresses from 0 up to this many bytes at most (1 TiB).
MAX_MEMORY = 1 << 40
#: One of the totals: whether cores lost lines to writes of others alone, so that a miss on a line that the
#: core had before proves that somebody wrote to it.
MISSES_PROVE_WRITES = "misses_prove_writes"
#: One of the totals: whether agents' accesses say that a core had the line alone (OWNED), where one had.
AGENTS_SAY_OWNED = "agents_say_owned"
#: Bytes of a manifest.
_MAX_BYTES = 16 << 20
#: When a stratum is cut: one of the bounds, see `recorder.capture.strata_policy`.
_SCHEME = "(cycles|events|downgrades):[0-9]+"
#: `Processor.revision`; rows of its identity, and numbers in a row.
_MOST_REVISION, _MOST_ANSWERS, _ANSWER_WORDS = 2, 1024, 6


def core_log(core: int) -> str:
    """The file name of a core's log."""
    return f"core-{core}.log"


def checkpoint_log(core: int) -> str:
    """The file name of a core's checkpoints."""
    return f"checkpoints-{core}.log"


@dataclass(frozen=True)
class Program:
    """The guest program: file name (no directory) and SHA-256 of the file, in hexadecimal."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Processor:
    """What the guest ran on. revision, identity: as in `isa.table.Isa`; identity is empty where the guest
    could not ask."""

    revision: int
    identity: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def parse(cls, value: object, path: Path) -> Processor:
        """What the field holds. Raises FormatError."""
        fields = Fields(value, path, "processor")
        processor = cls(
            fields.integer("revision", 0, _MOST_REVISION),
            fields.rows("identity", _MOST_ANSWERS, _ANSWER_WORDS),
        )
        fields.done()
        return processor


@dataclass(frozen=True)
class Manifest:
    """What a recording is; `MAX_*` and `_parse` give the range of each field.

    memory: bytes of guest memory, at addresses from 0. line: bytes that the bus moved at a
    time, those of a page or of a line. cache: "unbounded" or
    SIZE:WAYS:LINE. strata: the policy, as on the command line. agents: names of the agents that are not
    cores. options: whatever else decides the run. complete: the recorder was not killed. totals: counts
    over the whole run. instructions: instructions retired by each core. files: facts of finished files.
    version: of the format, one of VERSIONS. processor: None of a recording that does not say.
    """

    isa: str
    program: Program
    n_cores: int
    memory: int
    line: int = 64
    cache: str = "unbounded"
    seed: int = 0
    schedule: str = "random"
    model: str = "sc"
    strata: str = "none"
    agents: tuple[str, ...] = ()
    options: dict[str, Scalar] = field(default_factory=dict)
    complete: bool = False
    end: End | None = None
    instructions: tuple[int, ...] = ()
    totals: dict[str, Scalar] = field(default_factory=dict)
    files: dict[str, FileFacts] = field(default_factory=dict)
    version: int = VERSION
    processor: Processor | None = None

    @cached_property
    def id(self) -> bytes:
        """The 16-byte recording id: a digest of everything that decides the run, and of nothing else."""
        return hashlib.blake2b(canonical(self._configuration)).digest()[:16]

    @property
    def instruction_set(self) -> Isa:
        """Of the processor that the guest ran on. Raises UsageError for one that is not known."""
        isa = isa_named(self.isa)
        if self.processor is None:
            return replace(isa, revision=0)
        return replace(
            isa, revision=self.processor.revision, identity=self.processor.identity or isa.identity
        )

    @property
    def n_streams(self) -> int:
        """Streams of events: the cores, the agents, and under TSO what leaves each core's store buffer."""
        return self.n_cores + 1 + (self.n_cores if self.model == "tso" else 0)

    @property
    def store_buffer(self) -> int:
        """Stores that each core's store buffer holds, 0 under SC."""
        return _buffer_of(self) if self.model == "tso" else 0

    @property
    def evidence(self) -> tuple[str, ...]:
        """Names of the evidence streams (recorder/files/evidence_names.py)."""
        named = self.options.get("evidence")
        return tuple(named.split(",")) if isinstance(named, str) and named else ()

    @property
    def has_losses(self) -> bool:
        """Whether the recording says when its cores lost lines (docs/format.md, section 11)."""
        return LOSSES in self.evidence

    @property
    def paged(self) -> bool:
        """Whether the cores had rights to pages (docs/format.md, section 4: misses on pages)."""
        return self.line == PAGE_BYTES

    @property
    def bus(self) -> str:
        """One of `emu.bus.names`."""
        return PAGE if self.paged else MESI

    @property
    def misses_prove_writes(self) -> bool:
        """Whether every miss but the first on a line proves a foreign write. Never of a recording that does
        not say so."""
        return self.totals.get(MISSES_PROVE_WRITES) is True

    @property
    def agents_say_owned(self) -> bool:
        """Whether agents' accesses that got or took a line from a core that had it alone are OWNED. Never of
        a recording that does not say so."""
        return self.totals.get(AGENTS_SAY_OWNED) is True

    @property
    def has_syncs(self) -> bool:
        """Whether the agent log says where agents met cores (docs/format.md, section 5)."""
        return self.version >= 2

    @property
    def linux(self) -> bool:
        """Whether the guest was a Linux program, not firmware."""
        return self.options.get("guest") == "linux"

    def file_names(self) -> tuple[str, ...]:
        """The files of a complete recording besides the manifest, in a fixed order."""
        logs = tuple(core_log(core) for core in range(self.n_cores))
        streams = tuple(evidence_log(name) for name in self.evidence)
        return (INITIAL_IMG, *logs, AGENT_LOG, *streams, TRUTH_LOG, FINAL_IMG)

    def render(self) -> bytes:
        """The bytes of `manifest.json`."""
        fields: dict[str, object] = {
            "format": FORMAT,
            "version": self.version,
            "id": self.id.hex(),
            **self._configuration,
            "complete": self.complete,
            "end": self.end.facts() if self.end else None,
            "instructions": list(self.instructions),
            "totals": self.totals,
            "files": {name: asdict(facts) for name, facts in self.files.items()},
        }
        return seal(fields)

    @cached_property
    def _configuration(self) -> dict[str, object]:
        return {
            "isa": self.isa,
            "program": asdict(self.program),
            "cores": self.n_cores,
            "memory": self.memory,
            "line": self.line,
            "cache": self.cache,
            "seed": self.seed,
            "schedule": self.schedule,
            "model": self.model,
            "strata": self.strata,
            "agents": list(self.agents),
            "options": self.options,
            **({"processor": vars(self.processor)} if self.processor else {}),
        }


def is_ring(manifest: Manifest) -> bool:
    """Whether the recording was to have the end of a run alone (`record --last`)."""
    return "last" in manifest.options


def load(directory: Path) -> Manifest:
    """Read and check `manifest.json` of the recording `directory`.

    Raises FormatError: no such directory, not a recording, not JSON, another version, damaged, a field
    that is missing, of a wrong type or out of range.
    """
    path = directory / MANIFEST
    remedy = "give the directory that `corebraid record -o` wrote"
    try:
        if not directory.exists():
            raise FormatError("there is no such recording", where=str(directory), remedy=remedy)
        if not directory.is_dir():
            raise FormatError("a recording is a directory", where=str(directory), remedy=remedy)
        if not path.exists():
            raise FormatError(f"not a recording: it has no {MANIFEST}", where=str(directory), remedy=remedy)
    except (OSError, ValueError) as error:
        unless_short(error)
        raise FormatError(
            f"cannot be read ({reason_of(error)})", where=str(directory), remedy=remedy
        ) from None
    with open_regular(path) as file:
        data = read_bytes(file, _MAX_BYTES + 1, path)
    if len(data) > _MAX_BYTES:
        raise wrong(path, "too long", f"at most {_MAX_BYTES} bytes", "more")
    return parse(data, path)


def parse(data: bytes, path: Path) -> Manifest:
    """The manifest in `data`, the bytes of the file `path`. Raises FormatError, see `load`."""
    values = parse_object(data, path)
    fields = Fields(values, path)
    if (kind := fields.text("format")) != FORMAT:
        raise wrong(path, "not a corebraid recording: format", FORMAT, kind)
    if (version := fields.integer("version")) not in VERSIONS:
        remedy = "another corebraid wrote it: read it with that one, or record again"
        raise FormatError(
            "format version", expected=versions(), found=version, where=str(path), remedy=remedy
        )
    fields.text("digest", HEX_256)
    check_seal(values, data, path, "a manifest")
    return replace(_parse(fields, path), version=version)


def check(manifest: Manifest) -> None:
    """Raise FormatError if a field of `manifest` is out of range (what is written must be readable)."""
    if parse(manifest.render(), Path(MANIFEST)) != manifest:
        raise FormatError("the manifest does not survive being written and read", where=MANIFEST)


def _parse(fields: Fields, path: Path) -> Manifest:
    program = Fields(fields.take("program"), path, "program")
    n_cores = fields.integer("cores", 1, MAX_CORES)
    line = fields.integer("line", 16, PAGE_BYTES)
    if line & (line - 1) or _MOST_LINE < line < PAGE_BYTES:
        raise fields.error("line", f"a power of two up to {_MOST_LINE}, or {PAGE_BYTES}", line)
    recording = fields.text("id", "[0-9a-f]{32}")
    complete = fields.truth("complete")
    manifest = Manifest(
        isa=fields.text("isa", "[a-z0-9_-]+"),
        program=Program(program.text("name", "[^/]+"), program.text("sha256", HEX_256)),
        n_cores=n_cores,
        memory=fields.integer("memory", PAGE_BYTES, MAX_MEMORY),
        line=line,
        cache=fields.text("cache", "unbounded|[0-9]+[kKmM]?:[0-9]+:[0-9]+"),
        seed=fields.integer("seed"),
        schedule=fields.text("schedule", ".+", _MOST_TRIED),
        model=fields.text("model", "sc|tso"),
        strata=fields.text("strata", f"none|{_SCHEME}(,{_SCHEME}){{0,2}}"),
        agents=fields.texts("agents", MAX_CORES),
        options=fields.scalars("options"),
        complete=complete,
        end=parse_end(fields.take("end"), path, n_cores),
        instructions=fields.integers("instructions", n_cores if complete else 0),
        totals=fields.scalars("totals"),
        processor=Processor.parse(fields.take("processor"), path) if fields.has("processor") else None,
    )
    program.done()
    if manifest.evidence != tuple(name for name in STREAMS if name in manifest.evidence):
        raise fields.error("options.evidence", ",".join(STREAMS), manifest.options.get("evidence"))
    names = manifest.file_names()
    files = Fields(fields.take("files"), path, "files")
    wanted = names if complete else [name for name in names if files.has(name)]
    facts = {name: _parse_facts(files.take(name), path, name) for name in wanted}
    files.done()
    fields.done()
    if complete and manifest.end is None:
        raise fields.error("end", "an object", None)
    if manifest.model == "tso" and not 1 <= _buffer_of(manifest) <= MOST_BUFFERED:
        raise fields.error(
            "options.store_buffer", f"1 to {MOST_BUFFERED}", manifest.options.get("store_buffer")
        )
    if manifest.paged and (manifest.model != "sc" or manifest.cache != "unbounded"):
        raise fields.error("line", "a line: the model is tso, or the cache finite", line)
    if manifest.memory % PAGE_BYTES:
        raise fields.error("memory", f"a multiple of {PAGE_BYTES}", manifest.memory)
    if manifest.memory > DEVICE_BASE and not manifest.linux:
        raise fields.error("memory", f"at most {DEVICE_BASE}, where devices are", manifest.memory)
    if manifest.id.hex() != recording:
        raise fields.error("id", manifest.id.hex(), recording)
    return replace(manifest, files=facts)


def _buffer_of(manifest: Manifest) -> int:
    held = manifest.options.get("store_buffer")
    return held if isinstance(held, int) else 0


def _parse_facts(value: object, path: Path, name: str) -> FileFacts:
    fields = Fields(value, path, f"files.{name}")
    facts = FileFacts(
        bytes=fields.integer("bytes"),
        frames=fields.integer("frames"),
        records=fields.integer("records"),
        sha256=fields.text("sha256", HEX_256),
    )
    fields.done()
    return facts
