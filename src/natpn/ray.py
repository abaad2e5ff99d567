"""Fits and predictions on a cluster: Ray shares the work out, and Spark can use the same scorer.

    natpn.ray.fit(NatPNRegressor(), "/shared/trips", "fare", "/shared/model", workers=8)
    natpn.ray.predict("/shared/model", "/shared/new", "/shared/predictions", keep=["trip"])

Every machine needs natpn, and has to find the files under the same paths.
"""

import contextlib
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import torch
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from natpn import data, parallel
from natpn.choices import check_choice
from natpn.estimators import load
from natpn.estimators.base import NatPNEstimator
from natpn.estimators.data_estimator import make_frame
from natpn.estimators.shares import FileShare, located
from natpn.model.files import check
from natpn.outputs import check_apart
from natpn.training import TrainingError

BLOCK = 262_144
"""Rows that one actor scores at once and that are written to one file, at most."""

_TURNS = 4  # blocks for each actor, at least, so that all have work until the end
_DEATHS = {
    "ActorDiedError",
    "ActorUnavailableError",
    "NodeDiedError",
    "OutOfMemoryError",
    "WorkerHealthCheckFailedError",
}
_PATIENCE = 10.0  # seconds that a cluster has to answer

Place = str | PathLike[str]
T = TypeVar("T")


