"""x87 and MMX instructions since revision 2: as the processor tells of exceptions, and raises them.

Start at `x87_exceptions.py`. What engines of revision 1 have is in the folder above.
"""
