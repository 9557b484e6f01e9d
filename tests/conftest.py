"""Shared test set-up: compiled kernels are cached by the sources' digest; drawn examples are always the same.

Other examples: `HYPOTHESIS_PROFILE=default python -m pytest TEST`.
"""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from corebraid.base.kernel_cache import use_kernel_cache

use_kernel_cache()
pytest_plugins = ["cli_recordings", "sampled"]
# What a host has of debug information kept apart differs; so none is looked for, but where a test says so.
os.environ["COREBRAID_DEBUG_FILES"] = ""
settings.register_profile("fixed", derandomize=True, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(autouse=True)
def _requests_to_end() -> Iterator[None]:
    """A command that was run in this process leaves them ignored, and what is started inherits that."""
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for one, handler in before.items():
        if handler is not None and signal.getsignal(one) is not handler:
            signal.signal(one, handler)
