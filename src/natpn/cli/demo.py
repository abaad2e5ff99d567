"""`natpn demo`: the whole story on data that scikit-learn brings along, and the tables of the README's walk."""

import csv
import io
import os
from collections.abc import Iterator
from random import Random
from typing import Any

import click

from natpn.cli.fit import train
from natpn.cli.model_files import check_model_place
from natpn.cli.training_rows import TrainingRows
from natpn.cli.writing import (
    PAGE,
    Problem,
    TableWriter,
    check_output,
    columns_and_mark,
    open_output,
    say,
    system_errors,
    write_text,
)
from natpn.outputs import Kind

UNSEEN = 8  # and 9
PIXELS = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]
DIGITS = Kind("the digits of natpn demo", lambda file: columns_and_mark(file)[0] == ["written", *PIXELS])
FLAT = ("flat", "area", "district", "lift", "built", "rent")
DISTRICTS = ("old town", "hills", "station")


@click.command("demo", short_help="See the whole story on digits, in a minute.")
@click.option("--out", default="demo", show_default=True, metavar="DIRECTORY", help="Where to write everything.")
@click.option("--max-epochs", type=click.IntRange(1), help="Stop training after so many epochs; fewer are quicker.")
@click.option(
    "--tables", metavar="DIRECTORY", help="Only write small tables to try the other commands on: flats and their rents."
)
def demo_command(out: str, max_epochs: int | None, tables: str | None) -> None:
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
    check_model_place(place["model"])
    if os.path.isdir(out):
        check_output(place["new.csv"], DIGITS)
        check_output(place["report.html"], PAGE)
    from natpn.report.scores import scores

    X, y, X_test, y_test, other, strange = _digits()
    say("Handwritten digits, 8 × 8 pixels, from scikit-learn. The model sees 0 to 7 and never an 8 or a 9.")
    say()
    rows = TrainingRows(X, y, "digit", is_classes=True)
    saved = train(rows, {"random_state": 0, "max_epochs": max_epochs}, place["model"])
    if saved is None:
        return
    found = scores(saved.estimator, X_test, y_test, other)
    say()
    say(f"On {len(y_test)} new digits from 0 to 7 it is right in {found['accuracy']:.1f} % of cases,")
    say(f"and calls {found['novel']:.0f} % of them novel: about the 5 % of false alarms that it promises.")
    say(f"It is shown {other.num_rows} digits 8 and 9. It has to say something, but it notices:")
    say(f"{found['ood_novel']:.0f} % of them are flagged as novel. By evidence alone it tells the digits that it knows")
    say(f"from those it does not with {found['ood_evidence_auc_roc']:.0f} of 100 points (ROC curve; 50 is chance).")
    _write_new(place["new.csv"], X_test.slice(0, 20), y_test[:20], other.slice(0, 20), strange[:20])
    say()
    say(f"Predict:  natpn predict {place['model']} {place['new.csv']} --id written")
    try:
        from natpn.report import render
    except ImportError:
        pass
    else:
        write_text(place["report.html"], render(saved.estimator, X_test, y_test, ood=other), PAGE)
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

    written = pa.array([*labels.tolist(), *others.tolist()])
    with open_output(path, DIGITS) as file, TableWriter(file, parquet=False) as writer:
        writer.write(pa.concat_tables([known, other]).add_column(0, "written", written))


def write_tables(place: str) -> None:
    """Write flats.csv, test.csv, new.csv and harbour.csv to a directory, and say what each is."""
    random = Random(0)
    flats, test, new = (list(_flats(random, n, DISTRICTS, (30, 150))) for n in (600, 200, 18))
    harbour = list(_flats(random, 202, ("harbour",), (120, 400)))
    new = [row[:-1] for row in new + harbour[200:]]
    tables = {
        "flats.csv": (_csv(flats), "600 flats and their rents, to fit"),
        "test.csv": (_csv(test), "200 more, to see how well that went"),
        "new.csv": (_csv(new), "20 whose rents are not known, the last 2 at the harbour"),
        "harbour.csv": (_csv(harbour[:200]), "200 at the harbour: large, and in a district that no other table has"),
    }
    if os.path.exists(place) and not os.path.isdir(place):
        raise Problem(f"{place} is a file; choose a directory for --tables.")
    with system_errors(place):
        os.makedirs(place, exist_ok=True)
    for name, (text, _) in tables.items():
        check_output(os.path.join(place, name), _exactly(text))
    for name, (text, meaning) in tables.items():
        write_text(os.path.join(place, name), text, _exactly(text))
        say(f"{os.path.join(place, name)}  {meaning}")


def _exactly(text: str) -> Kind:
    """Return the kind of a table that has this very content: anything else may be the only copy of someone's data."""
    return Kind("a table of natpn demo", lambda file: file.read() == text.encode())


def _flats(random: Random, n: int, districts: tuple[str, ...], areas: tuple[float, float]) -> Iterator[list[str]]:
    """Yield flats: 9 a square metre, more in the hills, more with a lift, and noise."""
    for _ in range(n):
        area, district, lift = round(random.uniform(*areas), 1), random.choice(districts), random.random() < 0.4
        rent = 200 + 9 * area + 150 * (district == "hills") + 40 * lift + random.gauss(0, 15)
        built = f"{random.randint(1950, 2020)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
        yield [f"f{random.randrange(10**6):06}", str(area), district, str(lift).lower(), built, f"{rent:.2f}"]


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([FLAT[: len(rows[0])], *rows])
    return text.getvalue()
