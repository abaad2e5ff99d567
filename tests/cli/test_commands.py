"""What all commands have in common: help, exit codes, and one line for whatever goes wrong."""

import re
import sys
from types import SimpleNamespace

import pytest

import natpn
from cli.conftest import refused, run
from natpn.cli import cli
from natpn.training.session import TrainingError


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_help_has_an_example_that_parses(name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert re.search(rf"Example:\n +natpn {name}( |$)", result.stdout, re.MULTILINE)
    command = cli.commands[name]
    for line in re.findall(rf"^ +natpn {name}(.*)$", result.stdout, re.MULTILINE):
        command.make_context(name, line.split("|")[0].split())


def test_the_commands_are_those_of_the_page():
    assert sorted(cli.commands) == [
        "demo",
        "evaluate",
        "explain",
        "export",
        "fit",
        "monitor",
        "predict",
        "report",
        "reproduce",
        "serve",
        "suggest",
        "update",
    ]
    assert run("--version").stdout.startswith("natpn, version ")


@pytest.fixture
def not_installed(monkeypatch):
    """A function after which a module cannot be imported."""

    def remove(module):
        def find_spec(name, path=None, target=None):
            if name == module:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        for name in [name for name in sys.modules if f"{name}.".startswith(f"{module}.")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=find_spec), *sys.meta_path])

    return remove


@pytest.mark.parametrize("arguments", [(), ("--list",), ("--help",), ("mnist", "--seeds", "1")])
def test_without_the_paper_its_command_says_how_to_install_it(arguments, not_installed):
    not_installed("natpn_paper")
    sentence = refused(run("reproduce", *arguments))
    assert sentence == "Error: natpn-paper is not installed; in a clone of natpn, run: pip install ./paper\n"


def test_what_the_paper_itself_lacks_is_not_hidden(not_installed):
    not_installed("natpn_paper.reproduce")
    result = run("reproduce", "--list")
    assert result.exit_code == 1
    assert "No module named 'natpn_paper.reproduce'" in result.stderr


def test_a_wrong_command_or_option_is_one_line():
    assert "No such command 'predikt'" in refused(run("predikt"))
    assert "See: natpn predict --help" in refused(run("predict", "--colour"))


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (TrainingError("the loss is not a number"), 2, "Error: the loss is not a number.\n"),
        (MemoryError(), 2, "Error: There is not enough memory"),
        (PermissionError(13, "Permission denied", "a/b"), 2, "Error: a/b: permission denied; change"),
        (KeyboardInterrupt(), 130, ""),
        (KeyError("x"), 1, "Error: natpn itself went wrong, with KeyError: 'x'; `natpn --debug …` shows where"),
    ],
)
def test_every_end_has_a_code_and_at_most_one_line(error, code, sentence, train, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(natpn.NatPNRegressor, "fit", fail)
    result = run("fit", train, "--target", "rent", "--drop", "flat", "--out", tmp_path / "m")
    assert result.exit_code == code
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == bool(sentence)
    assert not list(tmp_path.iterdir())


def test_only_the_first_of_several_processes_speaks(train, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    result = run("fit", train, "--target", "elephant", "--out", tmp_path / "m")
    assert (result.exit_code, result.output) == (2, "")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "give torchrun a file" in refused(run("fit", "-", "--target", "rent", "--out", tmp_path / "m"))
