"""`natpn predict`: a model and new rows → predictions, in constant memory.

Many Parquet files have one output each, made by several processes, and resumed where it was left. An output appears
when it is whole (`natpn.outputs`), and says in its metadata what it was made from: the model, the options and the size
of the input. A second start keeps the outputs that say the same and have as many rows as their inputs, and makes the
others.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from natpn import outputs
from natpn.cli.cluster import check_cluster, predict_on_cluster, ray_option
from natpn.cli.formats import FileOfMany
from natpn.cli.model_files import Request, SavedModel, check_categories
from natpn.cli.reading import Reading, are_many, drop_option, is_glob, opened, reading_options
from natpn.cli.shifted import adapted, shifted_option
from natpn.cli.writing import (
    Problem,
    TableWriter,
    check_output,
    columns_and_mark,
    of_system,
    on_terminal,
    open_output,
    say,
    system_errors,
)
from natpn.outputs import Kind

if TYPE_CHECKING:  # it imports pyarrow, which help does not need
    from natpn.data import Files, Piece

Bad = dict[str, tuple[int, str]]
_PATIENCE = 10.0  # seconds that a process has to end when it is asked to


def _read_columns(ctx: click.Context, option: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise click.BadParameter("expected names such as prediction,novel.", ctx, option)
    return names


def _read_shard(ctx: click.Context, option: click.Parameter, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    part, parts = map(int, found.groups()) if found else (0, 0)
    if not part < parts:
        raise click.BadParameter(f"expected i/n with 0 <= i < n, such as 0/4, got {text!r}.", ctx, option)
    return part, parts


_FILE_OPTIONS = (
    click.argument("model"),
    click.argument("data", nargs=-1, required=True),
    click.option(
        "--out",
        default="-",
        metavar="FILE",
        help="Where to write; .parquet is Parquet, - standard output; or a directory.",
    ),
    click.option(
        "--id", "identifier", metavar="COLUMN", help="A column that names the rows, to keep beside the others."
    ),
    drop_option,
    reading_options,
    click.option(
        "--format", "form", type=click.Choice(["csv", "parquet"]), help="What to write, if the name does not say."
    ),
    click.option("--columns", metavar="A,B,…", callback=_read_columns, help="Write only these columns."),
    click.option(
        "--jobs", type=click.IntRange(min=1), help="How many processes work.  [default: 1; with --ray one for each CPU]"
    ),
    click.option("--shard", metavar="I/N", callback=_read_shard, help="Take every N-th file from the I-th, from 0 on."),
)


def file_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments and options of a command that writes something for each row of one file or of many."""
    for option in reversed(_FILE_OPTIONS):
        function = option(function)
    return function


@click.command("predict", short_help="Predict new rows, in constant memory.")
@file_options
@click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    help="Probability with which lower and upper hold the target.",
)
@click.option("--fast", is_flag=True, help="Calculate in float32: twice as fast, and right to three digits or more.")
@shifted_option
@ray_option
def predict_command(
    model: str,
    data: tuple[str, ...],
    out: str,
    how: Reading,
    form: str | None,
    jobs: int | None,
    shard: tuple[int, int] | None,
    shifted_to: str | None,
    ray: str | None,
    **asked: Any,
) -> None:
    """Predict the rows of DATA, a CSV, Parquet or Excel file (- reads standard input), with MODEL.

    Writes a row for each row, in the same order: the prediction, its interval or the probabilities of the classes, the
    noise (aleatoric), what is not known (epistemic), familiarity, whether the row is novel, and the reason if it is.
    Rows are read, predicted and written in pieces: a file may be of any length. The target may be in DATA; it is not
    looked at. Values are taken to be written as in the file of the fit.

    DATA may also be a directory of Parquet files, a glob, or several of them: then --out is a directory that gets a
    file for each, under the same name. The same command again predicts only what is missing.

    \b
    Example:
      natpn predict rent new.csv --id flat --out predictions.csv
      cat new.csv | natpn predict rent - | head
      natpn predict rent new.csv --shifted-to new.csv --out predictions.csv
      natpn predict rent flats/ --out predictions/ --jobs 4
      natpn predict /shared/rent /shared/flats/ --id flat --out /shared/predictions/ --ray auto
    """
    answer(Request(**asked), model, data, out, how, form, jobs, shard, shifted_to, ray)


