"""`natpn reproduce`: choosing, running, listing and rendering."""

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from cli.conftest import ENVIRONMENT, refused, run
from natpn_paper.experiments import EXPERIMENTS, Outcome, published, read_lines, registry
from natpn_paper.experiments.base import Experiment
from natpn_paper.experiments.studies import ROWS
from natpn_paper.reproduce.choosing import split_names
from paper.experiments.small import SMALL


@pytest.fixture
def there(monkeypatch, tmp_path):
    """An empty directory, with the small table, one that needs data, and a figure among the experiments."""
    from matplotlib.figure import Figure

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(EXPERIMENTS, "small", SMALL)
    absent = Experiment("absent", "No data", ("there",), ("NatPN",), SMALL.run, needs=("sensorless-drive",))
    monkeypatch.setitem(EXPERIMENTS, "absent", absent)
    drawn = Experiment("drawn", "A figure", ("there",), ("NatPN",), lambda _: Outcome(values={"x": 1}), seeds=1)
    monkeypatch.setitem(EXPERIMENTS, "drawn", drawn)
    monkeypatch.setattr(registry, "DRAWINGS", {"drawn": lambda _: Figure()})
    monkeypatch.setenv("NATPN_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SMALL_BAD", raising=False)
    return tmp_path


def test_runs_are_made_told_and_rendered(there):
    result = run("reproduce", "small", "drawn", "--seeds", 2)
    assert result.exit_code == 0, result.stderr
    assert "1/7  small  there  Dropout  seed 0  Accuracy 7.00, Brier 8.00, 9/10 Epist. 10.00  (0 s)" in result.stdout
    assert "7/7  drawn  there  NatPN  seed 0  done" in result.stdout
    assert "sensorless-drive: A small table\n2 seeds; 6 runs" in result.stdout
    assert "within two of the paper’s standard errors" in result.stdout
    place = there / "reproduce"
    assert len(read_lines(place / "results.jsonl")) == 7
    written = (place / "results.md").read_text()
    assert "## Agreement with the paper" in written
    assert "| Dropout | 12.00 ±5.00 (98.62 ±0.11) |" in written
    assert "Made up." in written
    assert "![A figure](figures/drawn.svg)" in written
    assert "<svg" in (place / "figures" / "drawn.svg").read_text()
    assert "data:image/svg+xml;base64," in (place / "results.html").read_text()


def test_remarks_are_shown_and_those_on_nothing_are_told(there):
    (there / "notes.md").write_text("On one core.\n\n## drawn\n\nA line.\n\n## uciii\n\nTypo.\n")
    result = run("reproduce", "drawn", "--notes", "notes.md")
    assert "the remark on 'uciii' is left out: there is no table or figure of that name" in result.stderr
    written = (there / "reproduce" / "results.md").read_text()
    assert "\n\nOn one core.\n\n" in written
    assert written.endswith("![A figure](figures/drawn.svg)\n\nA line.\n")


def test_remarks_are_read_before_anything_is_run(there):
    assert "absent.md" in refused(run("reproduce", "drawn", "--notes", "absent.md"))
    (there / "twice.md").write_text("## uci\n\n## uci\n")
    assert "twice.md: 'uci' has two headings." in refused(run("reproduce", "drawn", "--notes", "twice.md"))
    (there / "binary.md").write_bytes(b"\xff\xfe\x00")
    assert "binary.md" in refused(run("reproduce", "drawn", "--notes", "binary.md"))
    assert not (there / "reproduce").exists()


def test_a_second_command_makes_only_what_is_missing(there):
    run("reproduce", "small", "--seeds", 1)
    result = run("reproduce", "small", "--seeds", 2, "--models", "NatPN,Dropout")
    assert "2 of 4 runs are in reproduce/results.jsonl already." in result.stdout
    assert len(read_lines("reproduce/results.jsonl")) == 5
    again = run("reproduce", "small", "--seeds", 2, "--models", "NatPN,Dropout")
    assert "1/" not in again.stdout.split("\n\n")[0]
    rendered = run("reproduce", "--render-only", "--out", "elsewhere")
    assert rendered.exit_code == 0
    assert (there / "elsewhere" / "results.md").read_text() == (there / "reproduce" / "results.md").read_text()
    assert len(read_lines("reproduce/results.jsonl")) == 5


def test_to_begin_anew_keeps_the_old_file(there):
    for i in range(3):
        result = run("reproduce", "small", "--seeds", 1, "--no-resume", "--models", "NatPN", "--results", "r.jsonl")
        assert result.exit_code == 0
        assert result.stderr.count("is now in r.jsonl.old") == (i > 0)
    assert sorted(p.name for p in there.glob("r.jsonl*")) == ["r.jsonl", "r.jsonl.old", "r.jsonl.old2"]


def test_quick_runs_have_a_place_of_their_own(there):
    assert run("reproduce", "small", "--quick", "--seeds", 1).exit_code == 0
    assert "quick runs" in (there / "reproduce" / "quick" / "results.md").read_text()
    assert not (there / "reproduce" / "results.jsonl").exists()
    assert "no full runs" in run("reproduce", "--render-only", "--results", "reproduce/quick/results.jsonl").stderr
    assert "leave one of them out" in refused(run("reproduce", "small", "--quick", "--limit", 5))


