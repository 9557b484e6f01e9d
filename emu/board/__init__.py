"""A board: cores, bus, clock and agents put together, and the machine of a firmware image on it.

Start at `board.py`, then `firmware.py`; the machine of a Linux program is `emu/linux/machine.py`.
"""
