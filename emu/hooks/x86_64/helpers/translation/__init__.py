"""The emulator's translator, ours in parts: what it writes into the code that it generates.

It tells no function of ours what is translated; `intermediate.py` finds that out, and has what it takes to
write code. The others are one kind of instruction each, and what all of them pass through: calls
(`calls.py`), accesses (`accesses.py`), bytes of code (`translator.py`).
"""
