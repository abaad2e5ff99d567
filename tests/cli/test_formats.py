"""Files of other formats, packed files, and other encodings: read as plain CSV is, or refused with the cure."""

import gzip
import sys
import zipfile
from pathlib import Path

import pytest

from cli.conftest import refused, run
from cli.homes import AREA, DAY, KIND, RENT, columns_of, done, fit


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
    sentence = "its first sheet, 'Sheet', is read, and 'notes' is not; --sheet names another"
    assert result.stderr == f"note: {tmp_path / 'a.xlsx'}: {sentence}\n"
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


def test_a_sheet_is_read_by_its_name(clean, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    path, model = clean
    book = openpyxl.Workbook()
    book.active.title = "empty"
    for name in ("notes", "Homes"):
        book.create_sheet(name).append(["area", "kind", "built", "rent"])
    for row in zip(AREA, KIND, DAY, RENT, strict=True):
        book["Homes"].append(row)
    book.save(tmp_path / "a.xlsx")
    excel, homes = tmp_path / "a.xlsx", ["--sheet", "Homes"]
    assert done(fit(excel, tmp_path / "m", *homes)).stderr == ""
    assert columns_of(tmp_path / "m") == columns_of(model)
    assert done(run("predict", model, excel, *homes)).output == done(run("predict", model, path)).output
    scored = done(run("evaluate", model, excel, "--ood", excel, *homes)).stdout
    assert scored == done(run("evaluate", model, path, "--ood", path)).stdout.replace(path, str(excel))
    done(run("report", model, excel, *homes, "--out", tmp_path / "report.html"))
    # and what cannot be read
    sentence = f"--sheet homes: {excel} has no such sheet, but 'empty', 'notes', 'Homes'; did you mean 'Homes'?"
    for command in (
        ["fit", excel, "--target", "rent", "--out", tmp_path / "m"],
        ["predict", model, excel],
        ["evaluate", model, excel],
        ["report", model, excel, "--out", tmp_path / "b.html"],
    ):
        assert sentence in refused(run(*command, "--sheet", "homes"))
    assert "no such sheet, but 'empty', 'notes', 'Homes'." in refused(run("predict", model, excel, "--sheet", "x"))
    result = run("predict", model, excel)
    assert "its first sheet, 'empty', is read, and 'notes', 'Homes' are not; --sheet names another" in result.stderr
    assert "has no cells in its sheet 'empty'; expected a header and rows." in result.stderr
    assert "has a header and no rows" in refused(fit(excel, tmp_path / "m", "--sheet", "notes"))
    note = f"note: {path} is not an Excel file, and has no sheets; --sheet Homes means nothing there\n"
    assert done(run("predict", model, path, *homes)).stderr == note


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


def test_without_openpyxl_the_cure_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "")
    sentence = refused(fit(tmp_path / "a.xlsx", tmp_path / "m"))
    assert "openpyxl is not installed; in a clone of natpn, run: pip install '.[excel]'; or save it as CSV" in sentence
    (tmp_path / "a.xls").write_bytes(b"\xd0\xcf\x11\xe0 and more")
    assert "save it as .xlsx or CSV" in refused(fit(tmp_path / "a.xls", tmp_path / "m"))
