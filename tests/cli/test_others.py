"""`natpn report`, `serve`, `export` and `demo`, with stand-ins for the modules behind them."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

import natpn.report
from cli.conftest import refused, rows, run, write


@pytest.fixture
def stand_in(monkeypatch):
    def put(name, **functions):
        module = ModuleType(name)
        for key, function in functions.items():
            setattr(module, key, function)
        monkeypatch.setitem(sys.modules, name, module)

    return put


def test_a_report_is_what_the_module_renders(model, new, tmp_path, monkeypatch):
    def render(estimator, X, y, *, ood, **about):
        said.append(about)
        return f"<html>{type(estimator).__name__} {X.num_rows} {len(y)} {ood.num_rows}</html>"

    said = []

    monkeypatch.setitem(vars(natpn.report), "render", render)
    result = run("report", model, new, "--ood", new, "--out", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "r.html").read_text() == "<html>NatPNRegressor 50 50 50</html>"
    assert run("report", model, new, "--ood", new, "--out", "-").stdout.startswith("<html>")
    assert "the disk is full" in refused(run("report", model, new, "--ood", new, "--out", "/dev/full"))
    plain = {"title": None, "name": "model", "target": "rent", "unit": None, "source": "new.csv", "ids": None}
    assert said[0] == plain


def test_a_report_calls_rows_by_their_ids(model, tmp_path, monkeypatch):
    cells = rows(30, 5)
    cells[3][-1] = ""  # without a target, so that it is left out
    path = write(tmp_path / "some.csv", cells)
    said = []
    monkeypatch.setitem(vars(natpn.report), "render", lambda *a, **about: said.append(about) or "<html></html>")
    arguments = ["report", model, path, "--ood", path, "--title", "Rents", "--out", "-"]
    assert run(*arguments, "--id", "flat").exit_code == 0
    assert said[-1]["ids"] == [f"f{i}" for i in range(30) if i != 3]
    assert (said[-1]["title"], said[-1]["ood"].num_rows) == ("Rents", 30)
    result = run(*arguments, "--id", "area")
    assert result.exit_code == 0, result.output  # it is a feature, too
    assert said[-1]["ids"][0] == cells[0][1]
    assert "did you mean 'flat'?" in refused(run(*arguments, "--id", "flt"))


def test_the_server_gets_its_options(model, stand_in, monkeypatch):
    called = []
    stand_in("natpn.serve", run=lambda directory, **options: called.append((directory, options)))
    assert run("serve", model, "--port", 81).exit_code == 0
    monkeypatch.setenv("NATPN_TOKEN", "secret")
    assert run("serve", model, "--host", "0.0.0.0").exit_code == 0
    usual = {"allow_hosts": (), "workers": 1, "access_log": False, "learn": False, "learn_to": None}
    assert called == [
        (model, {"host": "127.0.0.1", "port": 81, "token": None, **usual}),
        (model, {"host": "0.0.0.0", "port": 8000, "token": "secret", **usual}),
    ]


def test_an_export_says_what_it_lacks(model, stand_in, tmp_path):
    def export_onnx(estimator, path):
        Path(path).write_text("weights")
        return ["Conformal intervals are left out."]

    stand_in("natpn.export", export_onnx=export_onnx)
    result = run("export", model, tmp_path / "m.onnx")
    assert result.exit_code == 0, result.output
    assert result.stderr == "note: Conformal intervals are left out.\n"
    assert (tmp_path / "m.onnx").read_text() == "weights"


def test_an_export_that_fails_is_one_sentence(model, stand_in, tmp_path):
    def export_onnx(estimator, path):
        raise OSError(28, "No space left on device")

    stand_in("natpn.export", export_onnx=export_onnx)
    assert "the disk is full" in refused(run("export", model, tmp_path / "m.onnx"))


@pytest.mark.parametrize(
    ("name", "arguments", "extra"),
    [("natpn.serve", ["serve"], "serve"), ("natpn.export", ["export", "never.onnx"], "onnx")],
)
def test_what_is_not_installed_is_named(name, arguments, extra, model, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)  # as if it could not be imported
    command, *options = arguments
    assert f"pip install '.[{extra}]'" in refused(run(command, model, *options))


def test_a_report_without_its_module(model, new, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)  # as if it could not be imported
    monkeypatch.delitem(sys.modules, "natpn.report.page", raising=False)
    sentence = refused(run("report", model, new, "--out", tmp_path / "r.html"))
    assert "pip install '.[report]'" in sentence


@pytest.mark.parametrize("command", ["serve", "export"])
def test_a_directory_that_is_no_model(command, tmp_path, stand_in):
    stand_in("natpn.export", export_onnx=None)
    (tmp_path / "other").mkdir()
    options = [tmp_path / "m.onnx"] if command == "export" else []
    assert "no model there" in refused(run(command, tmp_path / "other", *options))


def test_the_demo_tells_a_story(tmp_path, monkeypatch):
    page = '<meta name="generator" content="natpn 0">'
    monkeypatch.setitem(vars(natpn.report), "render", lambda *a, **k: page)
    out = tmp_path / "demo"
    result = run("demo", "--out", out, "--max-epochs", 1)
    assert result.exit_code == 0, result.output
    assert f"natpn serve {out}/model" in result.stdout
    assert sorted(p.name for p in out.iterdir()) == ["model", "new.csv", "report.html"]
    assert run("predict", out / "model", out / "new.csv", "--id", "written").stdout.count("\n") == 41
    assert run("demo", "--out", out, "--max-epochs", 1).exit_code == 0
    (tmp_path / "file").touch()
    assert "is a file" in refused(run("demo", "--out", tmp_path / "file"))


def test_tables_to_try_replace_nothing_of_anyones(tmp_path):
    for _ in range(2):
        assert run("demo", "--tables", tmp_path / "new").exit_code == 0
    names = {"flats.csv", "test.csv", "new.csv", "harbour.csv"}
    assert {path.name for path in (tmp_path / "new").iterdir()} == names
    (tmp_path / "test.csv").write_text("mine\n")
    assert "it exists and is not a table of natpn demo" in refused(run("demo", "--tables", tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"new", "test.csv"}
    assert "is a file; choose" in refused(run("demo", "--tables", tmp_path / "test.csv"))
