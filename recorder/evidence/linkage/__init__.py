"""Evidence `linkage`: bounded linkages (Stride, ICSE 2012). Start at `collector.py`; docs/linkage.md."""
