"""Stride: an order from bounded linkages (Zhou, Xiao, Zhang; ICSE 2012), in polynomial time.

Start at `engine.py`.
"""
