"""What only an x86-64 core has: its emulator's model, hooks on its instructions, its blocks decoded natively.

Start at `native.py`, the table through which `emu.hooks.registry` finds it all.
"""
