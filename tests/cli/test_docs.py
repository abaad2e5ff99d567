"""The commands in the documentation run."""

import re
import subprocess
import sys
from pathlib import Path

from cli.conftest import ENVIRONMENT, rows, write

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def test_the_page_runs_from_top_to_bottom(tmp_path):
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    table = rows(300, 0)
    write(tmp_path / "flats.csv", table[:200])
    write(tmp_path / "test.csv", table[200:])
    write(tmp_path / "harbour.csv", [[*row[:2], "boat", *row[3:]] for row in table[200:]])
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "natpn"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m natpn.cli "$@"\n')
    command.chmod(0o755)
    environment = ENVIRONMENT | {"PATH": f"{command.parent}:{ENVIRONMENT['PATH']}"}
    done = subprocess.run(
        ["bash", "-euc", "\n".join(blocks)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "model   rent" in done.stdout
    assert (tmp_path / "predictions.csv").read_text().startswith("flat,prediction,lower,upper,")
    assert '"rmse"' in (tmp_path / "scores.json").read_text()
