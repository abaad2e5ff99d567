"""Table 6: the milliseconds that a batch takes. `natpn_paper.experiments.timing` measures them."""

from natpn_paper.experiments.base import Experiment, Outcome, Run, View
from natpn_paper.experiments.table_rows import NETWORKS

CIFAR10, NYU = "CIFAR-10 (batch size 4,096)", "NYU Depth v2 (batch size 4)"
MODELS = ("Dropout", "Ensemble", "NatPE", "Encoder", "R-PriorNet", "EnD2", "PostNet", "EvReg", *NETWORKS)


def run_one(run: Run) -> Outcome:
    """Make a run."""
    from natpn_paper.experiments import timing

    return timing.measure(run, CIFAR10, NYU)


EXPERIMENT = Experiment(
    "inference-time",
    "Time of a batch on one thread",
    ("inference-time",),
    MODELS,
    run_one,
    (View("inference-time", "inference-time", (CIFAR10, NYU)),),
)
