"""Files: descriptors, open files, nodes, paths, the host's tree beneath and the guest's changes over it.

Start at `descriptors.py`, then `nodes.py`.
"""
