"""Instruction sets as data: tables of registers, the calls and signals of their Linux, and decoding.

An `Isa` (`table.py`) and a `LinuxAbi` (`abi.py`) are frozen; `registry.py` has them by name. Start at
`table.py`.
"""
