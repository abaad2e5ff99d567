"""All tables and figures of the paper, in its order."""

from natpn.experiments import bike_sharing, cifar10, mnist, sensorless_drive, studies, uci
from natpn.experiments.base import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        sensorless_drive.EXPERIMENT,
        cifar10.EXPERIMENT,
        bike_sharing.EXPERIMENT,
        uci.EXPERIMENT,
        mnist.MNIST,
        mnist.FMNIST,
        *studies.EXPERIMENTS,
    )
}
