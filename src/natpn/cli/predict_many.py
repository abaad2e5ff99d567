"""Predictions of many Parquet files: one output for each file, by several processes, resumed where it was left.

An output appears when it is whole (`natpn.outputs`), and says in its metadata what it was made from: the model, the
options and the size of the input. A second start keeps the outputs that say the same and have as many rows as their
inputs, and makes the others.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from natpn import outputs
from natpn.choices import check_choice
from natpn.cli.formats import Source, without_views
from natpn.cli.model_files import SavedModel, located, match_features, prepare_batch, read_model
from natpn.cli.output_files import PREDICTIONS, TableWriter, open_output, read_mark
from natpn.cli.printing import Problem, of_system, on_terminal, say
from natpn.cli.reading import Reading, written_as
from natpn.tabular.texts import PLAIN, Written, find_number

if TYPE_CHECKING:  # it imports pyarrow, which help does not need
    from natpn.data import Files

Bad = dict[str, tuple[int, str]]
_PATIENCE = 10.0  # seconds that a process has to end when it is asked to


@dataclass(frozen=True)
class Request:
    """What is asked for, whatever the files.

    Attributes:
        drop: Columns to leave out.
        identifier: A column to keep beside the predictions.
        coverage: The probability with which intervals hold the target.
        columns: The columns of the predictions that are written, in this order; all if None.
    """

    drop: tuple[str, ...] = ()
    identifier: str | None = None
    coverage: float = 0.9
    columns: tuple[str, ...] | None = None

    def check(self, saved: SavedModel) -> None:
        """Raise if the predictions of a model have no such columns, before files are read."""
        if self.columns is not None:
            answers = saved.estimator.model_.answer_without_evidence()
            known = [*answers.predictions(self.coverage), *answers.uncertainties()]
            for name in self.columns:
                check_choice("--columns", name, known)

    def predict(self, saved: SavedModel, source: Source) -> Iterator[Any]:
        """Yield tables of predictions of the rows of a file, in the same order."""
        from natpn.estimators.data import make_frame

        keep = [self.identifier] if self.identifier else []
        names = self.match(saved, source)
        for first, batch in source.batches(list(dict.fromkeys([*keep, *names])), "predict"):
            table = prepare_batch(saved, names, batch, source, first)
            with located(source, range(first, first + batch.num_rows)):
                found = saved.estimator.predict_dist(table).columns(self.coverage, self.columns)
            yield self._beside(make_frame(found, table), batch)

    def predict_nothing(self, saved: SavedModel, source: FileOfMany) -> Any:
        """Return the table of predictions of no rows."""
        from natpn.estimators.data import make_frame

        found = saved.estimator.model_.answer_without_evidence().columns(self.coverage, self.columns)
        none = source.no_rows()
        return self._beside(make_frame(found, none).slice(0, 0), none)

    def match(self, saved: SavedModel, source: Source) -> list[str]:
        """Return the columns of a file that the model needs, in its order.

        Raises:
            Problem: If one is missing, or there is one too many.
        """
        keep = [self.identifier] if self.identifier else []
        for name in keep:
            source.check_column("id", name)
        return match_features(saved, source, self.drop, keep)

    def _beside(self, frame: Any, batch: Any) -> Any:
        """Return predictions with the column that names their rows before them."""
        name = self.identifier
        if not name:
            return frame
        if name in frame.column_names:
            raise Problem(f"--id {name}: a column of the predictions has that name; rename it in the file.")
        return frame.add_column(0, name, batch[name])


@dataclass
class FileOfMany(Source):
    """One of several Parquet files, with the columns that all of them have."""

    texts = False
    files: Files = field(kw_only=True)

    @classmethod
    def of(cls, files: Files, written: Written, bad_are_missing: bool) -> FileOfMany:
        """Return the only file of `files`."""
        source = cls(files.paths[0], files.names, written, files.n_rows, files=files)
        source.bad_are_missing = bad_are_missing
        return source

    def batches(self, columns: list[str], what: str = "read") -> Iterator[tuple[int, Any]]:
        """Yield tables, each with the number of its first row; there may be none, and the bar is that of all files."""
        for table in self._tables(columns):
            yield self.position, table
            self.position += table.num_rows

    def _tables(self, columns: list[str]) -> Iterator[Any]:
        for table in self.files.batches(columns):
            yield without_views(table)

    def no_rows(self) -> Any:
        """Return a table with all columns and no rows."""
        return without_views(self.files.schema.empty_table())


@dataclass(frozen=True)
class Task:
    """One file that is to be predicted.

    Attributes:
        files: The file.
        out: Where its predictions go.
        mark: What they say of themselves.
    """

    files: Files
    out: Path
    mark: str

    @property
    def path(self) -> str:
        """The file's name."""
        return self.files.paths[0]

    def is_done(self) -> bool:
        """Say whether the predictions are there, and made from the same file in the same way.

        Raises:
            ValueError: If something else is there.
        """
        import pyarrow.parquet as pq

        outputs.check_file(self.out, PREDICTIONS)
        if not self.out.exists() or not self.out.stat().st_size:
            return False
        with self.out.open("rb") as file:
            if read_mark(file) != self.mark:
                return False
            rows: int = pq.ParquetFile(file).metadata.num_rows
        return rows == self.files.n_rows


