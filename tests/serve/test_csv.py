"""A CSV is taken as `natpn predict` takes a file: other separators, columns that are not needed, names of rows."""

import csv
import io
import json

import pytest

from cli.conftest import rows as flats_of
from cli.conftest import run
from natpn.estimators.loading import load_saved
from natpn.serve import Identity, create_app
from natpn.tabular.texts import Written
from serve.serving import client_of, row

HEADER = ["area", "rooms", "district", "garden", "built"]
CELLS = ["80", "3", "hills", "false", "1980-05-01"]


def post(client, text, query="", status=200):
    body = text if isinstance(text, bytes) else text.encode()
    answer = client.post(f"/predict{query}", content=body, headers={"content-type": "text/csv"})
    assert answer.status_code == status, answer.text
    return answer.json()["rows"] if status == 200 else answer.json()


def table(*lines, separator=","):
    return "\n".join(separator.join(line) for line in lines) + "\n"


@pytest.fixture(scope="module")
def own(regressor):
    """A client of a server that knows its target, and a column that was left out in training."""
    identity = Identity("rent", target="rent")
    with client_of(create_app(regressor, identity=identity, dropped=["remark"])) as client:
        yield client


@pytest.fixture(scope="module")
def right(own):
    return own.post("/predict", json=row()).json()


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators(own, right, separator):
    (found,) = post(own, table(HEADER, CELLS, separator=separator))
    assert found == pytest.approx(right)


def test_target_and_dropped_columns_are_not_looked_at(own, right):
    (found,) = post(own, table(["remark", *HEADER, "rent"], ["no number", *CELLS, ""]))
    assert found == pytest.approx(right)


def test_spaces_around_names_and_lines_before_them(own, right):
    (found,) = post(own, "\n\n" + table([f" {name} " for name in HEADER], CELLS, []))
    assert found == pytest.approx(right)


def test_rows_keep_their_names(own, right):
    text = table(["flat", *HEADER], ["f;1", *CELLS], ["", *CELLS], ["=2+3", *CELLS])
    found = post(own, text, "?id=flat")
    assert [next(iter(answer)) for answer in found] == ["flat"] * 3
    assert [answer.pop("flat") for answer in found] == ["f;1", "", "=2+3"]
    assert found == [pytest.approx(right)] * 3
    # a feature may name them too, and what was left out
    assert post(own, table(HEADER, CELLS), "?id=district")[0]["district"] == "hills"
    assert post(own, table(["remark", *HEADER], ["r", *CELLS]), "?id=remark")[0]["remark"] == "r"


def test_columns_can_be_left_out(own, right):
    text = table(["flat", "x y", *HEADER], ["f1", "2", *CELLS])
    assert post(own, text, "?drop=flat&drop=x%20y")[0] == pytest.approx(right)


@pytest.mark.parametrize(
    ("header", "query", "words"),
    [
        (["flat", *HEADER], "", "Unknown features: 'flat'. Leave it out, or ask /predict?id=flat if it names the rows"),
        (["a b", "c", *HEADER], "", "Leave them out, or ask /predict?id=a%20b if it names the rows, or ?drop=a%20b."),
        (["flat", *HEADER], "?id=falt", "id: the CSV has no column 'falt'. Did you mean 'flat'?"),
        (["flat", *HEADER], "?id=flat&drop=other", "drop: the CSV has no column 'other'"),
        (HEADER, "?drop=area", "drop: the model needs the column 'area'. Leave it in."),
        (["novel", *HEADER], "?id=novel", "id: an answer has a field 'novel' of its own. Rename the column."),
        (["rent", "rent", *HEADER], "", "The column 'rent' is there twice. Leave one out."),
        (["flat", "flat", *HEADER], "?id=flat", "The column 'flat' is there twice. Leave one out."),
        ([*HEADER[1:], "aera"], "", "Unknown features: 'aera'. Did you mean 'area'?"),
    ],
)
def test_what_is_wrong_with_a_header(own, header, query, words):
    cells = [*["1"] * (len(header) - len(CELLS)), *CELLS] if len(header) > len(CELLS) else CELLS
    assert words in post(own, table(header, cells), query, 422)["error"]


def test_json_has_no_columns_to_name(own):
    for query in ("?id=flat", "?drop=flat"):
        answer = own.post(f"/predict{query}", json=row())
        assert answer.status_code == 422
        assert "it names a column of a CSV, and this is JSON" in answer.json()["error"]


def test_text_in_the_encoding_of_the_fit(regressor, right):
    text = table(["straße", *HEADER], ["grün", *CELLS])
    with client_of(create_app(regressor, written=Written(encoding="cp1252"))) as client:
        for encoding in ("utf-8", "utf-8-sig", "cp1252"):
            (found,) = post(client, text.encode(encoding), "?id=stra%C3%9Fe")
            assert found.pop("straße") == "grün"
            assert found == pytest.approx(right)
    with client_of(create_app(regressor)) as client:
        assert "not UTF-8" in post(client, text.encode("cp1252"), "?drop=straße", 400)["error"]


def test_cells_are_counted_with_their_own_separator(regressor):
    with client_of(create_app(regressor, max_rows=3)) as client:
        body = table(HEADER, [";" * 200_000], separator=";")
        assert "cells" in post(client, body, status=413)["error"]


def test_a_file_is_predicted_as_by_the_command(tmp_path, monkeypatch):
    names = ["flat", "area", "district", "lift", "built", "rent"]
    with (tmp_path / "flats.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows([names, *flats_of(60, 0)])
    arguments = ["--target", "rent", "--drop", "flat", "--out", tmp_path / "m", "--max-epochs", 1, "--unit", "€"]
    assert run("fit", tmp_path / "flats.csv", *arguments).exit_code == 0
    result = run("predict", tmp_path / "m", tmp_path / "flats.csv", "--id", "flat")
    expected = list(csv.DictReader(io.StringIO(result.stdout)))
    saved = load_saved(tmp_path / "m")
    app = create_app(
        saved.estimator,
        written=Written.of_table(saved.table),
        identity=Identity.of(saved, tmp_path / "m"),
        dropped=saved.dropped,
    )
    with client_of(app) as client:
        found = post(client, (tmp_path / "flats.csv").read_bytes(), "?id=flat")
        assert client.get("/model").json()["target"] == {"name": "rent", "unit": "€"}
    assert len(found) == len(expected) == 60
    for got, wanted in zip(found, expected, strict=True):
        assert list(got) == [name for name in wanted if name != "reason"]  # only where it is asked for
        assert got["flat"] == wanted["flat"]
        for name in ("prediction", "lower", "upper", "familiarity", "novelty_p"):
            assert got[name] == pytest.approx(float(wanted[name]), rel=1e-6), name
        assert json.dumps(got["novel"]) == wanted["novel"].lower()
