"""`natpn update`: a model and new rows whose targets are known → a model that has learned from them."""

from dataclasses import replace

import click

from natpn.cli.evaluate import located_rows, read_rows
from natpn.cli.model_files import check_model_place, write_model
from natpn.cli.reading import Reading, check_data, drop_option, reading_options
from natpn.cli.target_column import targets_digest
from natpn.cli.writing import Problem, note, say


@click.command("update", short_help="Let a model learn from new rows.")
@click.argument("model")
@click.argument("data")
@click.option("--out", metavar="DIRECTORY", help="Where to write the new model.")
@click.option("--in-place", is_flag=True, help="Replace MODEL by the new model.")
@click.option("--target", metavar="COLUMN", help="The column that was predicted; by default that of the fit.")
@drop_option
@reading_options
def update_command(
    model: str, data: str, out: str | None, in_place: bool, target: str | None, drop: tuple[str, ...], how: Reading
) -> None:
    """Let MODEL learn from DATA, new rows with the target, without a new fit; what it learned before is kept.

    Rows like them become familiar, and are predicted with what they showed. The new model keeps what its networks see
    of up to 2,000 such rows, and can learn from more.

    \b
    Example:
      natpn update rent last_month.csv --out rent_2
      natpn update rent last_month.csv --in-place
    """
    if (out is None) != in_place:
        raise Problem("Say where the new model goes: either --out and a directory, or --in-place.")
    place = model if out is None else out
    check_data(data)
    check_model_place(place, data, *([] if in_place else [model]))
    saved, rows, _ = read_rows(model, data, target, None, drop, how)
    read = saved.digest()
    if targets_digest(rows.y) == saved.fitted:
        note("these are the rows of the fit: they count twice now")
    with located_rows(saved, rows):
        answer = saved.estimator.predict_dist(rows.X)
        saved.estimator.update(rows.X, rows.y)
    if in_place and saved.digest() != read:
        raise Problem(f"{model} was changed while its copy learned; update it again.")
    write_model(replace(saved, path=place))
    memory = saved.estimator.model_.memory
    novel = 100 * answer.novel.mean()
    say(f"learned {len(rows.y):,} rows, {memory.n_rows:,} since the fit; {novel:.1f} % were flagged as novel before")
    say(f"model   {place}")
