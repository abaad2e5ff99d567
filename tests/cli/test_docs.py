"""The commands in the documentation run."""

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import ENVIRONMENT

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


@pytest.mark.slow
@pytest.mark.skipif(
    not shutil.which("curl"), reason="The page calls curl, which is not installed: apt-get install -y curl"
)
def test_the_page_runs_from_top_to_bottom(tmp_path):
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 7
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "natpn"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m natpn.cli "$@"\n')
    command.chmod(0o755)
    environment = ENVIRONMENT | {"PATH": f"{command.parent}:{ENVIRONMENT['PATH']}"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    script = "\n".join(blocks).replace("8000", port)
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
    assert (tmp_path / "predictions.csv").read_text().startswith("flat,prediction,lower,upper,")
    assert '"rmse"' in (tmp_path / "scores.json").read_text()
