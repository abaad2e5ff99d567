"""Table 6: milliseconds of a batch. `natpn_paper.experiments.timing` measures them."""

from natpn_paper.experiments.base import Experiment, Outcome, Run, View
from natpn_paper.experiments.models import NETWORKS

CIFAR10, NYU = "CIFAR-10 (batch size 4,096)", "NYU Depth v2 (batch size 4)"
MODELS = ("Dropout", "Ensemble", "NatPE", "Encoder", "R-PriorNet", "EnD2", "PostNet", "EvReg", *NETWORKS)


def run_one(run: Run) -> Outcome:
    """Make a run."""
    from natpn_paper.experiments import timing

    found = timing.run_one(run)
    names = {timing.CIFAR10: CIFAR10, timing.NYU: NYU}
    scores, values = ({names[k]: v for k, v in part.items()} for part in (found.scores, found.values))
    return Outcome(scores, values, found.note)


EXPERIMENT = Experiment(
    "inference-time",
    "Time of a batch on one thread",
    ("inference-time",),
    MODELS,
    run_one,
    (View("inference-time", "inference-time", (CIFAR10, NYU)),),
)
