"""The call stack of a thread that has stopped, by the frame tables of its files. Start at `stack.py`."""
