"""The state of a machine at one moment, kept in its own process, so that it can run from there again and
again: registers, memory, the objects of its kernel, files that it has open. What the emulator has translated
stays.
"""