@dataclass(frozen=True)
class Worker:
    """What a process needs to predict files.

    Attributes:
        model: The directory of the model.
        request: What is asked for.
        how: How files are read.
    """

    model: str
    request: Request
    how: Reading

    def predict(self, saved: SavedModel, task: Task, tell: Callable[[int], object]) -> Bad:
        """Predict a file, and return its cells that counted as missing.

        Args:
            saved: The model.
            task: The file.
            tell: Is called with the number of rows whenever some are done.
        """
        source = FileOfMany.of(task.files, written_as(self.how, saved.written), self.how.bad_are_missing)
        try:
            task.out.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise of_system(error, str(task.out.parent)) from None
        with open_output(str(task.out), PREDICTIONS) as file, TableWriter(file, True, task.mark) as writer:
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
            saved = read_model(self.model)
            while True:
                task = pipe.recv()
                try:
                    pipe.send(self.predict(saved, task, pipe.send))
                except ConnectionError:
                    raise
                except Exception as error:
                    pipe.send(_sendable(error, task.path))


def predict_many(
    worker: Worker, saved: SavedModel, data: Sequence[str], out: str, jobs: int, shard: tuple[int, int]
) -> None:
    """Predict many files.

    Args:
        worker: What to do with each.
        saved: The model.
        data: Directories, globs and files.
        out: The directory for the predictions.
        jobs: How many processes work on it.
        shard: Which part of the files to take, and of how many.

    Raises:
        Problem: If a file cannot be read or written.
        ValueError: The same.
    """
    from tqdm import tqdm

    from natpn.data import parquet

    _check_out(out, data, worker.model)
    files = parquet(list(data))
    outputs.check_apart(out, *{os.path.dirname(path): path for path in files.paths}.values())  # one of each directory
    worker.request.check(saved)
    first = FileOfMany.of(files, written_as(worker.how, saved.written), False)
    _check_categories(saved, first, worker.request.match(saved, first))
    worker.request.predict_nothing(saved, first)  # which refuses what all files would be refused for
    tasks = _tasks(worker, saved, files, Path(out), _root(data))[shard[0] :: shard[1]]
    left = [task for task in tasks if not task.is_done()]
    bad: Bad = {}
    n_rows = sum(task.files.n_rows for task in left)
    with tqdm(None, "predict", n_rows, leave=False, disable=not on_terminal(), unit=" rows", unit_scale=True) as bar:
        done = _by_processes(worker, left, jobs, bar.update) if jobs > 1 else _here(worker, saved, left, bar.update)
        for found in done:
            for column, (number, example) in found.items():
                before, shown = bad.get(column, (0, example))
                bad[column] = before + number, shown
    first.bad = bad
    first.tell_bad()
    kept = f"; {_count(len(tasks) - len(left))} had been done before" if len(left) < len(tasks) else ""
    say(f"{_count(len(left))} with {n_rows:,} rows predicted into {out}{kept}.")


