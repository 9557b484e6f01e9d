"""What every part of the kernel stands on: errors, words, times, the guest's memory, the clock, waits.

Start at `failure.py` and `wait.py`.
"""
