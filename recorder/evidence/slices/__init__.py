"""Evidence `slices`: time slices with checkpoints (LightPlay). Start at `collector.py`; docs/lightplay.md."""
