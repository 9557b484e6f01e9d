"""Evidence `losses`: when each core lost a line. Start at `log.py`; docs/tenures.md."""
