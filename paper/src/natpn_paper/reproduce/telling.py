"""What is printed when a run ends: a line with its main scores, or why it failed."""

from collections.abc import Callable, Mapping
from typing import Any

from natpn.cli.printing import note, say
from natpn_paper.experiments import Experiment


def teller(count: int, chosen: Mapping[str, Experiment]) -> Callable[[dict[str, Any]], None]:
    """Return what is called after each run, and prints a line."""
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
    """Return the scores of a run that matter most: the first two, and the first of knowledge."""
    columns = [view.prefix + c for view in experiment.views if view.data == line["data"] for c in view.columns]
    known = [name for name in columns or line["scores"] if name in line["scores"]]
    return [(name, line["scores"][name]) for name in [*known[:2], *[n for n in known[2:] if "Epist." in n][:1]]]
