"""What natpn did not write stays, byte for byte, whatever `--out` and `save` are given; and so does what is read."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pandas as pd
import pytest

import natpn
import natpn.report
from cli.conftest import ENVIRONMENT, refused, rows, run, write
from estimators.problems import numbers
from natpn_paper.experiments import EXPERIMENTS
from paper.experiments.small import SMALL

FIXTURE = Path(__file__).parents[1] / "estimators" / "data" / "schema_1" / "model"
PAGE = '<html><meta name="generator" content="natpn 0">{}</html>'


def contents(place):
    """Return everything under a directory, by path; of links where they lead."""
    return {
        str(path.relative_to(place)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in Path(place).rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def fit(data, out):
    return run("fit", data, "--target", "rent", "--drop", "flat", "--max-epochs", 1, "--out", out)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A directory with a table, and a model of it."""
    place = tmp_path_factory.mktemp("made")
    write(place / "data.csv", rows(60, 0))
    result = fit(place / "data.csv", place / "model")
    assert result.exit_code == 0, result.output
    return place


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A copy of it, as the working directory; the home directory is beside it."""
    shutil.copytree(made, tmp_path / "work")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def no_work(monkeypatch):
    """Let every command fail that begins to read before it looks where it writes."""

    def read(*_):
        raise AssertionError("it began to read")

    for name in (
        "training_rows.opened",
        "model_files.read_model",
        "evaluate.read_model",
        "monitor.read_model",
        "commands.read_model",
    ):
        monkeypatch.setattr(f"natpn.cli.{name}", read)


def other_model(place):
    """Write what other programs call a model."""
    place.mkdir()
    (place / "config.json").write_text('{"model_type": "bert", "schema": 1, "natpn": "0.1.0"}')
    (place / "model.safetensors").write_bytes(b"weights")
    (place / "tokenizer.json").write_text("{}")


def our_config_alone(place):
    shutil.copytree(FIXTURE, place)
    (place / "model.safetensors").write_bytes(b"weights of another program")


def edited_config(place):
    shutil.copytree(FIXTURE, place)
    text = (place / "config.json").read_text()
    (place / "config.json").write_text(text.replace('"schema": 1', '"remark": "mine", "schema": 1'))


def tensors_alone(place):
    place.mkdir()
    shutil.copy(FIXTURE / "model.safetensors", place)


def notes_alone(place):
    place.mkdir()
    (place / "notes.txt").write_text("mine")


def a_file(place):
    place.write_text("mine")


@pytest.mark.parametrize(
    "prepare",
    [other_model, our_config_alone, edited_config, tensors_alone, notes_alone, a_file],
    ids=lambda f: f.__name__,
)
def test_a_directory_that_is_no_model_of_ours_stays(prepare, here, no_work):
    prepare(here / "theirs")
    before = contents(here)
    assert "exists and is not a model" in refused(fit("data.csv", "theirs"))
    with pytest.raises(ValueError, match=r"exists and is not a model.*choose another directory"):
        natpn.load(FIXTURE).save(here / "theirs")
    assert contents(here) == before


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        (".", "the working directory"),
        ("../work", "the working directory"),
        ("..", "the working directory"),
        ("/", "the working directory"),
        ("link", "the working directory"),
        ("../home", "the home directory"),
        ("data", "it holds data/data.csv"),
        ("data/data.csv", "same file"),
        ("hard.csv", "same file"),
    ],
)
def test_a_fit_is_not_written_over_what_it_reads_or_stands_in(out, sentence, here, no_work):
    os.symlink(".", "link")
    os.mkdir("data")
    shutil.move("data.csv", "data")
    os.link("data/data.csv", "hard.csv")
    shutil.copy(FIXTURE / "config.json", "data")
    before = contents(here.parent)
    assert sentence in refused(fit("data/data.csv", out))
    assert contents(here.parent) == before


def test_save_is_not_written_over_the_working_directory(here):
    empty = here / "empty"
    empty.mkdir()
    os.chdir(empty)
    with pytest.raises(ValueError, match=r"it is or holds the working directory; name a directory of its own"):
        natpn.load(FIXTURE).save(".")
    assert not list(empty.iterdir())


def test_what_lies_beside_a_model_stays(here):
    (here / "model" / "notes.txt").write_text("mine")
    (here / "model" / "data").mkdir()
    (here / "model" / "data" / "config.json").write_text("mine")
    (here / ".model.old").mkdir()
    (here / ".model.old" / "thesis.txt").write_text("mine")
    before = contents(here)
    assert fit("data.csv", "model").exit_code == 0
    natpn.load("model").save("model")
    after = contents(here)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed <= {"model/README.md", "model/config.json", "model/model.safetensors"}


@pytest.mark.parametrize("link", ["the directory", "a file", "both files"])
def test_links_are_followed_and_stay(link, here):
    other = here.parent / "elsewhere"
    if link == "the directory":
        shutil.move("model", other)
        os.symlink(other, "model")
    else:
        other.mkdir()
        for name in ["model.safetensors", "config.json"][: 1 + (link == "both files")]:
            shutil.move(f"model/{name}", other)
            os.symlink(other / name, f"model/{name}")
    before = contents(here)
    model = natpn.load(FIXTURE)
    model.save("model")
    after = contents(here)
    assert {name: at for name, at in before.items() if isinstance(at, str)} == {
        name: at for name, at in after.items() if isinstance(at, str)
    }
    assert natpn.load("model").n_rows_ == model.n_rows_
    assert not [path for path in other.iterdir() if path.name.startswith(".")]


def test_a_model_of_the_command_line_is_replaced_by_save_and_back(here):
    model = natpn.load(FIXTURE)
    model.save("model")
    assert natpn.load("model").n_rows_ == model.n_rows_
    assert fit("data.csv", "model").exit_code == 0
    assert sorted(os.listdir("model")) == ["README.md", "config.json", "model.safetensors"]
    assert run("evaluate", "model", "data.csv").exit_code == 0  # it knows its target


def test_a_model_of_an_earlier_version_is_read_with_its_table_and_replaced(here):
    """Version 0.1.0 had the name of the target in a file of its own."""
    from natpn.model.files import checksum

    config = json.loads(Path("model/config.json").read_text())
    table = {key: value for key, value in config.pop("table").items() if key in ("target", "dropped")}
    del config["sha256"]
    Path("model/config.json").write_text(json.dumps(config | {"sha256": checksum(config)}))
    Path("model/table.json").write_text(json.dumps(table, indent=1))
    assert run("evaluate", "model", "data.csv").exit_code == 0
    natpn.load("model").save("model")
    assert sorted(os.listdir("model")) == ["README.md", "config.json", "model.safetensors"]
    Path("model/table.json").write_text('{"columns": 3}')
    natpn.load("model").save("model")
    assert Path("model/table.json").read_text() == '{"columns": 3}'


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("data.csv", "same file or directory as data.csv"),
        ("./link.csv", "same file or directory as data.csv"),
        ("hard.csv", "same file or directory as data.csv"),
        ("model/config.json", "it lies in model"),
        ("model/model.safetensors", "it lies in model"),
        ("model/new.csv", "it lies in model"),
        ("to_model/new.csv", "it lies in model"),
        ("theirs.csv", "it exists and is not"),
        ("absent/new.csv", "no such file or directory"),
    ],
)
def test_files_are_not_written_over_what_is_read_or_what_is_a_users(out, sentence, here, no_work, monkeypatch):
    os.symlink("data.csv", "link.csv")
    os.link("data.csv", "hard.csv")
    os.symlink("model", "to_model")
    Path("theirs.csv").write_text("flat,prediction,mine\n1,2,3\n")
    before = contents(here)
    assert sentence in refused(run("predict", "model", "data.csv", "--out", out))
    assert sentence in refused(run("report", "model", "data.csv", "--out", out))
    if "data.csv" in sentence:
        assert "same file" in refused(run("report", "model", "theirs.csv", "--ood", "data.csv", "--out", out))
    assert contents(here) == before


def test_an_export_is_not_written_into_its_model(here, no_work):
    before = contents(here)
    for name in ("model/model.safetensors", "model/new.onnx"):
        assert "it lies in model" in refused(run("export", "model", name))
    assert contents(here) == before


def test_a_table_on_standard_input_is_not_replaced(here):
    code = "import sys; from natpn.outputs import check_apart; check_apart(sys.argv[1], '/dev/stdin')"
    for name, good in (("data.csv", False), ("other.csv", True)):
        with open("data.csv") as file:
            command = [sys.executable, "-c", code, name]
            done = subprocess.run(command, env=ENVIRONMENT, stdin=file, capture_output=True, text=True)
        assert ("same file" in done.stderr) != good
        assert (done.returncode == 0) == good


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_predictions_replace_predictions_and_nothing_else(name, here):
    assert run("predict", "model", "data.csv", "--id", "flat", "--out", name).exit_code == 0
    first = Path(name).read_bytes()
    assert run("predict", "model", "data.csv", "--out", name).exit_code == 0
    frame = pd.read_csv(name) if name == "out.csv" else pd.read_parquet(name)
    assert frame.columns[0] == "prediction"
    assert Path(name).read_bytes() != first
    frame["checked_by"] = "me"
    frame.to_csv(name, index=False) if name == "out.csv" else frame.to_parquet(name)
    mine = Path(name).read_bytes()
    assert "not a file of predictions" in refused(run("predict", "model", "data.csv", "--out", name))
    assert Path(name).read_bytes() == mine
    Path(name).write_bytes(b"")
    assert run("predict", "model", "data.csv", "--out", name).exit_code == 0


def test_predictions_of_classes_are_known_too(here):
    options = ["--target", "district", "--drop", "flat", "--max-epochs", 1, "--out", "classes"]
    assert run("fit", "data.csv", *options).exit_code == 0
    for _ in range(2):
        assert run("predict", "classes", "data.csv", "--out", "out.csv").exit_code == 0


def test_a_page_replaces_a_page_and_nothing_else(here, monkeypatch):
    monkeypatch.setattr(natpn.report, "render", lambda *a, **k: PAGE.format("new"), raising=False)
    Path("r.html").write_text(PAGE.format("old"))
    assert run("report", "model", "data.csv", "--out", "r.html").exit_code == 0
    assert "new" in Path("r.html").read_text()
    Path("r.html").write_text("<html>mine</html>")
    assert "not a page that natpn wrote" in refused(run("report", "model", "data.csv", "--out", "r.html"))
    assert Path("r.html").read_text() == "<html>mine</html>"


def test_pipes_and_devices_are_written_as_they_come(here):
    expected = run("predict", "model", "data.csv").stdout_bytes
    assert run("predict", "model", "data.csv", "--out", "/dev/null").exit_code == 0
    assert not Path("/dev/null").is_file()
    os.mkfifo("pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append(Path("pipe").read_bytes()), daemon=True)
    reader.start()
    assert run("predict", "model", "data.csv", "--out", "pipe").exit_code == 0
    reader.join(10)
    assert found == [expected]
    assert Path("pipe").is_fifo()


def test_permissions_stay(here):
    assert run("predict", "model", "data.csv", "--out", "out.csv").exit_code == 0
    os.chmod("out.csv", 0o640)
    before = os.stat("out.csv")
    assert run("predict", "model", "data.csv", "--out", "out.csv").exit_code == 0
    assert os.stat("out.csv").st_mode == before.st_mode
    assert os.stat("out.csv").st_ino != before.st_ino
    for name in ("README.md", "config.json", "model.safetensors"):
        os.chmod(f"model/{name}", 0o600)
    natpn.load(FIXTURE).save("model")
    assert [oct(path.stat().st_mode & 0o777) for path in Path("model").iterdir()] == ["0o600"] * 3


def test_a_file_that_appears_meanwhile_stays(tmp_path):
    from natpn.outputs import Kind, replacing

    def write_slowly():
        with replacing(tmp_path / "out", Kind("ours", lambda file: False)) as file:
            file.write(b"ours")
            (tmp_path / "out").write_text("mine")

    with pytest.raises(ValueError, match="out: it exists and is not ours; choose another name, or move it away"):
        write_slowly()
    assert contents(tmp_path) == {"out": b"mine"}


@pytest.mark.parametrize("name", ["new.csv", "report.html", "model/config.json"])
def test_the_demo_stops_at_a_users_file(name, tmp_path, monkeypatch):
    monkeypatch.setattr("natpn.cli.demo.train", None)
    place = tmp_path / "demo" / name
    place.parent.mkdir(parents=True)
    place.write_text("mine")
    assert "not" in refused(run("demo", "--out", tmp_path / "demo"))
    assert contents(tmp_path) == {f"demo/{name}": b"mine"}


@pytest.fixture
def small(here, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "small", SMALL)
    monkeypatch.delenv("SMALL_BAD", raising=False)
    return here


@pytest.mark.parametrize("content", ["mine", "mine\n", '{"mine": 1}', "experiment,score\nsmall,1", "\xff\xfe"])
@pytest.mark.parametrize("option", ["--resume", "--no-resume"])
def test_runs_are_not_added_to_a_file_that_holds_something_else(content, option, small):
    Path("mine.jsonl").write_text(content)
    before = contents(small)
    sentence = refused(run("reproduce", "small", "--seeds", 1, "--results", "mine.jsonl", option))
    assert "mine.jsonl, line 1: expected a result of natpn reproduce" in sentence
    assert contents(small) == before


def test_a_line_that_was_cut_off_is_cut_away(small):
    arguments = ["reproduce", "small", "--seeds", 1, "--models", "NatPN", "--results", "r.jsonl"]
    assert run(*arguments).exit_code == 0
    whole = Path("r.jsonl").read_bytes()
    for length in (1, 10, 100):
        Path("r.jsonl").write_bytes(whole + whole[:length])
        assert run(*arguments, "--models", "Dropout").exit_code == 0
        assert Path("r.jsonl").read_bytes().startswith(whole + b'{"experiment"')


@pytest.mark.parametrize("name", ["results.md", "results.html", "figures/toy-uncertainty.svg"])
def test_tables_and_figures_of_a_user_stay(name, small, monkeypatch):
    monkeypatch.setattr("natpn_paper.experiments.run_all", None)
    place = small / "out" / name
    place.parent.mkdir(parents=True)
    place.write_text("<svg>mine</svg>")
    before = contents(small)
    assert "it exists and is not" in refused(run("reproduce", "small", "--seeds", 1, "--out", "out"))
    assert contents(small) == before


def test_remarks_are_not_replaced_by_the_page_that_shows_them(small):
    os.mkdir("out")
    Path("out/results.md").write_text("# The paper’s results, measured again\n")
    before = contents(small)
    arguments = ["reproduce", "small", "--seeds", 1, "--out", "out", "--notes", "out/results.md"]
    assert "same file" in refused(run(*arguments))
    assert "same file" in refused(run(*arguments[:-1], "data.csv", "--results", "data.csv"))
    assert contents(small) == before


def test_results_are_written_again_over_those_of_natpn(small):
    for _ in range(2):
        assert run("reproduce", "small", "--seeds", 1).exit_code == 0
    os.mkdir("real")
    os.symlink("real/r.jsonl", "r.jsonl")
    for _ in range(2):
        arguments = ["--seeds", 1, "--models", "NatPN", "--results", "r.jsonl", "--no-resume"]
        assert run("reproduce", "small", *arguments).exit_code == 0
    assert Path("r.jsonl").is_symlink()
    assert sorted(os.listdir("real")) == ["r.jsonl", "r.jsonl.old"]


@pytest.mark.parametrize("kind", ["text", "weights"])
def test_a_checkpoint_takes_the_place_of_no_other_file(kind, tmp_path):
    import torch

    if kind == "text":
        (tmp_path / "training.pt").write_text("mine")
    else:
        torch.save({"network": {"weight": torch.zeros(3)}}, tmp_path / "training.pt")
    before = contents(tmp_path)
    model = natpn.NatPNRegressor(max_epochs=1, checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match=r"training.pt, which is damaged or was not written"):
        model.fit(*numbers(40))
    assert contents(tmp_path) == before
