"""The two rows that rooms speak in: `record.py` (a core's log) and `event.py` (an access of a trace), which
`packed.py` makes smaller for files that nobody keeps."""
