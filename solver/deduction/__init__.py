"""What must come before what in every legal order, to a fixed point.

Start at `deduction.py`.
"""
