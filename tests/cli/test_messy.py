"""Files as people have them: each is read right, or what was made of it is said, with the cure."""

import datetime
import gzip
import random
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import natpn
import natpn.serve
from cli.conftest import refused, run, write
from natpn.cli.advice import giving_away
from natpn.serve import create_app
from natpn.tabular import TableTransform
from serve.serving import client_of

N = 60
LOT = random.Random(0)
AREA = [round(LOT.uniform(30, 150), 1) for _ in range(N)]
KIND = [LOT.choice(["house", "flat", "loft"]) for _ in range(N)]
DAY = [datetime.date(2020, 1, 1) + datetime.timedelta(days=LOT.randrange(1400)) for _ in range(N)]
RENT = [round(1000 + 9 * area + LOT.gauss(0, 200), 2) for area in AREA]


def table(**columns: list[str]) -> dict[str, list[str]]:
    """A clean table, some of whose columns are replaced or added."""
    clean = {"area": list(map(str, AREA)), "kind": KIND, "built": list(map(str, DAY)), "rent": list(map(str, RENT))}
    return clean | columns


def saved(path: Path, columns: dict[str, list[str]]) -> str:
    return write(path, [list(row) for row in zip(*columns.values(), strict=True)], list(columns))


def fit(path, out, *options, target="rent"):
    return run("fit", path, "--target", target, "--out", out, "--max-epochs", 1, *options)


def done(result):
    assert result.exit_code == 0, result.output
    return result


def columns_of(out):
    return {column.name: column for column in natpn.load(out).inputs_.table.columns}


def kinds(out):
    return {name: column.kind for name, column in columns_of(out).items()}


def predictions(model, path, *options):
    lines = done(run("predict", model, path, *options)).stdout.splitlines()[1:]
    return [float(line.split(",")[0]) for line in lines]


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    place = tmp_path_factory.mktemp("clean")
    path = saved(place / "a.csv", table())
    result = done(fit(path, place / "m"))
    assert result.stderr == ""
    assert kinds(place / "m") == {"area": "number", "kind": "category", "built": "date"}
    return path, str(place / "m")


def european(number: float) -> str:
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