def answer(
    request: Request,
    model: str,
    data: tuple[str, ...],
    out: str,
    how: Reading,
    form: str | None,
    jobs: int | None,
    shard: tuple[int, int] | None,
    shifted_to: str | None = None,
    ray: str | None = None,
) -> None:
    """Write what is asked of a model about the rows of files; the arguments are those of `predict_command`."""
    if ray is not None:
        data = tuple(check_cluster(data, how))
        if shard is not None:
            raise Problem("--shard: the cluster divides the rows itself; leave --shard or --ray out.")
    if ray is not None or are_many(data):
        if shifted_to is not None:
            raise Problem(
                "--shifted-to: it is for one file; in Python, model.adapt(X).save(…) writes a model for many files."
            )
        if form == "csv":
            raise Problem("--format csv: outputs of many files are Parquet; leave the option out.")
        worker, saved = Worker(model, request, how), request.read_model(model)
        first = _check_many(worker, saved, data, out)
        if ray is not None:
            predict_on_cluster(saved, request, first.files, out, jobs, ray)
            say(f"{_count(len(first.files.paths))} with {first.files.n_rows:,} rows predicted into {out}.")
        else:
            _predict_many(worker, saved, first, data, out, jobs or 1, shard or (0, 1))
        return
    for option, value in (("jobs", jobs), ("shard", shard)):
        if value is not None:
            raise Problem(f"--{option}: {data[0]} is one file, and this is for many; leave the option out.")
    if shifted_to == data[0] == "-":
        raise Problem("--shifted-to -: standard input cannot be read twice; write it to a file.")
    check_output(out, request.kind, model, data[0], shifted_to)
    saved = request.read_model(model)
    request.check(saved)
    if shifted_to is not None:
        saved = adapted(saved, shifted_to, how, request)
    as_parquet = form == "parquet" if form else Path(out).suffix in (".parquet", ".pq")
    with opened(data[0], how, saved.written) as source:
        request.match(saved, source)  # before the output is begun
        mark = None if request.columns is None else ""
        with open_output(out, request.kind) as file, TableWriter(file, as_parquet, mark) as writer:
            for frame in request.predict(saved, source):
                writer.write(frame)
    source.tell_bad()


@dataclass(frozen=True)
class Task:
    """A file that is to be predicted, where its predictions go, and the mark that says what they were made from."""

    files: Files
    out: Path
    mark: str
    kind: Kind

    @property
    def path(self) -> str:
        """The file's name."""
        return self.files.paths[0]

    def is_done(self) -> bool:
        """Say whether the predictions are there, and made from the same file in the same way."""
        import pyarrow.parquet as pq

        outputs.check_file(self.out, self.kind)
        if not self.out.exists() or not self.out.stat().st_size:
            return False
        with self.out.open("rb") as file:
            if columns_and_mark(file)[1] != self.mark:
                return False
            rows: int = pq.ParquetFile(file).metadata.num_rows
        return rows == self.files.n_rows


@dataclass(frozen=True)
class Worker:
    """What a process needs to predict files: the directory of the model, what is asked for, and how files are read."""

    model: str
    request: Request
    how: Reading

    def open(self, files: Files, saved: SavedModel) -> FileOfMany:
        """Return the first of some files as a table."""
        source = FileOfMany(files.paths[0], files.names, self.how.over(saved.written), files.n_rows, files=files)
        source.bad_are_missing = self.how.bad_are_missing
        return source

    def predict(self, saved: SavedModel, task: Task, tell: Callable[[int], object]) -> Bad:
        """Predict a file, tell how many rows are done whenever some are, and return cells that counted as missing."""
        source = self.open(task.files, saved)
        with system_errors(str(task.out.parent)):
            task.out.parent.mkdir(parents=True, exist_ok=True)
        with open_output(str(task.out), task.kind) as file, TableWriter(file, True, task.mark) as writer:
            for frame in self.request.predict(saved, source):
                writer.write(frame)
                tell(frame.num_rows)
            if not source.position:
                writer.write(self.request.predict_nothing(saved, source))
        return source.bad

    def serve(self, pipe: Connection) -> None:
        """Predict the files that come through a pipe, until it is closed, in a process of its own."""
        import warnings

        import torch

        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing half-written stays
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        with contextlib.suppress(EOFError, ConnectionError):
            saved = self.request.read_model(self.model)
            while True:
                task = pipe.recv()
                try:
                    pipe.send(self.predict(saved, task, pipe.send))
                except ConnectionError:
                    raise
                except Exception as error:
                    pipe.send(_sendable(error, task.path))


def _check_many(worker: Worker, saved: SavedModel, data: Sequence[str], out: str) -> FileOfMany:
    """Return the first of many files, with all of them, or raise if they cannot be predicted into a directory."""
    from natpn.data import parquet

    if out == "-":
        raise Problem("--out: many files are predicted into a directory; name one.")
    if os.path.exists(out) and not os.path.isdir(out):
        raise Problem(f"--out {out}: it is a file, and many files are predicted into a directory; name one.")
    outputs.check_apart(out, *(_folder(path) for path in data if os.path.isdir(path) or "**" in path), worker.model)
    files = parquet(list(data))
    outputs.check_apart(out, *{os.path.dirname(path): path for path in files.paths}.values())  # one of each directory
    worker.request.check(saved)
    first = worker.open(files, saved)
    check_categories(saved, first, worker.request.match(saved, first))
    worker.request.predict_nothing(saved, first)  # which refuses what all files would be refused for
    return first


