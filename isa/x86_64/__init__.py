"""x86-64: registers, CPUID, decoding, and what Linux looks like there. No emulator.

Start at `registers.py`; `decode.py` is the only file that touches Capstone.
"""
