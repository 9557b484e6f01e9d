"""Evidence streams: each folder takes one down while the machine runs, and reads it again.

Start at `linkage/collector.py`; `integrity.py` checks every byte of a recording, evidence and the rest. The
table of streams is `recorder/files/evidence_names.py`.
"""