def _predict_many(
    worker: Worker,
    saved: SavedModel,
    first: FileOfMany,
    data: Sequence[str],
    out: str,
    jobs: int,
    shard: tuple[int, int],
) -> None:
    """Predict directories, globs and files into a directory, by some processes, and only a part of all files."""
    from tqdm import tqdm

    tasks = _tasks(worker, saved, first.files, data, out)[shard[0] :: shard[1]]
    left = [task for task in tasks if not task.is_done()]
    n_rows = sum(task.files.n_rows for task in left)
    with tqdm(None, "predict", n_rows, leave=False, disable=not on_terminal(), unit=" rows", unit_scale=True) as bar:
        here = (worker.predict(saved, task, bar.update) for task in left)
        for found in _by_processes(worker, left, jobs, bar.update) if jobs > 1 else here:
            for column, (number, example) in found.items():
                first.count_bad(column, number, example)
    first.tell_bad()
    kept = f"; {_count(len(tasks) - len(left))} had been done before" if len(left) < len(tasks) else ""
    say(f"{_count(len(left))} with {n_rows:,} rows {worker.request.done} into {out}{kept}.")


def _tasks(worker: Worker, saved: SavedModel, files: Files, data: Sequence[str], out: str) -> list[Task]:
    """Return a task for each file, in the order of their names."""
    root = os.path.commonpath([os.path.abspath(_folder(path)) for path in data])
    made_by = asdict(worker.request) | {"model": saved.digest(), "reading": repr(worker.how)}
    made_by["names"] = worker.request.names(saved)
    pieces: dict[str, list[Piece]] = {path: [] for path in files.paths}
    for piece in files.pieces:
        pieces[piece.path].append(piece)
    tasks = {}
    for path, own in pieces.items():
        stamp, place = files.stamps[path], Path(out, os.path.relpath(path, root))
        one = replace(files, pieces=tuple(own), places={path: files.places.get(path, {})}, stamps={path: stamp})
        mark = json.dumps(made_by | {"bytes": stamp[0]}, sort_keys=True)
        tasks[place] = Task(one, place, mark, worker.request.kind)
    return list(tasks.values())


def _folder(path: str) -> str:
    """Return the directory that all files of a path are in."""
    if os.path.isdir(path):
        return path
    while is_glob(path):
        path = os.path.dirname(path)
        if os.path.isdir(path):
            return path
    return os.path.dirname(path) or os.curdir


def _count(number: int) -> str:
    return f"{number:,} file{'' if number == 1 else 's'}"


def _by_processes(worker: Worker, tasks: list[Task], jobs: int, tell: Callable[[int], object]) -> Iterator[Bad]:
    """Deal files out to processes, the largest first, and yield what each says when it is done."""
    waiting = sorted(tasks, key=lambda task: task.files.n_rows)
    context = multiprocessing.get_context("spawn")
    processes: dict[Connection, BaseProcess] = {}
    busy: dict[Connection, Task] = {}

    def deal(pipe: Connection) -> None:
        if not waiting:
            pipe.close()  # which ends the process
            return
        busy[pipe] = waiting.pop()
        with contextlib.suppress(OSError):  # it is dead, and the next read says so
            pipe.send(busy[pipe])

    try:
        for _ in range(min(jobs, len(tasks))):
            pipe, other = context.Pipe()
            process = context.Process(target=worker.serve, args=(other,), daemon=True)
            process.start()
            other.close()
            processes[pipe] = process
            deal(pipe)
        while busy:
            for pipe in cast(list[Connection], wait(list(busy))):
                try:
                    said = pipe.recv()
                except (EOFError, OSError):
                    raise _died(processes[pipe], busy[pipe].path) from None
                if isinstance(said, int):
                    tell(said)
                elif isinstance(said, Exception):
                    raise said
                else:
                    yield said
                    del busy[pipe]
                    deal(pipe)
    finally:
        for pipe in busy:
            processes[pipe].terminate()
        for each in processes.values():
            each.join(_PATIENCE)
            if each.is_alive():
                each.kill()
        for task in busy.values():  # one that was ended twice may have left a part behind
            outputs.sweep(task.out.parent)


def _died(process: BaseProcess, path: str) -> Problem:
    process.join(_PATIENCE)
    code = process.exitcode or 0
    how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    return Problem(
        f"{path}: the process that predicted it {how}; start the same command again to go on with what is left, with "
        "fewer --jobs if memory ran out."
    )


def _sendable(error: Exception, path: str) -> Exception:
    """Return an error that another process can be told."""
    if isinstance(error, click.ClickException):
        return Problem(error.format_message())
    if isinstance(error, OSError):
        return of_system(error, path)
    if isinstance(error, MemoryError):
        return Problem(f"{path}: there is not enough memory; use fewer --jobs, or a larger machine.")
    return ValueError(str(error)) if isinstance(error, ValueError) else RuntimeError(f"{path}: {error!r}")
