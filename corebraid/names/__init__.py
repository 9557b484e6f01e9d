"""Names for numbers: symbols, source lines, devices and threads, from the program's debug information.

Start at `program.py`.
"""
