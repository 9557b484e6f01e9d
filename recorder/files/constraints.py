"""What an order has to obey: the names of `--constraints`. Each of them includes those before it.

Values: what the accesses saw (MICRO 2009, section 4). Tenures: what miss records prove. Losses: what the
cores noted of lines that others took from them, where a recording has that.
"""

from __future__ import annotations

VALUES, TENURES, LOSSES = "values", "tenures", "losses"
CONSTRAINTS = (VALUES, TENURES, LOSSES)
