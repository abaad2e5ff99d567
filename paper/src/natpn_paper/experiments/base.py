"""A table or figure of the paper is an experiment: models, data, and a function that makes one run.

A run is a data set, a model and a seed; its result is one JSON line. Scores have the names of the paper's columns:
areas under the precision-recall curve have the paper's name, areas under the ROC curve the same name after `ROC`.
"""

import datetime
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

LOWER_IS_BETTER = ("Brier", "RMSE", "Calibration", "batch size", "NLL", "CRPS", "ECE")
ROC = "ROC "


def higher_is_better(column: str) -> bool:
    """Say whether a larger score is better in a column."""
    return not any(name in column for name in LOWER_IS_BETTER)


@dataclass(frozen=True)
class Run:
    """One model on one data set with one seed.

    Attributes:
        experiment: The name of the table or figure.
        data: The data it is trained on.
        model: The row of the table.
        seed: The seed of split and weights.
        quick: Whether it is a real run on few rows, in seconds.
        limit: The largest number of rows of each part of the data; None for all.
        epochs: The epochs of training; None for the model's own number.
    """

    experiment: str
    data: str
    model: str
    seed: int
    quick: bool = False
    limit: int | None = None
    epochs: int | None = None

    def rows(self, quick: int = 150) -> int | None:
        """Return the limit on rows: ``quick`` for a quick run, else the run's own."""
        return quick if self.quick else self.limit


@dataclass(frozen=True)
class Outcome:
    """What a run found.

    Attributes:
        scores: Numbers by column.
        values: Anything else that JSON can hold, for figures.
        note: What differs from the paper, such as a part of the data.
        part: How few data it has seen, in two or three words for a heading; empty if that is not to be warned of.
    """

    scores: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    part: str = ""


@dataclass(frozen=True)
class View:
    """How runs fill a table of the paper.

    Attributes:
        table: Its name in `published.csv`.
        data: The part of the experiment that it shows.
        columns: The scores, in order.
        trained_on: What the paper's table calls that part, if it has several.
        prefix: What our names of scores have before the paper's.
        suffix: What the paper's names of models have after ours.
    """

    table: str
    data: str
    columns: tuple[str, ...]
    trained_on: str = ""
    prefix: str = ""
    suffix: str = ""


@dataclass(frozen=True)
class Experiment:
    """A table or a figure of the paper.

    Attributes:
        name: What `natpn reproduce` calls it.
        title: What it shows.
        data: The parts to train on, one or several.
        models: The rows, in the paper's order; those that need several forward passes first.
        run: Makes one run.
        views: The paper's tables that its runs fill; none for a figure.
        seeds: The largest useful number of seeds, if there is one.
        needs: Data sets that it reads; without the first it cannot run.
    """

    name: str
    title: str
    data: tuple[str, ...]
    models: tuple[str, ...]
    run: Callable[[Run], Outcome]
    views: tuple[View, ...] = ()
    seeds: int | None = None
    needs: tuple[str, ...] = ()

    def runs(
        self,
        seeds: int,
        models: tuple[str, ...] | None = None,
        data: tuple[str, ...] | None = None,
        quick: bool = False,
        limit: int | None = None,
        epochs: int | None = None,
    ) -> list[Run]:
        """Return all runs, seed by seed, so that every model has runs if the command is stopped early."""
        count = seeds if self.seeds is None else min(seeds, self.seeds)
        return [
            Run(self.name, name, model, seed, quick, limit, epochs)
            for seed in range(count)
            for name in (self.data if data is None else [d for d in self.data if d in data])
            for model in (self.models if models is None else [m for m in self.models if m in models])
            if self.supports(name, model)
        ]

    def supports(self, data: str, model: str) -> bool:
        """Say whether the paper has the model on that data: EvReg is not for counts."""
        return not (model == "EvReg" and data.endswith("poisson"))


def shortened(limit: int | None, epochs: int | None) -> list[str]:
    """Say how a run was shortened: by a limit on rows, by a number of epochs, by both or not at all."""
    rows = [] if limit is None else [f"at most {limit:,} rows of each part"]
    return rows if epochs is None else [*rows, f"{epochs:,} epochs"]


def execute(experiment: Experiment, run: Run) -> dict[str, Any]:
    """Make a run, and return its JSON line."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(run.seed)  # for encoders, which are made outside their estimator and its seed
    start = time.perf_counter()
    outcome = experiment.run(run)
    return {
        "experiment": run.experiment,
        "data": run.data,
        "model": run.model,
        "seed": run.seed,
        "quick": run.quick,
        "limit": run.limit,
        "epochs": run.epochs,
        "scores": dict(outcome.scores),
        "values": dict(outcome.values),
        "note": "; ".join(filter(None, [outcome.note, *shortened(run.limit, run.epochs)])),
        "part": outcome.part,
        "seconds": round(time.perf_counter() - start, 2),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {name: version(name) for name in ("natpn", "torch")} | {"python": platform.python_version()},
    }
