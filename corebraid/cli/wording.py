"""Options and commands as they are typed."""

from __future__ import annotations

import shlex

from corebraid.base.wording import Call, Option, Wording

#: Options that are not called like the parameter.
_NAMES = {"directory": "-o", "first": "--from"}


def typed(word: Option | Call) -> str:
    """`--memory`, `--no-hints`, `corebraid replay REC --core 2`."""
    if isinstance(word, Option):
        name = _NAMES.get(word.name) or f"--{word.name.replace('_', '-')}"
        if word.value is False:
            return f"--no-{name.removeprefix('--')}"
        return name if word.value is None or word.value is True else f"{name} {word.value}"
    words = [
        "corebraid",
        word.name,
        *(shlex.quote(one) for one in (word.subject, *word.more) if one),
        *map(typed, word.options),
    ]
    return " ".join(words)


TYPED: Wording = typed
