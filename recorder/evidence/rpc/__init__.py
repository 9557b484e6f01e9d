"""Evidence `rpc`: receipt histories (Fagot, Chassin de Kergommeaux). Start at `receipts.py`; docs/rpc.md."""