def test_a_german_file_is_read_by_its_options_and_remembered(clean, tmp_path, monkeypatch):
    cells = table(
        area=[str(area).replace(".", ",") for area in AREA],
        kind=["häuschen" if kind == "house" else kind for kind in KIND],
        built=[f"{day:%d.%m.%Y}" for day in DAY],
        rent=list(map(european, RENT)),
    )
    lines = [";".join(row) for row in [list(cells), *zip(*cells.values(), strict=True)]]
    (tmp_path / "a.csv").write_bytes("\r\n".join(lines).encode("cp1252"))
    assert "line 1: it is not UTF-8" not in refused(fit(tmp_path / "a.csv", tmp_path / "m"))
    options = ["--encoding", "cp1252"]
    sentence = refused(fit(tmp_path / "a.csv", tmp_path / "m", *options))
    assert "has a decimal comma; write " in sentence
    assert ", say --decimal ','," in sentence
    options += ["--decimal", ","]
    sentence = refused(fit(tmp_path / "a.csv", tmp_path / "m", *options))
    assert "column 'rent'" in sentence
    assert "say --decimal ',' --thousands '.'" in sentence
    options += ["--thousands", ".", "--dates", "day-first"]
    assert done(fit(tmp_path / "a.csv", tmp_path / "m", *options)).stderr == ""
    assert kinds(tmp_path / "m") == kinds(clean[1])
    column = columns_of(tmp_path / "m")["kind"]
    assert "häuschen" in column.levels
    # the same rows, read as plain ones were, with no option; and in plain form by options that say so
    found = predictions(tmp_path / "m", tmp_path / "a.csv")
    assert len(set(found)) > N / 2
    saved(tmp_path / "plain.csv", table(kind=cells["kind"]))
    plain = ["--encoding", "utf-8", "--decimal", ".", "--thousands", ""]
    assert predictions(tmp_path / "m", tmp_path / "plain.csv", *plain) == pytest.approx(found)
    assert done(run("evaluate", tmp_path / "m", tmp_path / "a.csv")).stdout.startswith("60 rows\n")
    # the server reads CSV in the same way
    served = []
    monkeypatch.setattr(
        "natpn.serve.server.create_app", lambda model, **options: served.append((model, options)) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        natpn.serve.run(tmp_path / "m")
    ((model, options),) = served
    rows = [["area", "kind", "built"], *zip(cells["area"], cells["kind"], cells["built"], strict=True)]
    body = "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows).encode()
    with client_of(create_app(model, written=options["written"])) as client:
        answer = client.post("/predict", content=body, headers={"content-type": "text/csv"})
    assert [row["prediction"] for row in answer.json()["rows"]] == pytest.approx(found, rel=1e-6)
    assert "column 'area'" in refused(
        run("evaluate", tmp_path / "m", tmp_path / "a.csv", "--decimal", ".", "--thousands", "")
    )


def test_units_are_told_to_be_taken_away(tmp_path):
    cells = table(price=[f"€{rent:,.0f}" for rent in RENT], share=[f"{i % 90 + 1}%" for i in range(N)])
    result = done(fit(saved(tmp_path / "a.csv", cells), tmp_path / "m"))
    assert kinds(tmp_path / "m")["price"] == "category"
    assert "'price' is read as categories, but looks like numbers, as '€" in result.stderr
    assert "write them without € and say --thousands ','" in result.stderr
    assert "'share' is read as categories, but looks like numbers" in result.stderr
    assert "write them without %" in result.stderr
    cells = table(rent=[f"€{rent:,.0f}" for rent in RENT])
    assert "--target rent: it looks like numbers, as '€" in refused(
        fit(saved(tmp_path / "b.csv", cells), tmp_path / "m")
    )


@pytest.mark.parametrize(
    ("form", "said", "option"),
    [
        ("%d.%m.%Y", "say --dates day-first\n", "day-first"),
        ("%m/%d/%Y", "say --dates month-first\n", "month-first"),
        ("%Y/%m/%d", "say --dates '%Y/%m/%d'\n", "%Y/%m/%d"),
        ("%d %b %Y", "say --dates '%d %b %Y'\n", "%d %b %Y"),
    ],
)
def test_dates_in_another_form(form, said, option, clean, tmp_path):
    path = saved(tmp_path / "a.csv", table(built=[day.strftime(form) for day in DAY]))
    result = done(fit(path, tmp_path / "m"))
    assert "'built' is read as categories, but looks like dates, as" in result.stderr
    assert result.stderr.endswith(said)
    assert done(fit(path, tmp_path / "m", "--dates", option)).stderr == ""
    assert columns_of(tmp_path / "m")["built"] == columns_of(clean[1])["built"]


def test_days_that_may_be_months_are_asked_about(tmp_path):
    cells = table(built=[f"{i % 12 + 1}/{i % 11 + 1}/2023" for i in range(N)])
    result = done(fit(saved(tmp_path / "a.csv", cells), tmp_path / "m"))
    assert "say --dates day-first or --dates month-first, whichever it is" in result.stderr


def test_thousands_are_never_decimals(tmp_path):
    path = saved(tmp_path / "a.csv", table(area=[f"{9171 + i:,}" for i in range(N)]))
    sentence = refused(fit(path, tmp_path / "m"))
    assert "'9,171' has a separator, perhaps of thousands" in sentence
    assert "say --thousands ','" in sentence
    assert "9.171" not in sentence
    assert "--decimal" not in sentence
    done(fit(path, tmp_path / "m", "--thousands", ","))
    column = columns_of(tmp_path / "m")["area"]
    assert (column.minimum, column.maximum) == (9171, 9230)


def test_signs_and_numbers_for_missing_values(tmp_path):
    kind = ["?" if i % 6 == 0 else kind for i, kind in enumerate(KIND)]
    area = ["?" if i % 5 == 0 else "-999.0" if i % 5 == 1 else str(a) for i, a in enumerate(AREA)]
    path = saved(tmp_path / "a.csv", table(kind=kind, area=area))
    assert "'?' is not a finite number, but most of the column is; correct it, leave it empty, say --na '?'" in refused(
        fit(path, tmp_path / "m")
    )
    result = done(fit(path, tmp_path / "m", "--na", "-999", "--bad-cells", "missing"))
    assert (
        "'kind' is '?' in 10 rows, which is taken for a category; if nothing is known there, say --na '?'"
        in result.stderr
    )
    result = done(fit(path, tmp_path / "m", "--na", "?", "--na", "-999"))
    assert result.stderr == ""
    assert [" ".join(line.split()) for line in result.stdout.splitlines()[1:3]] == [
        f"area number {min(map(float, (a for a in area if a[0] not in '?-')))} to "
        f"{max(map(float, (a for a in area if a[0] not in '?-')))} 40 % missing",
        "kind category 3 values: house, loft, flat 17 % missing",
    ]
    # in Parquet, whose numbers are numbers, -999 is missing too
    rows = {"area": [None, 80.0], "kind": ["flat", None], "built": [DAY[0], DAY[1]]}
    pyarrow.parquet.write_table(pa.table(rows), tmp_path / "a.parquet")
    pyarrow.parquet.write_table(
        pa.table(rows | {"area": [-999.0, 80.0], "kind": ["flat", "?"]}), tmp_path / "b.parquet"
    )
    found = [predictions(tmp_path / "m", tmp_path / name) for name in ("a.parquet", "b.parquet")]
    assert found[0] == found[1]


def test_ids_constants_and_columns_that_know_too_much(tmp_path):
    cells = table(
        flat=[f"f{i}" for i in range(N)],
        number=list(map(str, range(1, N + 1))),
        customer_id=[str(7 * i * i + 100) for i in range(N)][::-1],
        people=[str(1000 + 7 * i * i) for i in range(N)][::-1],
        country=["DE"] * N,
        tax=[str(0.19 * rent) for rent in RENT],
    )
    result = done(fit(saved(tmp_path / "a.csv", cells), tmp_path / "m"))
    assert result.stderr.splitlines() == [
        "note: 'flat', 'number', 'customer_id' differ in every row, as an id does, and cannot help; leave them out "
        "with --drop",
        "note: 'country' is the same in all rows, and cannot help; say --drop country",
        "note: 'tax' almost gives 'rent' away; if not known before 'rent' is, say --drop tax",
    ]


def test_classes_that_are_given_away_and_zeros_and_ones(tmp_path):
    late = [str(int(LOT.random() < 0.3)) for _ in range(N)]
    fee = [f"{LOT.uniform(5, 9):.2f}" if one == "1" else "0" for one in late]
    letter = ["sent" if one == "1" else "none" for one in late]
    path = saved(tmp_path / "a.csv", table(late=late, fee=fee, letter=letter))
    result = done(fit(path, tmp_path / "m", target="late"))
    assert (
        "'late' is 0 or 1, and is predicted as a number; if they stand for no and yes, say --task classes"
        in result.stderr
    )
    result = done(fit(path, tmp_path / "m", "--task", "classes", target="late"))
    assert result.stderr == (
        "note: 'fee', 'letter' almost give 'late' away; if not known before 'late' is, leave them out with --drop\n"
    )


def test_rare_classes_neither_hide_what_is_given_away_nor_make_it_up():
    codes = np.arange(400) % 2
    labels = np.array(["no", "yes"])[codes]
    X = pa.table({"code": codes + 0.5, "noise": np.random.default_rng(0).normal(size=400)})
    columns = TableTransform().fit(X).columns
    labels[0] = "perhaps"
    assert giving_away(X, labels, columns, set()) == ["code"]
    rare = np.array(["no"] * 398 + ["yes", "perhaps"])
    assert giving_away(X, rare, columns, set()) == []


@pytest.mark.parametrize("form", ["tsv", "gz", "zip", "gz in UTF-16", "standard input"])
def test_packed_files_are_read_as_plain_ones(form, clean, tmp_path):
    path, model = clean
    content = Path(path).read_bytes()
    options = []
    if form == "tsv":
        packed = tmp_path / "a.tsv"
        packed.write_bytes(content.replace(b",", b"\t"))
    elif form == "zip":
        packed = tmp_path / "a.csv.zip"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("data/", "")
            archive.writestr("data/a.csv", content)
            archive.writestr("__MACOSX/data/._a.csv", b"\0\5")
    else:
        packed = tmp_path / "a.csv.gz"
        options = ["--encoding", "utf-16"] if "UTF-16" in form else []
        packed.write_bytes(gzip.compress(content.decode().encode("utf-16") if options else content))
    stdin = packed.read_bytes() if form == "standard input" else None
    name = "-" if stdin else packed
    plain, other = (run("predict", model, n, *o, stdin=s) for n, o, s in ((path, (), None), (name, options, stdin)))
    assert done(other).stdout == done(plain).stdout
    assert done(run("evaluate", model, packed, *options)).stdout == done(run("evaluate", model, path)).stdout
    if form == "zip":
        done(fit(packed, tmp_path / "m", *options))
        assert columns_of(tmp_path / "m") == columns_of(model)


def test_packed_files_that_cannot_be_read(clean, tmp_path):
    content = Path(clean[0]).read_bytes()
    cut = gzip.compress(content)
    (tmp_path / "cut.csv.gz").write_bytes(cut[: len(cut) // 2])
    assert "is a gzip file that was cut short or damaged" in refused(run("predict", clean[1], tmp_path / "cut.csv.gz"))
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", content)
        archive.writestr("b.csv", content)
    assert "holds 2 files, 'a.csv', 'b.csv'; expected one" in refused(run("predict", clean[1], tmp_path / "two.zip"))
    (tmp_path / "cut.zip").write_bytes((tmp_path / "two.zip").read_bytes()[:90])
    assert "is a zip file that was cut short" in refused(run("predict", clean[1], tmp_path / "cut.zip"))
    broken = content.replace(KIND[40].encode(), b"\xe9", 1)
    (tmp_path / "bad.csv.gz").write_bytes(gzip.compress(broken))
    line = broken[: broken.index(b"\xe9")].count(b"\n") + 1
    sentence = refused(run("predict", clean[1], tmp_path / "bad.csv.gz"))
    assert f"line {line}: it is not UTF-8 text; say --encoding cp1252" in sentence
    assert "is not text in ascii; say another --encoding" in refused(
        run("predict", clean[1], tmp_path / "bad.csv.gz", "--encoding", "ascii")
    )


def test_an_excel_file_is_read_as_csv_is(clean, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    path, model = clean
    book = openpyxl.Workbook()
    book.active.append(["area", "kind", "built", "rent", None])
    for place, row in enumerate(zip(AREA, KIND, DAY, RENT, strict=True)):
        book.active.append(row)
        if place == 10:
            book.active.append([None] * 4)
    book.create_sheet("notes").append(["by", "hand"])
    book.save(tmp_path / "a.xlsx")
    result = done(fit(tmp_path / "a.xlsx", tmp_path / "m"))
    assert "has 2 sheets; the first, 'Sheet', is read" in result.stderr
    assert columns_of(tmp_path / "m") == columns_of(model)
    plain, excel = (done(run("predict", model, name)).stdout for name in (path, tmp_path / "a.xlsx"))
    assert plain == excel
    # numbers of a file whose decimal sign is a comma are numbers still
    done(fit(tmp_path / "a.xlsx", tmp_path / "m", "--decimal", ",", "--thousands", ".", "--dates", "%Y-%d-%m"))
    assert columns_of(tmp_path / "m") == columns_of(model)
    del book["notes"]
    book.active["A20"] = "large"
    book.save(tmp_path / "b.xlsx")
    assert "row 20, column 'area': 'large' is not a finite number" in refused(fit(tmp_path / "b.xlsx", tmp_path / "m2"))


def test_an_excel_file_that_is_damaged(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [["x", "y"], *([i % 7, i + 0.5] for i in range(200))]:
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    for part, name in ((b"<row", "rows.xlsx"), (b"<workbook", "book.xlsx")):
        with zipfile.ZipFile(tmp_path / "a.xlsx") as old, zipfile.ZipFile(tmp_path / name, "w") as new:
            for one in old.namelist():
                content = old.read(one)
                place = content.rfind(part)
                new.writestr(one, content if place < 0 else content[: place + 9])
        assert "is an Excel file that cannot be read" in refused(fit(tmp_path / name, tmp_path / "m", target="y"))


def test_names_and_values_stay_in_their_line(tmp_path):
    path = saved(tmp_path / "a.csv", {"a\nb": ["x\x1b[2J\n", "y"] * 20, "y": [str(i + 0.5) for i in range(40)]})
    lines = done(fit(path, tmp_path / "m", target="y")).stdout.splitlines()
    assert lines[1].split() == ["a", "b", "category", "2", "values:", "x", "[2J,", "y"]
    assert lines[2].startswith("target ")


def test_without_openpyxl_the_cure_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "")
    sentence = refused(fit(tmp_path / "a.xlsx", tmp_path / "m"))
    assert "openpyxl is not installed; in a clone of natpn, run: pip install '.[excel]'; or save it as CSV" in sentence
    (tmp_path / "a.xls").write_bytes(b"\xd0\xcf\x11\xe0 and more")
    assert "save it as .xlsx or CSV" in refused(fit(tmp_path / "a.xls", tmp_path / "m"))


def test_wide_tables_are_summed_up(tmp_path):
    numbers = np.random.default_rng(0).normal(size=(N, 98)).round(3).astype(str)
    cells = table(**{f"n{i}": column.tolist() for i, column in enumerate(numbers.T)}, last=KIND)
    result = done(fit(saved(tmp_path / "a.csv", cells), tmp_path / "m"))
    lines = result.stdout.splitlines()
    assert lines[31] == "  and 72 more: 71 numbers, 1 category"
    assert lines[32].startswith("target  rent")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--decimal", ";"], "--decimal: expected . or , but got ';'"),
        (["--thousands", "."], "--thousands: . is the decimal sign as well"),
        (["--thousands", "abc"], "--thousands: expected one sign"),
        (["--encoding", "latin99"], "--encoding: there is no 'latin99'"),
        (["--dates", "german"], "--dates: expected day-first or month-first, or a format"),
    ],
)
def test_options_that_make_no_sense(options, sentence, clean, tmp_path):
    assert sentence in refused(fit(clean[0], tmp_path / "m", *options))
    assert sentence in refused(run("predict", clean[1], clean[0], *options))
