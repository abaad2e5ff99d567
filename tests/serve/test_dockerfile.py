"""The Dockerfile, read: its sources are there, its options are known, its health check works, and it is not root."""

import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import click

from natpn.cli.commands import serve_command
from natpn.serve import create_app
from serve.serving import serving

ROOT = Path(__file__).parents[2]


def instructions():
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def arguments(name):
    return [value for key, value in instructions() if key == name]


def test_only_what_is_copied_is_sent_to_the_builder():
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    sent = {line[1:] for line in lines if line.startswith("!")}
    assert lines[0] == "*"
    copied = [value.split()[:-1] for value in arguments("COPY") if not value.startswith("--from")]
    assert {name for names in copied for name in names} == sent
    assert all((ROOT / name).exists() for name in sent)
    # the build needs what pyproject.toml names
    project = (ROOT / "pyproject.toml").read_text()
    for name in (*re.findall(r'readme = "(.*?)"', project), *re.findall(r'license-files = \["(.*?)"\]', project)):
        assert any(fnmatch(name, pattern) for pattern in sent)


def test_it_does_not_run_as_root():
    last = [key for key, _ in instructions()][::-1].index("FROM")
    users = [value for key, value in instructions()[-last:] if key == "USER"]
    assert users == ["10001:10001"]


def test_the_command_is_one_of_ours():
    (entry,), (options,) = arguments("ENTRYPOINT"), arguments("CMD")
    name, command, *rest = [*json.loads(entry), *json.loads(options)]
    assert (name, command) == ("natpn", "serve")
    with click.Context(serve_command) as context:
        values, *_ = serve_command.make_parser(context).parse_args(rest)
    assert values == {"model": "/model", "host": "0.0.0.0", "port": "8000", "workers": "2", "access_log": True}
    assert arguments("EXPOSE") == ["8000"]


def test_the_health_check_finds_a_server_and_misses_none(regressor):
    (check,) = arguments("HEALTHCHECK")
    program, *rest = json.loads(check.partition("CMD ")[2])
    assert program == "python"
    with serving(create_app(regressor, token="s3cret")) as address:
        port = address.rpartition(":")[2]
        command = [sys.executable, *(part.replace("8000", port) for part in rest)]
        assert subprocess.run(command, timeout=20, check=False).returncode == 0
    assert subprocess.run(command, timeout=20, check=False, capture_output=True).returncode != 0
