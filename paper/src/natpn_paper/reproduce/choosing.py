"""The arguments of a command → the runs that it asks for, and those of them whose data can be found."""

from collections.abc import Iterable, Mapping, Sequence

from natpn.choices import did_you_mean
from natpn.cli.writing import Problem, note
from natpn_paper.datasets import MissingData, load
from natpn_paper.experiments import Experiment, Run
from natpn_paper.reproduce.progress import missing_data

ALL = "all"
_LONGEST_NAME = 3  # the parts that commas can split the name of a row into


def select(names: Sequence[str], experiments: Mapping[str, Experiment]) -> dict[str, Experiment]:
    """Return the experiments with the given names, which may also be names of the paper's tables.

    Raises:
        Problem: If a name is unknown.
    """
    found: dict[str, Experiment] = {}
    tables = {view.table for experiment in experiments.values() for view in experiment.views}
    for name in names:
        if name in experiments:
            found[name] = experiments[name]
        elif name == ALL:
            found |= experiments
        elif name in tables:
            found |= {k: e for k, e in experiments.items() if name in (view.table for view in e.views)}
        else:
            hint = did_you_mean(name, [*experiments, *tables, ALL])
            raise Problem(f"There is no table or figure {name!r}{hint or '; natpn reproduce --list shows all.'}")
    return found


def split_names(texts: Iterable[str], known: Iterable[str], option: str) -> tuple[str, ...] | None:
    """Return the names in texts such as A,B; a name may itself hold commas.

    Raises:
        Problem: If a name is unknown.
    """
    names, found = set(known), []
    for text in texts:
        words = text.split(",")
        while words:
            for count in range(min(_LONGEST_NAME, len(words)), 0, -1):
                name = ",".join(words[:count]).strip()
                if name in names:
                    found.append(name)
                    del words[:count]
                    break
            else:
                word = words[0].strip()
                hint = did_you_mean(word, names) or f"; there are {', '.join(sorted(names)[:20])}."
                raise Problem(f"{option}: nothing that was chosen has {word!r}{hint}")
    return tuple(found) or None


def wanted_runs(
    chosen: Mapping[str, Experiment],
    seeds: int,
    models: Sequence[str],
    data: Sequence[str],
    quick: bool,
    limit: int | None,
    epochs: int | None,
) -> list[Run]:
    """Return the runs of the chosen experiments that the options leave; see the command.

    Raises:
        Problem: If a name is unknown, or no run is left.
    """
    rows = split_names(models, [m for e in chosen.values() for m in e.models], "--models")
    parts = split_names(data, [d for e in chosen.values() for d in e.data], "--data")
    runs = [run for e in chosen.values() for run in e.runs(seeds, rows, parts, quick, limit, epochs)]
    if not runs:
        raise Problem("--models and --data leave no run; the paper has no such model on that data.")
    return runs


def with_data(runs: Sequence[Run], chosen: Mapping[str, Experiment]) -> list[Run]:
    """Return the runs whose data can be found, and print a note about those that are left out.

    An experiment cannot run without the first data set that it needs. The others may be OOD sets, whose columns then
    stay empty, or belong to a few runs, which fail with their own message.
    """
    absent = set()
    for name in dict.fromkeys(run.experiment for run in runs):
        first = chosen[name].needs[:1]
        if not first or first[0] not in missing_data(chosen[name]):
            continue
        try:
            load(first[0], limit=1)
        except MissingData as error:
            note(f"{name} is left out: {error}")
            absent.add(name)
    return [run for run in runs if run.experiment not in absent]
