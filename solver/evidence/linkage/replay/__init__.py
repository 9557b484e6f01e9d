"""Stride's replayer (ICSE 2012, section II and Figure 3): every core runs from its own program, between them
is memory with versions, and who may not go on yet waits. Start at `group.py`; docs/linkage.md.
"""
