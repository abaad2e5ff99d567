"""The command `natpn`: parses, calls, prints. Heavy imports are inside each command, so that `--help` is quick."""

from natpn.cli.commands import cli, main

__all__ = ["cli", "main"]
