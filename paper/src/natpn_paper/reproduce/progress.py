"""What `natpn reproduce --list` shows: every table and figure of the paper, and how far it is."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from natpn_paper.datasets import missing_folder
from natpn_paper.experiments import Experiment, Run, published


def overview(
    experiments: Mapping[str, Experiment], lines: Sequence[Mapping[str, Any]], seeds: int, quick: bool
) -> Iterator[str]:
    """Yield lines for all experiments, then for what the paper has beyond them.

    Args:
        experiments: The experiments by name.
        lines: Results that are there.
        seeds: How many seeds are wanted.
        quick: Whether it is about quick runs.
    """
    rows = [(name, _state(one.runs(seeds), lines, quick), one) for name, one in experiments.items()]
    first, second = (max(map(len, texts), default=4) for texts in ([r[0] for r in rows], [r[1] for r in rows]))
    yield f"{'name':<{first}}  {'runs':>{second}}  what it shows"
    for name, state, experiment in rows:
        yield f"{name:<{first}}  {state:>{second}}  {experiment.title}"
        yield f"{'':<{first}}  {'':>{second}}  {'; '.join(_details(experiment, lines, quick))}"
    filled = {view.table for experiment in experiments.values() for view in experiment.views}
    rest = [table for table in published.tables() if table not in filled]
    if rest:
        yield f"Tables of the paper that nothing here fills: {', '.join(rest)}."


def missing_data(experiment: Experiment) -> list[str]:
    """Return the data sets that an experiment needs and whose files are nowhere."""
    return [name for name in experiment.needs if missing_folder(name) is not None]


def _state(wanted: Sequence[Run], lines: Sequence[Mapping[str, Any]], quick: bool) -> str:
    """Return how many runs are done, on all of the data or on a part."""
    key = ("experiment", "data", "model", "seed")
    done = {tuple(line[name] for name in key) for line in lines if bool(line["quick"]) == quick}
    return f"{sum(tuple(getattr(run, name) for name in key) in done for run in wanted)}/{len(wanted)}"


def _details(experiment: Experiment, lines: Sequence[Mapping[str, Any]], quick: bool) -> Iterator[str]:
    tables = list(dict.fromkeys(view.table for view in experiment.views))
    yield f"table{'s' * (len(tables) > 1)} {', '.join(tables)}" if tables else "figure"
    own = [line for line in lines if line["experiment"] == experiment.name and bool(line["quick"]) == quick]
    for name, before, after in (("limit", "on at most", "rows"), ("epochs", "for", "epochs")):
        if sizes := {line[name] for line in own} - {None}:
            yield f"some runs {before} {', '.join(f'{size:,}' for size in sorted(sizes))} {after}"
    if absent := missing_data(experiment):
        yield f"data missing: {', '.join(absent)}"
