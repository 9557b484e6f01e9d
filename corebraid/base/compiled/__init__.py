"""Kernels that were compiled before are loaded without Numba, whose import and types take most of a second.

`njit`, `carray`, `types`, `from_dtype`, `intrinsic` and `ir` stand for what Numba and llvmlite call so. What
they are given is kept, and Numba is imported when a kernel must be compiled that no earlier process has left
in the cache (`store`). What is kept there is machine code that Numba made, laid out to be read into memory
(`image`).
"""

from corebraid.base.compiled.deferred import carray, from_dtype, intrinsic, ir, real, types
from corebraid.base.compiled.kernel import CFunction, Kernel, njit

__all__ = ["CFunction", "Kernel", "carray", "from_dtype", "intrinsic", "ir", "njit", "real", "types"]
