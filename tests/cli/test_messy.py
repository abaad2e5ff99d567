"""Files as people have them: each is read right, or what was made of it is said, with the cure."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import natpn
import natpn.serve
from cli.conftest import refused, run
from cli.homes import AREA, DAY, KIND, RENT, N, columns_of, done, fit, kinds, predictions, saved, table
from natpn.cli.advice import giving_away
from natpn.serve import create_app
from natpn.tabular import TableTransform
from serve.serving import client_of


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
    assert ": it is not UTF-8 text; say --encoding cp1252" in refused(fit(tmp_path / "a.csv", tmp_path / "m"))
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


def amounts(form, numbers=AREA):
    """Numbers with a unit, but for one that is plain and one that is missing."""
    return [*(form.format(number) for number in numbers[:-2]), str(numbers[-2]), "n/a"]


@pytest.mark.parametrize(
    ("form", "unit"),
    [("€{}", "€"), ("$ -{}", "$"), ("-${}", "$"), ("{}%", "%"), ("{} £", "£"), ("CHF {}", "CHF"), ("{}USD", "USD")],
)
def test_numbers_with_a_unit_are_numbers(form, unit, tmp_path):
    path = saved(tmp_path / "a.csv", table(area=amounts(form)))
    result = done(fit(path, tmp_path / "m"))
    assert result.stderr == ""
    sign = -1 if "-" in form else 1
    numbers = sorted([*(sign * area for area in AREA[:-2]), AREA[-2]])
    line = f"area number, in {unit} {numbers[0]:g} to {numbers[-1]:g} 1.7 % missing"
    assert " ".join(result.stdout.splitlines()[1].split()) == line
    column = columns_of(tmp_path / "m")["area"]
    assert (column.minimum, column.maximum) == (numbers[0], numbers[-1])
    # the same file, and the same numbers without the unit
    plain = saved(tmp_path / "b.csv", table(area=[*(str(sign * area) for area in AREA[:-2]), str(AREA[-2]), ""]))
    assert predictions(tmp_path / "m", path) == predictions(tmp_path / "m", plain)


def test_targets_may_have_a_unit_which_the_model_remembers(clean, tmp_path):
    path = saved(tmp_path / "a.csv", table(area=[f"{area} %" for area in AREA], rent=[f"€{rent}" for rent in RENT]))
    for options in ([], ["--task", "numbers"]):
        result = done(fit(path, tmp_path / "m", *options))
        assert "target  rent: numbers in €, family" in result.stdout
    scored = done(run("evaluate", tmp_path / "m", path))
    assert scored.stdout == done(run("evaluate", tmp_path / "m", clean[0])).stdout
    # another unit, and one where training had none, are bad cells
    other = saved(tmp_path / "b.csv", table(rent=[f"${rent}" for rent in RENT]))
    cell = f"line 2, column 'rent': '${RENT[0]}' is not a finite number in €, as is needed there; correct it"
    assert cell in refused(run("evaluate", tmp_path / "m", other))
    sentence = refused(run("evaluate", clean[1], path))
    assert f"line 2, column 'area': '{AREA[0]} %' is not a finite number without a unit, as is needed there" in sentence
    result = done(run("predict", clean[1], path, "--bad-cells", "missing"))
    assert f"'area': {N} cells that are not of its kind are counted as missing" in result.stderr


def test_the_server_reads_the_units_of_a_model(tmp_path, monkeypatch):
    done(fit(saved(tmp_path / "a.csv", table(area=[f"€{area}" for area in AREA])), tmp_path / "m"))
    expected = predictions(tmp_path / "m", tmp_path / "a.csv")
    served = []
    monkeypatch.setattr("natpn.serve.server.create_app", lambda model, **options: served.append(options) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        natpn.serve.run(tmp_path / "m")
    row = {"area": f"{AREA[0]} €", "kind": KIND[0], "built": str(DAY[0])}
    body = "\n".join([",".join(row), ",".join(row.values())])
    with client_of(create_app(natpn.load(tmp_path / "m"), written=served[0]["written"])) as client:
        answers = [client.post("/predict", json=row | {"area": area}) for area in (row["area"], AREA[0])]
        answers.append(client.post("/predict", content=body, headers={"content-type": "text/csv"}))
        wrong = client.post("/predict", json=row | {"area": "$50"})
    for answer in answers:
        found = answer.json()
        assert found.get("rows", [found])[0]["prediction"] == pytest.approx(expected[0], rel=1e-6)
    assert wrong.status_code == 422
    assert "expected a finite number, but '$50' is not a finite number in €" in wrong.text


def test_two_units_are_no_numbers(tmp_path):
    price = [f"{'€' if i % 3 else '$'}{rent:,.0f}" for i, rent in enumerate(RENT)]
    path = saved(tmp_path / "a.csv", table(price=price))
    looks = "'price' is read as categories, but looks like numbers in $ and €, as '"
    result = done(fit(path, tmp_path / "m"))
    assert kinds(tmp_path / "m")["price"] == "category"
    assert looks in result.stderr
    assert "'; convert them to one unit and say --thousands ','\n" in result.stderr
    result = done(fit(path, tmp_path / "m", "--thousands", ","))
    assert looks in result.stderr
    assert "'; convert them to one unit\n" in result.stderr
    sentence = refused(fit(path, tmp_path / "m", target="price"))
    assert "--target price: it looks like numbers in $ and €" in sentence
    # one in another unit is a mistake, as any other cell among numbers is
    price = ["$12" if i == 7 else f"{rent:.0f} €" for i, rent in enumerate(RENT)]
    path = saved(tmp_path / "b.csv", table(price=price))
    sentence = refused(fit(path, tmp_path / "m"))
    assert (
        "line 9, column 'price': '$12' is not a finite number in €, but most of the column is; correct it" in sentence
    )
    done(fit(path, tmp_path / "m", "--bad-cells", "missing"))
    assert columns_of(tmp_path / "m")["price"].minimum > 1000


@pytest.mark.parametrize(
    ("form", "number", "options"),
    [
        ("€{}", "1,{:03}", ["--thousands", ","]),
        ("-{} EUR", "{},5", ["--decimal", ","]),
        ("-{} EUR", "12,34,{:03}", ["--thousands", ","]),
    ],
)
@pytest.mark.parametrize("target", ["x", "y"])
def test_a_unit_changes_nothing_of_separators(target, number, options, form, tmp_path):
    numbers = [number.format(37 * i % 97) for i in range(N)]
    cells = {"x": numbers, "kind": KIND, "y": [str(i % 7) for i in range(N)]}
    cells["x"] = [form.replace("€", "").replace(" EUR", "").format(text) for text in numbers]
    plain = saved(tmp_path / "plain.csv", cells)
    cells["x"] = [form.format(text) for text in numbers]
    amount = saved(tmp_path / "amount.csv", cells)
    # what is said without options is the same, but for the cell that it shows
    said = [fit(path, tmp_path / "m", target=target).stderr for path in (plain, amount)]
    assert f"say {options[0]} ','" in said[0]
    assert re.sub("€| EUR", "", said[1].replace(amount, plain)) == said[0]
    # and so is what is read with them
    for path in (plain, amount):
        done(fit(path, f"{path}.model", *options, target=target))
    assert columns_of(f"{plain}.model") == columns_of(f"{amount}.model")
    scored = [done(run("evaluate", f"{path}.model", path)).stdout for path in (plain, amount)]
    assert scored[0] == scored[1]


def test_a_sheet_with_units_in_a_workbook_of_others(clean, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["Homes by area", None, "see the next sheet"])
    sheet = book.create_sheet("homes 2024")
    sheet.append(["area", "kind", "built", "rent"])
    for area, *others, rent in zip(AREA, KIND, DAY, RENT, strict=True):
        sheet.append([area, *others, f"€ {rent:,.2f}"])
    book.save(tmp_path / "a.xlsx")
    options = ["--sheet", "homes 2024", "--thousands", ","]
    result = done(fit(tmp_path / "a.xlsx", tmp_path / "m", *options))
    assert result.stderr == ""
    assert "target  rent: numbers in €, family" in result.stdout
    assert columns_of(tmp_path / "m") == columns_of(clean[1])
    # which sheet is not remembered, how its cells are written is
    result = run("predict", tmp_path / "m", tmp_path / "a.xlsx")
    assert "its first sheet, 'Sheet', is read, and 'homes 2024' is not; --sheet names another\n" in result.stderr
    assert "lacks the columns 'area'" in result.stderr
    scored = done(run("evaluate", tmp_path / "m", tmp_path / "a.xlsx", "--sheet", "homes 2024"))
    assert scored.stdout == done(run("evaluate", tmp_path / "m", clean[0])).stdout


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
    late = [str(int(i % 10 in (1, 4, 8))) for i in range(N)]
    fee = [f"{5 + i % 7 / 2:.2f}" if one == "1" else "0" for i, one in enumerate(late)]
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


def test_names_and_values_stay_in_their_line(tmp_path):
    path = saved(tmp_path / "a.csv", {"a\nb": ["x\x1b[2J\n", "y"] * 20, "y": [str(i + 0.5) for i in range(40)]})
    lines = done(fit(path, tmp_path / "m", target="y")).stdout.splitlines()
    assert lines[1].split() == ["a", "b", "category", "2", "values:", "x", "[2J,", "y"]
    assert lines[2].startswith("target ")


def test_columns_in_advice_can_be_copied_to_a_shell(clean, tmp_path):
    path = saved(tmp_path / "a.csv", {"Area (m²)": [*map(str, AREA[:-1]), "large"], "y": list(map(str, RENT))})
    assert "or say --category 'Area (m²)' if they are names." in refused(fit(path, tmp_path / "m", target="y"))
    path = saved(tmp_path / "b.csv", table(**{"Area (m²)": list(map(str, AREA))}))
    assert "leave out with --drop 'Area (m²)', or" in refused(run("predict", clean[1], path))


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
