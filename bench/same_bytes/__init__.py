"""Whether two versions of corebraid make the same recordings and certificates, byte for byte.

Start reading at `cases`, what is recorded; `making` runs a checkout on it and notes digests, `comparing`
holds two notes against each other, `__main__` is the command line. Only the standard library, and the tool
by its command line alone, so that one script serves versions with other source trees.
"""
