"""x86-64: registers, CPUID, decoding, and what Linux looks like there. No emulator.

Start at `registers.py`; `decode.py` and `faulting.py` are the only files that touch Capstone.
"""
