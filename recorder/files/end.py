"""Why a recording ended: the field `end` of its manifest (docs/format.md, section 7)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from emu.linux.tasks.waiting import Awaited, Waiting
from recorder.files.json_fields import Fields, wrong

#: The reason of a guest all of whose tasks wait, for work from outside: nobody is in a deadlock.
IDLE = "idle"
#: Tasks whose waits are kept, and those whose names are.
MOST_WAITS, MOST_NAMES = 4096, 4096
_MOST_REGISTERS = 64


@dataclass(frozen=True)
class End:
    """Why the recording ended.

    reason: a word ("power-off", "fault", ...). exit_code: the guest's own, if it gave one. core: who ended
    it. count: that core's instruction count. text: the rest for a reader (a fault's pc, symbol, ...). waits:
    in a deadlock, and of an idle guest, what each task waits for; empty in recordings that only say it in
    `text`. address: of the bad access that a signal killed a Linux guest for; None of others, and of
    recordings from before it. names: (number, name) of tasks that had another name than the program, the
    last that each had.
    """

    reason: str
    exit_code: int | None = None
    core: int | None = None
    count: int | None = None
    text: str = ""
    waits: tuple[Waiting, ...] = ()
    address: int | None = None
    names: tuple[tuple[int, str], ...] = ()

    def facts(self) -> dict[str, object]:
        """As JSON has it; without `waits`, `address` and `names` where there are none."""
        facts = asdict(self)
        waits = [_waiting_facts(one) for one in self.waits]
        facts |= {"waits": waits, "names": [{"tid": tid, "name": name} for tid, name in self.names]}
        rare = ("waits", "address", "names")
        return {key: value for key, value in facts.items() if key not in rare or value not in (None, [])}


def parse_end(value: object, path: Path, n_cores: int) -> End | None:
    """What the field `end` of a manifest holds; None: null. Raises FormatError."""
    if value is None:
        return None
    fields = Fields(value, path, "end")
    end = End(
        reason=fields.text("reason", "[a-z][a-z-]*"),
        exit_code=fields.optional_integer("exit_code"),
        core=fields.optional_integer("core", n_cores - 1),
        count=fields.optional_integer("count"),
        text=fields.text("text"),
        waits=_parse_waits(fields.take("waits"), path) if fields.has("waits") else (),
        address=fields.integer("address") if fields.has("address") else None,
        names=_parse_names(fields.take("names"), path) if fields.has("names") else (),
    )
    fields.done()
    return end


def _parse_waits(value: object, path: Path) -> tuple[Waiting, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_WAITS:
        raise wrong(path, 'field "end.waits"', f"a list of 1 to {MOST_WAITS} objects", type(value).__name__)
    return tuple(_parse_waiting(item, path) for item in value)


def _parse_names(value: object, path: Path) -> tuple[tuple[int, str], ...]:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_NAMES:
        raise wrong(path, 'field "end.names"', f"a list of 1 to {MOST_NAMES} objects", type(value).__name__)
    found = []
    for item in value:
        fields = Fields(item, path, "end.names")
        found.append((fields.integer("tid"), fields.text("name")))
        fields.done()
    return tuple(found)


def _parse_waiting(value: object, path: Path) -> Waiting:
    fields = Fields(value, path, "end.waits")
    waiting = Waiting(
        tid=fields.integer("tid"),
        name=fields.text("name"),
        what=Awaited[fields.text("what", "|".join(one.name.lower() for one in Awaited)).upper()],
        address=fields.optional_integer("address"),
        owner=fields.optional_integer("owner"),
        value=fields.optional_integer("value"),
        call=fields.text("call"),
        ended=fields.truth("ended") if fields.has("ended") else False,
        registers=_parse_registers(fields.take("registers"), path) if fields.has("registers") else (),
        word=fields.integer("word") if fields.has("word") else None,
    )
    fields.done()
    return waiting


def _parse_registers(value: object, path: Path) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, dict) or len(value) > _MOST_REGISTERS:
        expected = f"an object of at most {_MOST_REGISTERS} integers"
        raise wrong(path, 'field "end.waits.registers"', expected, type(value).__name__)
    fields = Fields(value, path, "end.waits.registers")
    return tuple((name, fields.integer(name)) for name in sorted(value))


#: Of what a task waits for, where there is nothing to say.
_LEFT_OUT = ("ended", "registers", "word")


def _waiting_facts(one: Waiting) -> dict[str, object]:
    """As JSON has it; without what is left out where there is nothing to say."""
    facts = {**asdict(one), "what": one.what.name.lower(), "registers": dict(one.registers)}
    return {key: value for key, value in facts.items() if key not in _LEFT_OUT or value}
