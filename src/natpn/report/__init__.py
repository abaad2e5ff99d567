"""A fitted model and data → scores, and what they mean."""

from natpn.report.scores import MEANINGS, scores

__all__ = ["MEANINGS", "scores"]
