"""Times of a batch: every row of the paper's table and the bare encoder, measured in turns."""

import time

import pytest
import torch

from natpn_paper.experiments import Run, execute, inference_time, published
from natpn_paper.experiments.inference_time import CIFAR10, EXPERIMENT, MODELS, NYU
from natpn_paper.experiments.table_rows import is_single_pass, plain_name
from natpn_paper.experiments.timing import milliseconds


def models():
    """All, those that ask a network many times marked as slow."""
    return [pytest.param(name, marks=[] if is_single_pass(name) else [pytest.mark.slow]) for name in MODELS]


@pytest.mark.parametrize("name", models())
def test_every_model_has_the_columns_that_the_paper_has(name):
    line = execute(EXPERIMENT, Run(EXPERIMENT.name, EXPERIMENT.name, name, 0, quick=True))
    known = {column for model, column in published.scores("inference-time") if model == plain_name(name)}
    assert set(line["scores"]) == (known or {CIFAR10, NYU})
    for column, ms in line["scores"].items():
        assert ms > 0
        beside = line["values"][column]
        assert beside["ratio"] == pytest.approx(ms / beside["encoder ms"], rel=1e-2)
    assert "untrained" in line["note"]


def test_the_papers_rows_are_all_there():
    assert {model for model, _ in published.scores("inference-time")} <= {plain_name(name) for name in MODELS}
    assert inference_time.EXPERIMENT.views[0].columns == (CIFAR10, NYU)


def test_times_are_those_of_a_batch_in_turns():
    calls = []

    def waits(name, seconds):
        def run_pass(x):
            calls.append((name, len(x)))
            time.sleep(seconds)

        return run_pass

    short, long = milliseconds([waits("a", 0.01), waits("b", 0.05)], torch.zeros(5, 1), 2, 3)
    assert 30 <= short < long
    assert 150 <= long < 400
    assert calls == [("a", 2), ("b", 2)] + 3 * [(name, size) for size in (2, 2, 1) for name in "ab"]