class Scorer:
    """Predicts batches of rows, for `ray.data.Dataset.map_batches` and, by `spark`, for Spark.

        rows.map_batches(natpn.ray.Scorer, fn_constructor_args=["/shared/model"], batch_format="pyarrow", …)

    Args:
        model: The directory of a model, or the fitted model. It has to be fitted on columns with names.
        coverage: Probability with which `lower` and `upper` hold the target.
        columns: Which columns of `predict_frame` to return; all if None.
        keep: Columns of the input to return before them. Others that the model was not fitted on are ignored.

    Raises:
        ValueError: If there are no such columns, or those of the model have no names.
    """

    def __init__(
        self,
        model: Place | NatPNEstimator,
        coverage: float = 0.9,
        columns: Sequence[str] | None = None,
        keep: Sequence[str] = (),
    ) -> None:
        self.estimator = load(model) if isinstance(model, (str, PathLike)) else model
        check_is_fitted(self.estimator)
        if not hasattr(self.estimator, "feature_names_in_"):
            raise ValueError("model: it was fitted on an array, whose columns have no names; fit it on a data frame")
        if not 0 < coverage < 1:
            raise ValueError(f"coverage: expected a probability between 0 and 1, got {coverage!r}")
        self.coverage, self.keep = coverage, list(keep)
        self.features: list[str] = self.estimator.feature_names_in_.tolist()
        exposure = self.estimator.model_.targets.exposure
        self.features += [] if exposure is None or exposure.column is None else [exposure.column]
        whole = make_frame(self.estimator.model_.columns_without_evidence(coverage), pa.table({}))
        for name in columns or ():
            check_choice("columns", name, whole.column_names)
        self.columns: list[str] = whole.column_names if columns is None else list(columns)
        both = [name for name in self.keep if name in self.columns]
        if both:
            raise ValueError(f"keep: a column of the predictions is called {both[0]!r}, too; rename yours")
        self.empty: pa.Table = whole.select(self.columns).slice(0, 0)

    @property
    def needed(self) -> list[str]:
        """The columns of the input that are read."""
        return list(dict.fromkeys([*self.keep, *self.features]))

    def check(self, names: Sequence[str]) -> None:
        """Raise a ValueError if an input lacks a column."""
        for name in self.needed:
            if name not in names:
                role = "keep" if name in self.keep else "model"
                raise ValueError(f"{role}: the rows lack the column {name!r}; they have {', '.join(names)}")

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns that come out, given those that go in."""
        self.check(rows.names)
        return pa.schema([*(rows.field(name) for name in self.keep), *self.empty.schema])

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Return the predictions of a batch."""
        self.check(batch.column_names)
        found = self.empty
        if len(batch):
            threads = torch.get_num_threads()
            torch.set_num_threads(1)  # there is a process for each core
            try:
                rows = batch.select(self.features)
                found = make_frame(self.estimator.predict_columns(rows, self.coverage, self.columns), rows)
            finally:
                torch.set_num_threads(threads)
        for number, name in enumerate(self.keep):
            found = found.add_column(number, batch.schema.field(name), batch[name])
        return found

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the predictions of batches, as `mapInArrow` of Spark wants them."""
        for batch in batches:
            yield from self(pa.Table.from_batches([batch])).to_batches()

    def spark(self, frame: Any) -> Any:
        """Return the predictions of a data frame of Spark, as another one."""
        from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

        rows = frame.select(*[f"`{name}`" for name in self.needed])
        return rows.mapInArrow(self.batches, from_arrow_schema(self.schema(to_arrow_schema(rows.schema))))


def predict(
    model: Place | NatPNEstimator,
    source: Place | Sequence[Place],
    out: Place,
    *,
    actors: int | None = None,
    coverage: float = 0.9,
    columns: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    address: str | None = None,
) -> None:
    """Predict the rows of Parquet files, and write Parquet files to a new directory, which appears when all are there.

    Rows come in another order than they went in: keep a column that names them.

    Args:
        model: The directory of a model, or the fitted model.
        source: Parquet files, as `natpn.data.parquet` takes them.
        out: The directory to write.
        actors: How many processes read and score; by default one for each CPU of the cluster. They never claim all
            CPUs: what writes has to wait for one, and they wait for it.
        coverage: Probability with which `lower` and `upper` hold the target.
        columns: Which columns of `predict_frame` to write; all if None.
        keep: Columns of the input to write before them.
        address: Of the cluster, as `ray.init` takes it. A session of Ray that has begun is used as it is.

    Raises:
        ValueError: If an argument is not what is described here, or a file cannot be read.
        ImportError: If Ray is missing.
    """
    if actors is not None and actors < 1:
        raise ValueError(f"actors: expected at least 1, got {actors!r}")
    ray = import_ray()
    scorer = Scorer(model, coverage, columns, keep)
    files = data.parquet(_absolute(source))
    scorer.check(files.names)
    place = Path(os.path.abspath(out))
    check_apart(place, *files.paths, *([model] if isinstance(model, (str, PathLike)) else []))
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise ValueError(f"{out}: it is there already; choose another directory, or move it away first")
    part = place.parent / f".{place.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    with _session(ray, address):
        cpus = float(ray.cluster_resources()["CPU"])
        n_actors = actors or max(1, int(cpus))
        each, left = shares(cpus, n_actors)
        blocks = Blocks(files, scorer.needed, min(BLOCK, -(-files.n_rows // (_TURNS * n_actors))))
        numbers = [{"block": number} for number in range(len(blocks))]
        scored = ray.data.from_items(numbers, override_num_blocks=len(numbers)).map_batches(
            BlockScorer,
            fn_constructor_args=[blocks, scorer.estimator, coverage, scorer.columns, scorer.keep],
            batch_size=None,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=n_actors),
            num_cpus=each,
        )
        try:
            scored.write_parquet(str(part), ray_remote_args={"num_cpus": left / 2})
            os.replace(part, place)
        except BaseException as error:
            shutil.rmtree(part, ignore_errors=True)
            raise _cause(error) from None


class Blocks:
    """Rows of files, some columns of them, in blocks of one size whatever the sizes of files and row groups.

    Ray's own reader of Parquet decides for itself how large blocks are, and may leave actors without any.
    """

    def __init__(self, files: data.Files, columns: list[str], size: int) -> None:
        self.files, self.columns = files, columns
        self.places: list[list[tuple[data.Piece, int, int]]] = []
        room = 0
        for piece in files.pieces:
            start = 0
            while start < piece.n_rows:
                if not room:
                    self.places.append([])
                    room = size
                stop = min(piece.n_rows, start + room)
                self.places[-1].append((piece, start, stop))
                room -= stop - start
                start = stop

    def __len__(self) -> int:
        return len(self.places)

    def parts(self, number: int) -> Iterator[tuple[data.Piece, pa.Table]]:
        """Yield the rows of a block, with the row group that they are of."""
        for piece, start, stop in self.places[number]:
            found, first = [], 0
            for batch in self.files.batches(self.columns, [piece]):
                begin, end = max(start - first, 0), min(stop - first, len(batch))
                if begin < end:
                    found.append(batch.slice(begin, end - begin))
                first += len(batch)
                if first >= stop:
                    break
            yield piece, pa.concat_tables(found)


class BlockScorer:
    """Reads blocks and predicts their rows with the settings of a `Scorer`: what an actor of `predict` does."""

    def __init__(self, blocks: Blocks, *settings: Any) -> None:
        self.blocks, self.score = blocks, Scorer(*settings)

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        """Yield the predictions of blocks, given their numbers."""
        for number in batch["block"].to_pylist():
            for piece, rows in self.blocks.parts(number):
                with located(piece.path):
                    yield self.score(rows)


def shares(cpus: float, actors: int) -> tuple[float, float]:
    """Return how many CPUs each actor holds, and how many they leave for others."""
    left = min(max(1.0, cpus / 8), cpus / 2)
    return int(1e4 * (cpus - left) / actors) / 1e4, left  # Ray counts in parts of 10,000


def fit(
    estimator: NatPNEstimator,
    source: Place | Sequence[Place],
    target: str,
    out: Place,
    *,
    workers: int | None = 2,
    address: str | None = None,
) -> Any:
    """Fit a model on Parquet files with several processes, which share the rows, and save it.

    Several processes read the rows in pieces even where all of them fit into memory; a single one reads them at once.

    Args:
        estimator: What to fit; it stays as it is.
        source: Parquet files, as `natpn.data.parquet` takes them.
        target: The column to predict; all others are used.
        out: The directory to save the model in.
        workers: How many processes. None is one for each CPU of the cluster, and one less if it has more than two.
        address: Of the cluster, as `ray.init` takes it. A session of Ray that has begun is used as it is.

    Returns:
        The fitted model, as it was saved.

    Raises:
        ValueError: If an argument is not what is described here, or a file cannot be read.
        ImportError: If Ray is missing.
    """
    import_ray()
    files = data.parquet(_absolute(source))
    FileShare.of(files, target)
    check(out, *files.paths)
    run_together(
        _fit_one, _for_workers(estimator), files, target, os.path.abspath(out), workers=workers, address=address
    )
    return load(out)


def run_together(function: Callable[..., T], *arguments: Any, workers: int | None, address: str | None) -> T:
    """Call a function in several processes that know each other, and return what the first returns.

    Args:
        function: What each process does; `natpn.parallel` says which one it is.
        *arguments: Of the function.
        workers: How many processes, as for `fit`.
        address: Of the cluster, as for `fit`.

    Raises:
        ValueError: If the function raises one, a process dies, or there is no cluster.
        ImportError: If Ray is missing.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers: expected at least 1, got {workers!r}")
    ray = import_ray()
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer
    from ray.util.queue import Queue

    with _session(ray, address), tempfile.TemporaryDirectory() as notes:
        cpus = float(ray.cluster_resources()["CPU"])
        number = workers or max(1, int(cpus) - (cpus > 2))
        said = Queue(actor_options={"num_cpus": 0})
        trainer = TorchTrainer(
            _take_part,
            train_loop_config={"function": function, "arguments": arguments, "said": said},
            torch_config=TorchConfig(backend="gloo"),
            scaling_config=ScalingConfig(
                num_workers=number, resources_per_worker={"CPU": min(1.0, int(1e4 * cpus / number) / 1e4)}
            ),
            run_config=RunConfig(storage_path=notes, name="natpn"),
        )
        try:
            trainer.fit()
            found: T = said.get()
        except ray.train.TrainingFailedError as error:
            raise _cause(error) from None
        finally:
            said.shutdown(force=True)
    return found


