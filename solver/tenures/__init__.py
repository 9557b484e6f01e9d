"""What miss records prove beyond values (docs/tenures.md): edges between rows of a region, found before any
filter.

Start at `deduce.py`; one rule a file: `foreign`, `contents`, `misses`, `syncs`.
"""
