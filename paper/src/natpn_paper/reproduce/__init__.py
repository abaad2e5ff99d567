"""The command `natpn reproduce`: the paper's tables and figures, measured again, beside the paper's own figures."""

from natpn_paper.reproduce.command import reproduce

__all__ = ["reproduce"]