def test_a_run_that_fails_ends_with_one_and_is_tried_again(there, monkeypatch):
    monkeypatch.setenv("SMALL_BAD", "NatPN")
    result = run("reproduce", "small", "--seeds", 2)
    assert result.exit_code == 1
    assert result.stdout.count("failed") == 2
    assert result.stderr.count("note: small, NatPN: ") == 1
    assert "this and that" in result.stderr
    assert "2 of 6 runs failed" in result.stderr
    assert (there / "reproduce" / "results.md").exists()
    monkeypatch.delenv("SMALL_BAD")
    assert run("reproduce", "small", "--seeds", 2).exit_code == 0
    assert len(read_lines("reproduce/results.jsonl")) == 6


def test_missing_data_is_said_and_the_others_go_on(there):
    result = run("reproduce", "absent", "small", "--seeds", 1)
    assert result.exit_code == 1
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith("note: absent is left out: sensorless_drive/Sensorless_drive_diagnosis.txt.gz or")
    assert len(read_lines("reproduce/results.jsonl")) == 3


def test_an_ood_set_that_is_missing_stops_nothing(there, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "small", replace(SMALL, needs=("toy-regression", "lsun")))
    result = run("reproduce", "small", "--seeds", 1)
    assert (result.exit_code, result.stderr) == (0, "")
    assert (
        "table sensorless-drive; 1 seed of Dropout, NatPN (paper), NatPN; data missing: lsun"
        in run("reproduce", "--list").stdout
    )


def test_the_list_has_every_table_and_its_state(there):
    run("reproduce", "small", "--seeds", 1, "--models", "NatPN", "--limit", 2000)
    for result in (run("reproduce", "--list", "--seeds", 2), run("reproduce", "--seeds", 2)):
        assert result.exit_code == 0
        for name in (*EXPERIMENTS, *published.table_names()):
            assert name in result.stdout
        lines = result.stdout.splitlines()
        at = next(i for i, row in enumerate(lines) if row.startswith("small "))
        assert lines[at].split(maxsplit=2)[1:] == ["1/6", "A small table"]
        made = "1 seed of NatPN; none of Dropout, NatPN (paper); some runs on at most 2,000 rows"
        assert lines[at + 1].strip() == f"table sensorless-drive; {made}"
        at = next(i for i, row in enumerate(lines) if row.startswith("absent "))
        assert lines[at + 1].strip() == "figure; data missing: sensorless-drive"
    assert result.stdout.startswith("Name what to measure, as in `natpn reproduce ")


def test_the_list_is_quick():
    code = "import sys\nfrom natpn.cli import cli\n"
    code += "cli.main(['reproduce', '--list', '--results', '/nowhere'], standalone_mode=False)\n"
    script = (
        code.replace("cli.main", "try:\n    cli.main") + "except SystemExit:\n    assert 'torch' not in sys.modules\n"
    )
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, check=True, capture_output=True)
    assert time.monotonic() - start < 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["smal"], "There is no table or figure 'smal'; did you mean 'small'?"),
        (["qqq"], "'qqq'; natpn reproduce --list shows all."),
        (["small", "--models", "NatPM,NatPN"], "--models: nothing that was chosen has 'NatPM'; did you mean 'NatPN'?"),
        (["small", "--data", "ther"], "--data: nothing that was chosen has 'ther'; did you mean 'there'?"),
        (["bike-sharing", "--models", "EvReg", "--data", "bike-sharing-poisson"], "leave no run"),
        (["small", "--quick", "--epochs", "3"], "--epochs cannot be combined with --quick"),
        (["small", "--results", "there/is/a/file/results.jsonl"], "there/is/a/file: a part of the path is a file"),
    ],
)
def test_wrong_names_are_one_line(there, arguments, sentence):
    (there / "there").mkdir()
    (there / "there" / "is").write_text("")
    assert sentence in refused(run("reproduce", *arguments))


def test_damaged_results_are_one_line(there):
    (there / "r.jsonl").write_text('{"a": 1}\n')
    assert "r.jsonl, line 1: expected a result of natpn reproduce" in refused(
        run("reproduce", "small", "--results", "r.jsonl")
    )


def test_a_table_of_the_paper_is_a_name_too(there):
    result = run("reproduce", "ablation-mnist", "--render-only")
    assert result.exit_code == 0
    assert "no full runs" in result.stderr


def test_names_with_commas_can_be_told_apart():
    first, second = list(ROWS)[:2]
    assert split_names([f"{first},{second}"], ROWS, "--models") == (first, second)
    assert split_names(["NatPN", "NatPE,NatPN"], ["NatPN", "NatPE"], "--models") == ("NatPN", "NatPE", "NatPN")
    assert split_names([], ROWS, "--models") is None


def test_lines_are_json(there):
    run("reproduce", "small", "--seeds", 1)
    for row in (there / "reproduce" / "results.jsonl").read_text().splitlines():
        assert set(json.loads(row)) >= {"experiment", "data", "model", "seed", "scores", "seconds", "date", "versions"}
