"""`natpn demo`: the whole story on data that scikit-learn brings along."""

import os
from importlib import import_module
from typing import Any

import click

from natpn.cli.fit import train
from natpn.cli.flats import write_tables
from natpn.cli.models import check_place
from natpn.cli.printing import say
from natpn.cli.problems import Problem
from natpn.cli.writing import PAGE, TableWriter, check_out, column_names, replacing, write_text
from natpn.outputs import Kind

UNSEEN = 8  # and 9
PIXELS = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]
DIGITS = Kind("the digits of natpn demo", lambda file: column_names(file) == ["written", *PIXELS])


@click.command(short_help="See the whole story on digits, in a minute.")
@click.option("--out", default="demo", show_default=True, metavar="DIRECTORY", help="Where to write everything.")
@click.option("--max-epochs", type=click.IntRange(1), help="Stop training after so many epochs; fewer are quicker.")
@click.option(
    "--tables", metavar="DIRECTORY", help="Only write small tables to try the other commands on: flats and their rents."
)
def demo(out: str, max_epochs: int | None, tables: str | None) -> None:
    """Fit a model to handwritten digits from 0 to 7, and show that it knows that it does not know 8 and 9.

    Takes less than a minute, and needs no network.

    \b
    Example:
      natpn demo --out demo
      natpn demo --tables .
    """
    if tables is not None:
        write_tables(tables)
        return
    place = {name: os.path.join(out, name) for name in ("model", "new.csv", "report.html")}
    if os.path.exists(out) and not os.path.isdir(out):
        raise Problem(f"{out} is a file; choose another --out.")
    check_place(place["model"])
    if os.path.isdir(out):
        check_out(place["new.csv"], DIGITS)
        check_out(place["report.html"], PAGE)
    from natpn.report.scores import scores

    X, y, X_test, y_test, other, strange = _digits()
    say("Handwritten digits, 8 × 8 pixels, from scikit-learn. The model sees 0 to 7 and never an 8 or a 9.")
    say()
    saved = train(X, y, "digit", (), {"random_state": 0, "max_epochs": max_epochs}, place["model"])
    if saved is None:
        return
    found = scores(saved.model, X_test, y_test, other)
    say()
    say(f"On {len(y_test)} new digits from 0 to 7 it is right in {found['accuracy']:.1f} % of cases,")
    say(f"and calls {found['novel']:.0f} % of them novel: about the 5 % of false alarms that it promises.")
    say(f"It is shown {other.num_rows} digits 8 and 9. It has to say something, but it notices:")
    say(f"{found['ood_novel']:.0f} % of them are flagged as novel. By evidence alone it tells the digits that it knows")
    say(f"from those it does not with {found['ood_evidence_auc_roc']:.0f} of 100 points (ROC curve; 50 is chance).")
    _write_new(place["new.csv"], X_test.slice(0, 20), y_test[:20], other.slice(0, 20), strange[:20])
    say()
    say(f"Predict:  natpn predict {place['model']} {place['new.csv']} --id written")
    render = _render()
    if render is not None:
        write_text(place["report.html"], render(saved.model, X_test, y_test, ood=other), PAGE)
        say(f"Read:     {place['report.html']}")
    say(f"Serve:    natpn serve {place['model']}")


def _digits() -> tuple[Any, ...]:
    """Return training rows and labels, test rows and labels, and rows and labels of the digits that are left out."""
    import pyarrow as pa
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pixels, digits = load_digits(return_X_y=True)

    def table(rows: Any) -> Any:
        return pa.table(list(rows.T.copy()), names=PIXELS)

    seen = digits < UNSEEN
    X, X_test, y, y_test = train_test_split(pixels[seen], digits[seen], test_size=0.25, random_state=0)
    return table(X), y, table(X_test), y_test, table(pixels[~seen]), digits[~seen]


def _write_new(path: str, known: Any, labels: Any, other: Any, others: Any) -> None:
    import pyarrow as pa

    rows = pa.concat_tables([known, other])
    written = pa.array([*labels.tolist(), *others.tolist()])
    with replacing(path, DIGITS) as file:
        writer = TableWriter(file, parquet=False)
        writer.write(rows.add_column(0, "written", written))
        writer.close()


def _render() -> Any:
    """Return the function that writes reports, if it can be imported."""
    try:
        return getattr(import_module("natpn.report"), "render", None)
    except ImportError:
        return None
