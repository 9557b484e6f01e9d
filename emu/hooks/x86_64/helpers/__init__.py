"""What the emulator computes otherwise than the processor, computed right: functions in place of its own.

QEMU calls a function that generated code calls for one instruction a helper, and so do we. Each has the
operands already fetched, so none touches memory. What is wrong in generated code itself is in
`translation/`. Start at `table.py`: which there are, and which of ours takes the place of which.
"""
