"""The tables of the README's walk: flats with their rents, drawn by a fixed seed."""

import csv
import io
import os
from collections.abc import Iterable, Iterator
from random import Random

from natpn.cli.printing import say
from natpn.cli.problems import Problem, of_system
from natpn.cli.writing import check_out, write_text
from natpn.outputs import Kind

COLUMNS = ("flat", "area", "district", "lift", "built", "rent")
DISTRICTS = ("old town", "hills", "station")


def write_tables(place: str) -> None:
    """Write flats.csv, test.csv, new.csv and harbour.csv to a directory, and say what each is.

    Raises:
        Problem: If the directory cannot be written.
        ValueError: If one of them is there with other content.
    """
    random = Random(0)
    flats, test, new = (list(_rows(random, n, DISTRICTS, (30, 150))) for n in (600, 200, 18))
    harbour = list(_rows(random, 202, ("harbour",), (120, 400)))
    tables = {
        "flats.csv": (_csv(flats, COLUMNS), "600 flats and their rents, to fit"),
        "test.csv": (_csv(test, COLUMNS), "200 more, to see how well that went"),
        "new.csv": (_csv(new + harbour[200:], COLUMNS[:-1]), "20 whose rents are not known, the last 2 at the harbour"),
        "harbour.csv": (
            _csv(harbour[:200], COLUMNS),
            "200 at the harbour: large, and in a district that no other table has",
        ),
    }
    if os.path.exists(place) and not os.path.isdir(place):
        raise Problem(f"{place} is a file; choose a directory for --tables.")
    try:
        os.makedirs(place, exist_ok=True)
    except OSError as error:
        raise of_system(error, place) from None
    paths = {name: os.path.join(place, name) for name in tables}
    kinds = {name: _same(text) for name, (text, _) in tables.items()}
    for name, path in paths.items():
        check_out(path, kinds[name])
    for name, (text, meaning) in tables.items():
        write_text(paths[name], text, kinds[name])
        say(f"{paths[name]}  {meaning}")


def _same(text: str) -> Kind:
    """Return the kind of a table that has this very content: anything else may be the only copy of someone's data."""
    return Kind("a table of natpn demo", lambda file: file.read() == text.encode())


def _rows(random: Random, n: int, districts: tuple[str, ...], areas: tuple[float, float]) -> Iterator[list[str]]:
    """Yield flats: 9 a square metre, more in the hills, more with a lift, and noise."""
    for _ in range(n):
        area, district, lift = round(random.uniform(*areas), 1), random.choice(districts), random.random() < 0.4
        rent = 200 + 9 * area + 150 * (district == "hills") + 40 * lift + random.gauss(0, 15)
        built = f"{random.randint(1950, 2020)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
        yield [f"f{random.randrange(10**6):06}", str(area), district, str(lift).lower(), built, f"{rent:.2f}"]


def _csv(rows: Iterable[list[str]], columns: tuple[str, ...]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *(row[: len(columns)] for row in rows)])
    return text.getvalue()
