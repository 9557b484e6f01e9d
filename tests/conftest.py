"""Shared test set-up: compiled kernels are cached by the sources' digest; drawn examples are always the same.

Other examples: `HYPOTHESIS_PROFILE=default python -m pytest TEST`.
"""

import os

from hypothesis import settings

from corebraid.base.kernel_cache import use_kernel_cache

use_kernel_cache()
pytest_plugins = ["cli_recordings"]
settings.register_profile("fixed", derandomize=True, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
