"""The OPR engine: partial replay of a group of cores, and inference of who communicated with whom.

Source: "OPR: Deterministic Group Replay for One-Sided Communication". It reads the evidence `opr` and, of
each member's own log, what is no memory. Start at `engine.py`, then `inference.py`.
"""
