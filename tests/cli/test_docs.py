"""The commands in the documentation run, and those of the README with them."""

import contextlib
import csv
import io
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

from cli.conftest import ENVIRONMENT, rows, run, write
from printed import says_the_same

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


def only_in_the_readme():
    """Return the commands of the README's walk that the page does not have."""
    walk = re.search(r"```sh\n(natpn demo --tables.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    commands = [line.partition("#")[0].strip() for line in walk.strip().splitlines()]
    page = "".join(BLOCKS).splitlines()
    return [line for line in commands if line not in page and f"{line} --port 8000 &" not in page]


def test_the_readme_walks_where_the_page_does():
    """Else each would have to be run on its own."""
    assert only_in_the_readme() == ["natpn predict rent new.csv --id flat --out predictions.csv"]


needs_curl = pytest.mark.skipif(
    not shutil.which("curl"), reason="The page calls curl, which is not installed: apt-get install -y curl"
)


@pytest.mark.slow
@needs_curl
def test_the_page_runs_from_top_to_bottom(tmp_path):
    assert len(BLOCKS) == 8
    (tmp_path / "flats").mkdir()
    for i in range(2):
        made = pyarrow.csv.read_csv(write(tmp_path / "made.csv", rows(20, i)))
        pyarrow.parquet.write_table(made, tmp_path / "flats" / f"{i}.parquet")
    assert "natpn serve" in BLOCKS[-2]
    # Before the server: bash would tell of its end if more than one command followed.
    done = bash(tmp_path, "\n".join([*BLOCKS[:-2], *only_in_the_readme(), *BLOCKS[-2:]]))
    assert done.returncode == 0, done.stderr
    assert [line[:5] for line in done.stderr.splitlines()] == ["note:"] * done.stderr.count("\n")
    assert '{"status":"ok"}' in done.stdout
    assert '"familiarity":' in done.stdout
    assert "<h1>" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "rent.onnx").stat().st_size > 10_000
    assert "model   rent" in done.stdout
    predictions = (tmp_path / "predictions.csv").read_text().splitlines()
    assert predictions[0].startswith("flat,prediction,lower,upper,")
    novel = [one["novel"] for one in csv.DictReader(predictions)]
    assert set(novel) == {"true", "false"}  # some rows are unlike training
    assert sorted(path.name for path in tmp_path.glob("predictions*/*")) == ["0.parquet", "0.parquet", "1.parquet"]
    assert '"rmse"' in (tmp_path / "scores.json").read_text()


@pytest.mark.slow
@needs_curl
def test_the_tutorial_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, got, n = {}, "", 0
    page = (ROOT / "docs" / "tutorial.md").read_text()
    for kind, block in re.findall(r"```(python|sh|text)\n(.*?)```", page, re.DOTALL):
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(block, "tutorial.md", "exec"), names)
            got = out.getvalue()
        elif kind == "text":
            lines = block.splitlines()
            cut = lines[-1] == "…"
            some = got.splitlines()[: len(lines) - 1] if cut else got.splitlines()
            assert says_the_same("\n".join(some), "\n".join(lines[:-1] if cut else lines)), got
            n += 1
        elif "natpn serve" in block:
            assert '"familiarity":' in bash(tmp_path, block).stdout
        else:
            got = "".join(run(*shlex.split(line)[1:]).output for line in block.splitlines())
    assert n == 6
    assert "<h1>" in (tmp_path / "report.html").read_text()


def bash(place, script):
    """Run commands in bash, with few epochs and on a free port."""
    command = place / "bin" / "natpn"
    command.parent.mkdir()
    quick = '[ "$1" = fit ] && set -- "$@" --max-epochs 5'
    command.write_text(f'#!/bin/sh\n{quick}\nexec {sys.executable} -m natpn "$@"\n')
    command.chmod(0o755)
    environment = ENVIRONMENT | {"PATH": f"{command.parent}:{ENVIRONMENT['PATH']}"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        script = script.replace("8000", str(free.getsockname()[1]))
    return subprocess.run(
        ["bash", "-euc", "set -m\n" + script], cwd=place, env=environment, capture_output=True, text=True
    )
