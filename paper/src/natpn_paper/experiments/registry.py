"""All tables and figures of the paper, in its order, one table of ours, and how figures are drawn."""

from collections.abc import Callable
from typing import Any

from natpn_paper.experiments import (
    depth_maps,
    histograms,
    inference_time,
    latent_space,
    nyu,
    paper_tables,
    shift,
    studies,
    toy_uncertainty,
)
from natpn_paper.experiments.base import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        toy_uncertainty.EXPERIMENT,
        paper_tables.SENSORLESS_DRIVE,
        paper_tables.CIFAR10,
        paper_tables.CIFAR10_LEFT_OUT,
        paper_tables.BIKE_SHARING,
        paper_tables.UCI,
        nyu.EXPERIMENT,
        shift.EXPERIMENT,
        inference_time.EXPERIMENT,
        paper_tables.MNIST,
        paper_tables.FMNIST,
        latent_space.EXPERIMENT,
        histograms.EXPERIMENT,
        depth_maps.EXPERIMENT,
        *studies.EXPERIMENTS,
    )
}

DRAWINGS: dict[str, Callable[..., Any]] = {
    figure.EXPERIMENT.name: figure.draw for figure in (toy_uncertainty, shift, latent_space, histograms, depth_maps)
}
"""For each figure, the function that draws it with matplotlib from JSON lines."""
