"""Of tests with many sets of parameters some are taken each time, and no set is lost."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

_TEST = """
import pytest

@pytest.mark.parametrize("n", range(20))
@pytest.mark.sampled(6)
def test_many(n):
    pass

@pytest.mark.parametrize("n", range(3))
def test_all(n):
    pass
"""


def taken(pytester: pytest.Pytester, marks: str) -> set[str]:
    """The tests that run for these marks."""
    pytester.makeini("[pytest]\nmarkers =\n    soak: long\n    sampled(n): some\n")
    pytester.makeconftest('pytest_plugins = ["sampled"]')
    pytester.makepyfile(_TEST)
    (collected,) = pytester.inline_run("--collect-only", "-m", marks).getcalls("pytest_collection_finish")
    items = collected.session.items
    return {item.nodeid.partition("::")[2] for item in items}


def test_the_others_are_soaked(pytester: pytest.Pytester) -> None:
    each_time, others = taken(pytester, "not soak"), taken(pytester, "soak")
    many = {f"test_many[{n}]" for n in range(20)}
    assert (len(each_time & many), len(others)) == (6, 14)
    assert each_time | others == many | {f"test_all[{n}]" for n in range(3)}
    assert not each_time & others
    assert taken(pytester, "not soak") == each_time
