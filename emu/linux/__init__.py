"""User-mode Linux on emulated cores: what a kernel does for one multi-threaded process."""
