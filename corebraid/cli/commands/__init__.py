"""One file for each command; each loads what it needs when it runs."""
