"""Engines that use evidence: bounded linkages, time slices, one-sided communication, receipt histories.

Start at `linkage/engine.py`, the shortest; of `rpc` at `rpc/judge.py`.
"""
