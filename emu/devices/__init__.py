"""Devices of a firmware's machine as registers in memory: console, timer, DMA, mailboxes, put/get engine.

Start at `registers.py`.
"""
