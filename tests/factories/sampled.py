"""Of a test with many sets of parameters, which are taken each time; `make soak` has the others.

`@pytest.mark.sampled(n)`: n of those that are collected, always the same ones.
"""

from __future__ import annotations

import random
from collections import defaultdict

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the others with `soak`, before tests are chosen by their marks."""
    sets: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None and item.get_closest_marker("soak") is None:
            sets[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    for (test, count), found in sets.items():
        # Drawn: of sets at equal distances most have a parameter in common.
        taken = random.Random(test).sample(found, min(count, len(found)))
        for item in found:
            if item not in taken:
                item.add_marker(pytest.mark.soak)