def _absolute(source: Place | Sequence[Place]) -> list[str]:
    """Return paths that lead to the same files from every working directory."""
    return list(map(os.path.abspath, [source] if isinstance(source, (str, PathLike)) else source))


def _for_workers(estimator: NatPNEstimator) -> NatPNEstimator:
    """Return a copy that means the same in every process: with a seed, and with a path that is not relative."""
    own: NatPNEstimator = clone(estimator)
    if not isinstance(own.random_state, int):
        own.random_state = int(check_random_state(estimator.random_state).randint(2**31 - 1))
    if own.checkpoint_dir is not None:
        own.checkpoint_dir = os.path.abspath(own.checkpoint_dir)
    return own


def _fit_one(estimator: NatPNEstimator, files: data.Files, target: str, out: str) -> None:
    fitted = estimator.fit(files, target)
    if parallel.rank() == 0:
        fitted.save(out)


def _take_part(settings: dict[str, Any]) -> None:
    """Do the part of one process; Ray has made the processes known to each other."""
    found = settings["function"](*settings["arguments"])
    if parallel.rank() == 0:
        settings["said"].put(found)


def _cause(error: BaseException) -> BaseException:
    """Return the error that a process raised, if it is one that the user can mend, without Ray's words around it."""
    failures = [found for _, found in sorted(getattr(error, "worker_failures", {}).items())]
    causes = [getattr(found, "_base_exc", getattr(found, "cause", found)) for found in failures or [error]]
    for cause in causes:
        if isinstance(cause, (ValueError, TrainingError)):
            return ValueError(str(cause).partition("\n")[0])  # further lines are Ray's
        if isinstance(cause, OSError) and cause.errno:
            return OSError(cause.errno, os.strerror(cause.errno), cause.filename)
    if any(type(cause).__name__ in _DEATHS or "gloo" in str(cause) for cause in causes):  # gloo is what others lost
        return ValueError(
            "workers: one of the processes died, perhaps because memory ran out; use fewer of them, or larger "
            "machines, and start again"
        )
    return error


def import_ray() -> Any:
    """Return the package of Ray, or raise an ImportError with the cure."""
    try:
        import ray.data
        import ray.train.torch
    except ImportError as error:
        raise ImportError(
            f"natpn.ray needs more packages ({error}); in a clone of natpn, run: pip install '.[ray]'"
        ) from error
    return ray


@contextlib.contextmanager
def _session(ray: Any, address: str | None) -> Iterator[None]:
    """Begin a session of Ray, and end it, unless there is one."""
    if ray.is_initialized():
        yield
        return
    host, _, port = (address or "").rpartition(":")
    try:
        if host and port.isdigit():
            socket.create_connection((host, int(port)), _PATIENCE).close()  # Ray would try for minutes
        ray.init(address=address, log_to_driver=False, logging_level=logging.getLogger("ray").level or logging.INFO)
    except (OSError, ValueError, RuntimeError):
        raise ValueError(
            f"address: expected that of a Ray cluster, got {address!r}, where none answers; start one by `ray start "
            "--head`, or take 'local' for one on this machine"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()
