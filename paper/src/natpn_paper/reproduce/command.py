"""`natpn reproduce`: the paper's tables and figures, measured again, beside what the paper printed."""

import os
from pathlib import Path

import click

from natpn.cli.writing import Problem, note, of_system, part, say

RESULTS = os.path.join("reproduce", "results.jsonl")
CHOICE_RESULTS = os.path.join("reproduce", "choice.jsonl")
QUICK_RESULTS = os.path.join("reproduce", "quick", "results.jsonl")


@click.command(short_help="Measure the paper's tables and figures again.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--list", "listing", is_flag=True, help="Show every table and figure, and how many of its runs are done.")
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="How many seeds; each has its own split and weights.",
)
@click.option("--models", multiple=True, metavar="A,B", help="Only these rows.")
@click.option("--data", multiple=True, metavar="A,B", help="Only these data sets of an experiment.")
@click.option(
    "--jobs", type=click.IntRange(1), help="Runs at a time; by default 1, or all that a Ray cluster can take."
)
@click.option("--quick", is_flag=True, help="Small runs of a few seconds, to see that everything works.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="ROWS", help="At most this many rows of each part of the data."
)
@click.option("--epochs", type=click.IntRange(1), help="Train every model for this many epochs.")
@click.option("--results", metavar="FILE", help=f"Where runs are kept.  [default: {RESULTS}; {QUICK_RESULTS} if quick]")
@click.option("--out", metavar="DIRECTORY", help="Where tables and figures go; by default beside the results.")
@click.option("--notes", metavar="FILE", help="Markdown with remarks, shown in results.md below the tables.")
@click.option("--backend", type=click.Choice(["ray"]), help="Make the runs on a Ray cluster.")
@click.option("--resume/--no-resume", default=True, show_default=True, help="Keep finished runs, or begin again.")
@click.option("--render-only", is_flag=True, help="Make no runs; write tables and figures of those in the file.")
@click.option(
    "--choose",
    "choosing",
    is_flag=True,
    help="Search the paper's grid for the settings of NatPN (paper) on tables, by the likelihood of held-out rows.",
)
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
    choosing: bool,
) -> None:
    """Measure tables and figures of the paper again, and write them beside what the paper printed.

    NAME is one that --list shows, or all. Each run is written to a file of results as soon as it ends; a command that
    was stopped continues where it stopped. Writes results.md, results.html and figures/; with --choose, chosen.json.

    \b
    Example:
      natpn reproduce --list
      natpn reproduce sensorless-drive uci --seeds 5 --jobs 4
      natpn reproduce mnist --models NatPN,PostNet --quick
      natpn reproduce --choose bike-sharing-poisson --seeds 1 --epochs 300
    """
    from natpn_paper.experiments import EXPERIMENTS, missing, read_lines, run_all
    from natpn_paper.reproduce.choosing import ALL, select, wanted_runs, with_data
    from natpn_paper.reproduce.progress import overview, teller
    from natpn_paper.reproduce.rendering import check_outputs, read_remarks, render

    for option, value in (("--limit", limit), ("--epochs", epochs)):
        if quick and value is not None:
            raise Problem(
                f"{option} cannot be combined with --quick, whose runs are small already; leave one of them out."
            )
    if choosing:
        from natpn_paper.reproduce.choice import choose

        if not names:
            raise Problem("--choose needs the name of a data set or table, as in --choose bike-sharing-poisson.")
        place = results or CHOICE_RESULTS
        choose(names, place, out or os.path.dirname(place) or ".", seeds, epochs, jobs, backend)
        return
    place = results or (QUICK_RESULTS if quick else RESULTS)
    if listing or not (names or render_only):
        if not listing:
            say("Name what to measure, as in `natpn reproduce sensorless-drive --seeds 5`; `--help` shows more.")
            say()
        for row in overview(EXPERIMENTS, read_lines(place), seeds, quick):
            say(row)
        return
    remarks = read_remarks(notes) if notes else {}  # before the runs, which may take hours
    chosen = select(names or (ALL,), EXPERIMENTS)
    wanted = wanted_runs(chosen, seeds, models, data, quick, limit, epochs)
    incomplete = False
    directory = out or os.path.dirname(place) or "."
    check_outputs(directory, place, notes)
    if not render_only:
        if not resume:
            set_aside(place)
        os.environ.setdefault("PYTHONWARNINGS", "ignore")  # in the worker processes, as in this one
        if backend == "ray":
            part("ray", "init", "ray")
        todo = missing(wanted, read_lines(place))
        if len(todo) < len(wanted):
            say(f"{len(wanted) - len(todo)} of {len(wanted)} runs are in {place} already.")
        there = todo if backend == "ray" else with_data(todo, chosen)  # a cluster has files of its own
        failed = run_all(there, place, jobs, backend, teller(len(there), chosen)) if there else 0
        if failed:
            note(f"{failed} of {len(there)} runs failed; the same command tries them again")
        incomplete = bool(failed) or len(there) < len(todo)
    render(place, directory, quick, list(chosen), remarks)
    if incomplete:
        ctx.exit(1)


def set_aside(path: str) -> None:
    """Rename a file of results to a name that is free, so that the next run begins with an empty file."""
    from natpn_paper.experiments import read_lines

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
