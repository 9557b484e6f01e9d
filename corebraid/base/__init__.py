"""What every room stands on: errors, rows, varints, random bits, how kernels are compiled and cached.

Start at `errors.py` and `rows/record.py`. It imports nothing of ours.
"""
