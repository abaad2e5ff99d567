"""The paper's tables and figures: one run is one JSON line (`natpn reproduce`)."""

from natpn_paper.experiments.base import Experiment, Outcome, Run, View, execute, higher_is_better
from natpn_paper.experiments.registry import EXPERIMENTS
from natpn_paper.experiments.running import missing, read_lines, run_all

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Outcome",
    "Run",
    "View",
    "execute",
    "higher_is_better",
    "missing",
    "read_lines",
    "run_all",
]
