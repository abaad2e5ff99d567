"""All tables and figures of the paper, in its order, and how figures are drawn."""

from collections.abc import Callable
from typing import Any

from natpn_paper.experiments import (
    bike_sharing,
    cifar10,
    depth_maps,
    histograms,
    inference_time,
    latent_space,
    mnist,
    nyu,
    sensorless_drive,
    shift,
    studies,
    toy,
    uci,
)
from natpn_paper.experiments.base import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        toy.EXPERIMENT,
        sensorless_drive.EXPERIMENT,
        cifar10.EXPERIMENT,
        bike_sharing.EXPERIMENT,
        uci.EXPERIMENT,
        nyu.EXPERIMENT,
        shift.EXPERIMENT,
        inference_time.EXPERIMENT,
        mnist.MNIST,
        mnist.FMNIST,
        latent_space.EXPERIMENT,
        histograms.EXPERIMENT,
        depth_maps.EXPERIMENT,
        *studies.EXPERIMENTS,
    )
}

DRAWINGS: dict[str, Callable[..., Any]] = {
    figure.EXPERIMENT.name: figure.draw for figure in (toy, shift, latent_space, histograms, depth_maps)
}
"""The function of a figure's JSON lines that returns a matplotlib figure."""
