"""`natpn reproduce`: the paper's tables and figures, measured again, beside the paper's own figures."""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from natpn.cli.others import part
from natpn.cli.overview import missing_data, overview
from natpn.cli.printing import note, say
from natpn.cli.problems import Problem, near, of_system
from natpn.cli.writing import PAGE, check_out, write_text
from natpn.outputs import Kind, check_apart

if TYPE_CHECKING:
    from natpn.experiments.base import Experiment, Run

RESULTS = os.path.join("reproduce", "results.jsonl")
QUICK_RESULTS = os.path.join("reproduce", "quick", "results.jsonl")
ALL = "all"
_LONGEST_NAME = 3  # commas that the name of a row may hold, and one
_CREATOR = re.compile(rb"<dc:creator>\s*<cc:Agent>\s*<dc:title>natpn<")


def _are_tables(file: IO[bytes]) -> bool:
    from natpn.report.listing import TITLE

    return file.readline().decode(errors="replace").rstrip() == TITLE


FIGURE = Kind("a figure that natpn drew", lambda file: bool(_CREATOR.search(file.read(1 << 11))))
TABLES = Kind("tables that natpn reproduce wrote", _are_tables)


@click.command(short_help="Measure the paper's tables and figures again.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--list", "listing", is_flag=True, help="Show every table and figure, and how far it is.")
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True, help="How many splits and networks.")
@click.option("--models", multiple=True, metavar="A,B", help="Only these rows.")
@click.option("--data", multiple=True, metavar="A,B", help="Only these data sets of an experiment.")
@click.option(
    "--jobs", type=click.IntRange(1), help="Runs at a time; by default 1, or all that a Ray cluster can take."
)
@click.option("--quick", is_flag=True, help="Small runs, in seconds, to see that everything works.")
@click.option("--limit", type=click.IntRange(1), metavar="ROWS", help="At most so many rows of each part of the data.")
@click.option("--epochs", type=click.IntRange(1), help="Epochs of every model, in place of its own number.")
@click.option("--results", metavar="FILE", help=f"Where runs are kept.  [default: {RESULTS}; {QUICK_RESULTS} if quick]")
@click.option("--out", metavar="DIRECTORY", help="Where tables and figures go; by default beside the results.")
@click.option("--notes", metavar="FILE", help="Markdown with remarks, which results.md shows below its tables.")
@click.option("--backend", type=click.Choice(["ray"]), help="Make the runs on a Ray cluster.")
@click.option("--resume/--no-resume", default=True, show_default=True, help="Keep runs that are there, or begin anew.")
@click.option("--render-only", is_flag=True, help="Write tables and figures of the runs that are there.")
@click.pass_context
def reproduce(
    ctx: click.Context,
    names: tuple[str, ...],
    listing: bool,
    seeds: int,
    models: tuple[str, ...],
    data: tuple[str, ...],
    jobs: int | None,
    quick: bool,
    limit: int | None,
    epochs: int | None,
    results: str | None,
    out: str | None,
    notes: str | None,
    backend: str | None,
    resume: bool,
    render_only: bool,
) -> None:
    """Measure tables and figures of the paper again, and write them beside the paper's own.

    NAME is one that --list shows, or all. Each run is one line in a file of results as soon as it ends; a command that
    was stopped goes on where it was. Writes results.md, results.html and figures/.

    \b
    Example:
      natpn reproduce --list
      natpn reproduce sensorless-drive uci --seeds 5 --jobs 4
      natpn reproduce mnist --models NatPN,PostNet --quick
    """
    from natpn.experiments import EXPERIMENTS, missing, read_lines, run_all

    for option, value in (("--limit", limit), ("--epochs", epochs)):
        if quick and value is not None:
            raise Problem(f"{option} has no meaning with --quick, whose runs are small already; leave one of them out.")
    place = results or (QUICK_RESULTS if quick else RESULTS)
    if listing or not (names or render_only):
        if not listing:
            say("Say what to measure, as in `natpn reproduce sensorless-drive --seeds 5`; `--help` shows more.")
            say()
        for row in overview(EXPERIMENTS, read_lines(place), seeds, quick):
            say(row)
        return
    remarks = _remarks(notes) if notes else {}  # before the runs, which may take hours
    chosen = select(names or (ALL,), EXPERIMENTS)
    wanted = _runs(chosen, seeds, models, data, quick, limit, epochs)
    incomplete = False
    directory = out or os.path.dirname(place) or "."
    _check_outputs(directory, place, notes)
    if not render_only:
        if not resume:
            set_aside(place)
        os.environ.setdefault("PYTHONWARNINGS", "ignore")  # of the processes that make runs, as of this one
        if backend == "ray":
            part("ray", "init", "ray")
        todo = missing(wanted, read_lines(place))
        if len(todo) < len(wanted):
            say(f"{len(wanted) - len(todo)} of {len(wanted)} runs are in {place} already.")
        there = todo if backend == "ray" else _with_data(todo, chosen)  # a cluster has files of its own
        failed = run_all(there, place, jobs, backend, _teller(len(there), chosen)) if there else 0
        if failed:
            note(f"{failed} of {len(there)} runs failed; the same command tries them again")
        incomplete = bool(failed) or len(there) < len(todo)
    render(place, directory, quick, list(chosen), remarks)
    if incomplete:
        ctx.exit(1)


