"""Evidence `opr`: value log, order log, digests (OPR). Start at `collector.py`; docs/opr.md."""