def _here(worker: Worker, saved: SavedModel, tasks: list[Task], tell: Callable[[int], object]) -> Iterator[Bad]:
    for task in tasks:
        yield worker.predict(saved, task, tell)


def _by_processes(worker: Worker, tasks: list[Task], jobs: int, tell: Callable[[int], object]) -> Iterator[Bad]:
    """Deal files out to processes, the largest first, and yield what each says when it is done.

    Raises:
        Problem: If a file cannot be predicted, or its process died; all processes are ended then.
    """
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


def _tasks(worker: Worker, saved: SavedModel, files: Files, out: Path, root: str) -> list[Task]:
    """Return a task for each file, in the order of their names."""
    pieces: dict[str, list[Any]] = {path: [] for path in files.paths}
    for piece in files.pieces:
        pieces[piece.path].append(piece)
    made_by = asdict(worker.request) | {"model": _digest(saved.path), "reading": repr(worker.how)}
    tasks = {}
    for path, own in pieces.items():
        place = out / os.path.relpath(path, root)
        mark = json.dumps(made_by | {"bytes": files.stamps[path][0]}, sort_keys=True)
        one = replace(
            files, pieces=tuple(own), places={path: files.places.get(path, {})}, stamps={path: files.stamps[path]}
        )
        tasks[place] = Task(one, place, mark)
    return list(tasks.values())


def _check_categories(saved: SavedModel, source: FileOfMany, names: list[str]) -> None:
    """Raise if files have numbers where training had names: each row would be unlike training, after hours of work."""
    import pyarrow.types as types

    for name, column in zip(names, saved.table.columns, strict=True):
        kind, levels = source.files.schema.field(name).type, getattr(column, "levels", [])
        is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        if is_number and levels and all(find_number(level, PLAIN, "") is None for level in levels):
            raise Problem(
                f"{source.name}: the column {name!r} is {kind}, but in training it had names such as {levels[0]!r}; "
                "write it as texts with these names."
            )


def _digest(model: str) -> str:
    """Return a hash of the files of a model."""
    content = hashlib.sha256()
    for path in sorted(Path(model).iterdir()):
        if path.is_file():
            content.update(path.name.encode() + b"\0" + path.read_bytes())
    return content.hexdigest()


def are_many(data: Sequence[str]) -> bool:
    """Say whether directories, globs or several files are named, and not a file or standard input."""
    return len(data) > 1 or os.path.isdir(data[0]) or _is_glob(data[0])


def _is_glob(path: str) -> bool:
    return glob.has_magic(path) and not os.path.exists(path)


def _folder(path: str) -> str:
    """Return the directory that all files of a path are in."""
    if os.path.isdir(path):
        return path
    while _is_glob(path):
        path = os.path.dirname(path)
        if os.path.isdir(path):
            return path
    return os.path.dirname(path) or os.curdir


def _root(data: Sequence[str]) -> str:
    """Return the directory that the names of outputs are relative to."""
    return os.path.commonpath([os.path.abspath(_folder(path)) for path in data])


def _check_out(out: str, data: Sequence[str], model: str) -> None:
    """Raise if predictions cannot go there: it is no directory, or is, holds or lies in what is read."""
    if out == "-":
        raise Problem("--out: many files are predicted into a directory; name one.")
    if os.path.exists(out) and not os.path.isdir(out):
        raise Problem(f"--out {out}: it is a file, and many files are predicted into a directory; name one.")
    outputs.check_apart(out, *(_folder(path) for path in data if os.path.isdir(path) or "**" in path), model)


def _count(number: int) -> str:
    return f"{number:,} file{'' if number == 1 else 's'}"