def select(names: Sequence[str], experiments: "Mapping[str, Experiment]") -> "dict[str, Experiment]":
    """Return the experiments of some names, which may also be those of the paper's tables.

    Raises:
        Problem: If there is none of a name.
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
            hint = near(name, [*experiments, *tables, ALL])
            raise Problem(f"There is no table or figure {name!r}{hint or '; natpn reproduce --list shows all.'}")
    return found


def split_names(texts: Iterable[str], known: Iterable[str], option: str) -> tuple[str, ...] | None:
    """Return the names in texts such as A,B; a name may hold commas itself.

    Raises:
        Problem: If one is not known.
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
                hint = near(word, names) or f"; there are {', '.join(sorted(names)[:20])}."
                raise Problem(f"{option}: nothing that was chosen has {word!r}{hint}")
    return tuple(found) or None


def set_aside(path: str) -> None:
    """Give a file of results a name of its own, so that the next begins empty."""
    from natpn.experiments import read_lines

    place = Path(os.path.realpath(path) if os.path.islink(path) else path)
    if not place.is_file():
        return
    read_lines(place)  # raises if it holds something else
    number, old = 1, Path(f"{place}.old")
    while os.path.lexists(old):
        number += 1
        old = Path(f"{place}.old{number}")
    try:
        os.replace(place, old)
    except OSError as error:
        raise of_system(error, path) from None
    note(f"what was in {path} is now in {old}")


def render(path: str, out: str, quick: bool, shown: Sequence[str], notes: Mapping[str, str]) -> None:
    """Print the tables of some experiments, and write those of all runs in a file.

    Args:
        path: The results.
        out: The directory to write to.
        quick: Whether to show quick runs instead of full ones.
        shown: The experiments whose tables are printed.
        notes: Remarks, by the name of a table or figure.
    """
    from natpn.experiments import EXPERIMENTS, read_lines
    from natpn.report.agreement import agreement
    from natpn.report.listing import legend, markdown, summary, text
    from natpn.report.notes import without_table
    from natpn.report.results import tables

    lines = read_lines(path)
    found, agreements = tables(lines, EXPERIMENTS, quick), agreement(lines, EXPERIMENTS, quick)
    width = shutil.get_terminal_size((120, 24)).columns
    for table in found:
        if table.experiment.name in shown:
            say()
            say(text(table, width))
    if found:
        say()
        say(legend())
    if agreements:
        say()
        say(summary(agreements))
    if not any(bool(line["quick"]) == quick for line in lines):
        note(f"{path} has no {'quick' if quick else 'full'} runs; there is nothing to write")
        return
    try:
        os.makedirs(out, exist_ok=True)
    except OSError as error:
        raise of_system(error, out) from None
    pictures = _draw(lines, out, quick)
    for name in without_table(notes, [*(table.name for table in found), *(picture.name for picture in pictures)]):
        note(f"the remark on {name!r} is left out: there is no table or figure of that name")
    write_text(os.path.join(out, "results.md"), markdown(found, agreements, pictures, quick, notes), TABLES)
    say()
    say(f"tables  {os.path.join(out, 'results.md')}")
    try:
        page = part("natpn.report.results_page", "page", "report")
    except Problem as problem:
        note(f"results.html is left out: {problem.format_message()}")
        return
    write_text(os.path.join(out, "results.html"), page(found, agreements, pictures, quick), PAGE)
    say(f"page    {os.path.join(out, 'results.html')}")


