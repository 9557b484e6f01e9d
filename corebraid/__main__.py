"""The command `corebraid`."""

from __future__ import annotations

from isa.kernel_cache import use_kernel_cache


def main() -> None:
    """Run the command line and exit with its code (docs: `corebraid --help`)."""
    # Numba reads its cache directory when it is imported, which the commands do.
    use_kernel_cache()
    from corebraid.cli import cli

    cli(prog_name="corebraid")


if __name__ == "__main__":
    main()
