"""What intervals gave that were replayed by a command that did not come to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from corebraid.base.errors import Divergence, FormatError, OrderError
from corebraid.base.wording import Option, Phrase, Text
from recorder.files.frame import UnwrittenError
from recorder.files.reader import Recording
from recorder.replay.finished import FinishedReplays, remove_left


@dataclass(frozen=True)
class Unfinished:
    """Where intervals that were replayed are kept until all are. folder: of the recording's. fresh: what is
    there is not used. say: told in a line what the user should know of that."""

    folder: Path
    fresh: bool = False
    say: Callable[[Text], None] = lambda _: None

    @contextmanager
    def open(self, recording: Recording, what: Mapping[str, object]) -> Iterator[FinishedReplays | None]:
        """None, which is said, where there can be no such folder. It is left behind where the `with` is
        broken off, as by a signal, a full disk or a worker that is killed. what: which rows are kept. Raises
        FormatError where checkpoints cannot be read."""
        finished = FinishedReplays.of(self.folder, recording, what, fresh=self.fresh)
        if finished is None:
            self.say(f"{self.folder.name}: cannot be used, so a run that is broken off starts over")
            yield None
            return
        with closing(finished):
            try:
                yield finished
            except UnwrittenError:
                raise
            except (FormatError, Divergence, OrderError):
                # Of a recording that is damaged, or whose holds do not fit, nothing is gone on from.
                finished.remove()
                raise
            finished.remove()

    def over(self) -> None:
        """The command has done what it was to do: nothing that was left by an earlier one is needed."""
        remove_left(self.folder)

    def tell(self, known: int) -> None:
        """So many intervals are not replayed again."""
        if known:
            what = "interval is" if known == 1 else "intervals are"
            head = f"{known} replayed {what} kept from an earlier run ("
            self.say(Phrase(head, Option("fresh", True), " starts over)"))