def _check_outputs(out: str, results: str, notes: str | None) -> None:
    """Raise if a file that natpn did not write is in the way, or one that is read."""
    from natpn.experiments.registry import DRAWINGS

    if notes:
        check_apart(results, notes)
    figures = [(os.path.join("figures", f"{name}.svg"), FIGURE) for name in DRAWINGS]
    for name, kind in [("results.md", TABLES), ("results.html", PAGE), *figures]:
        path = os.path.join(out, name)
        if os.path.isdir(os.path.dirname(path)):
            check_out(path, kind, results, notes)


def _remarks(path: str) -> dict[str, str]:
    """Read remarks.

    Raises:
        Problem: If the file cannot be read, or has two remarks on one table.
    """
    from natpn.report.notes import read_notes

    try:
        return read_notes(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise of_system(error, path) from None
    except ValueError as error:  # two headings, or not UTF-8
        raise Problem(f"{path}: {error}") from None


def _draw(lines: list[dict[str, Any]], out: str, quick: bool) -> list[Any]:
    from natpn.report.drawings import pictures

    drawn, problems = pictures(lines, quick=quick)
    for problem in problems:
        note(problem)
    if drawn:
        os.makedirs(os.path.join(out, "figures"), exist_ok=True)
    for picture in drawn:
        write_text(os.path.join(out, "figures", f"{picture.name}.svg"), picture.svg, FIGURE)
        say(f"figure  {os.path.join(out, 'figures', picture.name)}.svg")
    return drawn


def _runs(
    chosen: "Mapping[str, Experiment]",
    seeds: int,
    models: Sequence[str],
    data: Sequence[str],
    quick: bool,
    limit: int | None,
    epochs: int | None,
) -> "list[Run]":
    rows = split_names(models, [m for e in chosen.values() for m in e.models], "--models")
    parts = split_names(data, [d for e in chosen.values() for d in e.data], "--data")
    runs = [run for e in chosen.values() for run in e.runs(seeds, rows, parts, quick, limit, epochs)]
    if not runs:
        raise Problem("--models and --data leave no run; the paper has no such model on that data.")
    return runs


def _with_data(runs: "Sequence[Run]", chosen: "Mapping[str, Experiment]") -> "list[Run]":
    """Return the runs whose data are there; what is left out is said.

    The first data set that an experiment needs is the one it cannot do without. Another may be an OOD set, whose
    columns stay empty, or that of a few runs, which then say so themselves.
    """
    from natpn.datasets import MissingData, load

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


def _teller(count: int, chosen: "Mapping[str, Experiment]") -> Callable[[dict[str, Any]], None]:
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


def _main(line: Mapping[str, Any], experiment: "Experiment") -> list[tuple[str, float]]:
    """Return the scores of a run that matter most: the first two, and the first of knowledge."""
    columns = [view.prefix + c for view in experiment.views if view.data == line["data"] for c in view.columns]
    known = [name for name in columns or line["scores"] if name in line["scores"]]
    return [(name, line["scores"][name]) for name in [*known[:2], *[n for n in known[2:] if "Epist." in n][:1]]]
