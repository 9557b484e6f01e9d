"""`inner`: how a kernel is compiled that other kernels call in their loops, and that allocates nothing.

Numba counts references to every array that such a function is handed, several times a call and atomically,
which costs more than most of them do. They only borrow their arrays, so they need none of it. One that
allocates does not compile so.
"""

from __future__ import annotations

from numba import njit

inner = njit(cache=True, _nrt=False)
