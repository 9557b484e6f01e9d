"""Shared test set-up: compiled kernels are cached by the sources' digest."""

from isa.kernel_cache import use_kernel_cache

use_kernel_cache()
