"""Commands on a Ray cluster: what its processes cannot do is refused, and the rest goes on to `natpn.ray`."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from natpn.cli.model_files import Request, SavedModel
from natpn.cli.reading import Reading, are_many
from natpn.cli.writing import Problem, is_first_process, note, on_terminal, system_errors
from natpn.tabular.texts import PLAIN

if TYPE_CHECKING:  # it imports pyarrow, which help does not need
    from natpn.data import Files

ray_option = click.option(
    "--ray",
    metavar="ADDRESS",
    help="Use the Ray cluster at host:port, the one that is here (auto), or a new one (local).",
)


def check_cluster(data: Sequence[str], how: Reading) -> list[str]:
    """Return paths that lead to the same Parquet files on all machines, or raise if Ray cannot read them."""
    from natpn.data import CSV, PARQUET
    from natpn.ray import import_ray

    try:
        import_ray()
    except ImportError as error:
        raise Problem(f"--ray: {error}.") from None
    for name in ("ray", "ray.data", "ray.train"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 or not is_first_process():
        raise Problem("--ray: the cluster starts all processes; start the command without torchrun.")
    if how != Reading():
        raise Problem("--ray: options that say how values are written are for one machine; leave them or --ray out.")
    for path in data:
        within = map(str, Path(path).rglob("*")) if os.path.isdir(path) else [path]
        text = next((name for name in within if name.endswith(CSV)), None)
        if text is not None:
            raise Problem(f"--ray: {text} is a CSV file, and a cluster reads Parquet; convert it, or leave --ray out.")
    if not are_many(data) and not data[0].endswith(PARQUET):
        raise Problem(f"--ray: {data[0]} is one table, and a cluster reads Parquet files; leave --ray out.")
    return list(map(os.path.abspath, data))


def predict_on_cluster(
    saved: SavedModel, request: Request, files: "Files", out: str, actors: int | None, address: str
) -> None:
    """Predict the rows of files, in blocks that are dealt to actors, and write the predictions to a new directory."""
    from natpn.ray import import_ray, predict

    if replace(saved.written, units={}) != PLAIN:
        raise Problem(
            f"--ray: {saved.path} reads values as its file wrote them, and a cluster reads plain ones; leave --ray out."
        )
    if not request.identifier:
        note("a cluster writes rows in another order; --id COLUMN keeps a column that tells them apart")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # else it complains that actors get the model by its store
    import_ray().data.DataContext.get_current().enable_progress_bars = on_terminal()
    with system_errors(out):
        predict(
            saved.estimator,
            files.paths,
            out,
            actors=actors,
            coverage=request.coverage,
            columns=request.columns,
            keep=[request.identifier] if request.identifier else [],
            address=address,
        )
