"""Pseudo file systems: what /proc, /sys, /dev and /etc say, made when it is read.

Start at `proc.py`.
"""
