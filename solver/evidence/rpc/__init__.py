"""Execution again under receipt histories (Fagot, Chassin de Kergommeaux), and whether it is the same.

Start at `judge.py`, then `replay.py`.
"""
