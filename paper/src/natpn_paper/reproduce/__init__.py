"""The command `natpn reproduce`, which measures the paper's tables and figures again."""

from natpn_paper.reproduce.command import reproduce

__all__ = ["reproduce"]
