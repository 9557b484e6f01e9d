"""Signals: pending and blocked ones of a process and of its tasks, frames, delivery, timers.

Start at `delivery.py`.
"""
