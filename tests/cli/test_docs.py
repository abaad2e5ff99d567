"""The commands in the documentation run, and those of the README with them."""

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

from cli.conftest import ENVIRONMENT, rows, write

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


@pytest.mark.slow
@pytest.mark.skipif(
    not shutil.which("curl"), reason="The page calls curl, which is not installed: apt-get install -y curl"
)
def test_the_page_runs_from_top_to_bottom(tmp_path):
    assert len(BLOCKS) == 8
    (tmp_path / "flats").mkdir()
    for i in range(2):
        made = pyarrow.csv.read_csv(write(tmp_path / "made.csv", rows(20, i)))
        pyarrow.parquet.write_table(made, tmp_path / "flats" / f"{i}.parquet")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "natpn"
    quick = '[ "$1" = fit ] && set -- "$@" --max-epochs 5'
    command.write_text(f'#!/bin/sh\n{quick}\nexec {sys.executable} -m natpn "$@"\n')
    command.chmod(0o755)
    environment = ENVIRONMENT | {"PATH": f"{command.parent}:{ENVIRONMENT['PATH']}"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    assert "natpn serve" in BLOCKS[-2]
    # Before the server: bash would tell of its end if more than one command followed.
    script = "\n".join([*BLOCKS[:-2], *only_in_the_readme(), *BLOCKS[-2:]]).replace("8000", port)
    done = subprocess.run(
        ["bash", "-euc", "set -m\n" + script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert [line[:5] for line in done.stderr.splitlines()] == ["note:"] * done.stderr.count("\n")
    assert '{"status":"ok"}' in done.stdout
    assert '"familiarity":' in done.stdout
    assert "<h1>" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "rent.onnx").stat().st_size > 10_000
    assert "model   rent" in done.stdout
    predictions = (tmp_path / "predictions.csv").read_text().splitlines()
    assert predictions[0].startswith("flat,prediction,lower,upper,")
    assert {line.rsplit(",", 1)[1] for line in predictions[1:]} == {"true", "false"}  # some rows are unlike training
    assert sorted(path.name for path in tmp_path.glob("predictions*/*")) == ["0.parquet", "0.parquet", "1.parquet"]
    assert '"rmse"' in (tmp_path / "scores.json").read_text()
