"""What is printed about progress: how far every table and figure is, and one line for each run that ends."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from natpn.cli.writing import note, say
from natpn_paper.datasets import missing_folder
from natpn_paper.experiments import Experiment, Run, published

_NAMED = 20  # models of an experiment at most that are named


def overview(
    experiments: Mapping[str, Experiment], lines: Sequence[Mapping[str, Any]], seeds: int, quick: bool
) -> Iterator[str]:
    """Yield what `natpn reproduce --list` shows: all experiments, then the paper's tables that none of them fills.

    Args:
        experiments: The experiments by name.
        lines: The results so far.
        seeds: How many seeds are wanted.
        quick: Whether to count quick runs instead of full ones.
    """
    rows = [(name, _state(one.runs(seeds), lines, quick), one) for name, one in experiments.items()]
    first, second = (max(map(len, texts), default=4) for texts in ([r[0] for r in rows], [r[1] for r in rows]))
    yield f"{'name':<{first}}  {'runs':>{second}}  what it shows"
    for name, state, experiment in rows:
        yield f"{name:<{first}}  {state:>{second}}  {experiment.title}"
        yield f"{'':<{first}}  {'':>{second}}  {'; '.join(_details(experiment, lines, quick))}"
    filled = {view.table for experiment in experiments.values() for view in experiment.views}
    rest = [table for table in published.table_names() if table not in filled]
    if rest:
        yield f"Tables of the paper that no experiment fills: {', '.join(rest)}."


def missing_data(experiment: Experiment) -> list[str]:
    """Return the data sets that an experiment needs and whose folders are missing."""
    return [name for name in experiment.needs if missing_folder(name) is not None]


def _state(wanted: Sequence[Run], lines: Sequence[Mapping[str, Any]], quick: bool) -> str:
    """Return how many runs are done, whether on all of the data or on a part."""
    key = ("experiment", "data", "model", "seed")
    done = {tuple(line[name] for name in key) for line in lines if bool(line["quick"]) == quick}
    return f"{sum(tuple(getattr(run, name) for name in key) in done for run in wanted)}/{len(wanted)}"


def _details(experiment: Experiment, lines: Sequence[Mapping[str, Any]], quick: bool) -> Iterator[str]:
    tables = list(dict.fromkeys(view.table for view in experiment.views))
    yield f"table{'s' * (len(tables) > 1)} {', '.join(tables)}" if tables else "figure"
    own = [line for line in lines if line["experiment"] == experiment.name and bool(line["quick"]) == quick]
    if own:
        yield _ran(experiment, own)
    for name, before, after in (("limit", "on at most", "rows"), ("epochs", "for", "epochs")):
        if sizes := {line[name] for line in own} - {None}:
            yield f"some runs {before} {', '.join(f'{size:,}' for size in sorted(sizes))} {after}"
    if absent := missing_data(experiment):
        yield f"data missing: {', '.join(absent)}"


def _ran(experiment: Experiment, lines: Sequence[Mapping[str, Any]]) -> str:
    """Say how many seeds each model has, the most first; of many models only how many there are."""
    seeds = {model: len({line["seed"] for line in lines if line["model"] == model}) for model in experiment.models}
    groups = [[model for model in seeds if seeds[model] == count] for count in sorted({*seeds.values()}, reverse=True)]
    told = []
    for group in groups:
        count = seeds[group[0]]
        names = ", ".join(group) if len(seeds) <= _NAMED else f"{len(group)} rows"
        told.append(f"{count} seed{'s' * (count > 1)} of {names}" if count else f"none of {names}")
    return "; ".join(told)


def teller(count: int, chosen: Mapping[str, Experiment]) -> Callable[[dict[str, Any]], None]:
    """Return a function that prints one line about a run that has ended: its main scores, or why it failed."""
    done = 0
    told = set()

    def tell(line: dict[str, Any]) -> None:
        nonlocal done
        done += 1
        at = f"{done:>{len(str(count))}}/{count}"
        if "error" not in line:
            scores = ", ".join(f"{name} {value:.2f}" for name, value in _main(line, chosen[line["experiment"]]))
            say(f"{at}  {_where(line)}  {scores or 'done'}  ({line['seconds']:.0f} s)")
            return
        run, error = line["run"], line["error"]
        sentence = " ".join(f"{type(error).__name__}: {error}".split())
        say(f"{at}  {_where(vars(run))}  failed")
        if (run.experiment, sentence) not in told:  # the same file is missing for every model
            told.add((run.experiment, sentence))
            note(f"{run.experiment}, {run.model}: {sentence}")

    return tell


def _where(run: Mapping[str, Any]) -> str:
    data = "" if run["data"] == run["experiment"] else f"  {run['data']}"
    return f"{run['experiment']}{data}  {run['model']}  seed {run['seed']}"


def _main(line: Mapping[str, Any], experiment: Experiment) -> list[tuple[str, float]]:
    """Return the main scores of a run: the first two, and the first by epistemic uncertainty."""
    columns = [view.prefix + c for view in experiment.views if view.data == line["data"] for c in view.columns]
    known = [name for name in columns or line["scores"] if name in line["scores"]]
    return [(name, line["scores"][name]) for name in [*known[:2], *[n for n in known[2:] if "Epist." in n][:1]]]
