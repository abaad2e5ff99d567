"""A save that is cut off at any step, by a kill, an interrupt or a full disk, leaves the old or the new model."""

import errno
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from attacks.steps import Steps, forked
from estimators.problems import REGRESSOR, numbers
from natpn import load
from natpn.estimators.saving import save
from natpn.model.files import checksum

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

X, Y = numbers(40)
TABLE = {"target": "y", "dropped": []}
FILES = ["README.md", "config.json", "model.safetensors"]


@pytest.fixture(scope="module")
def models():
    made = [clone(REGRESSOR).set_params(random_state=seed, max_epochs=1, ensemble_size=1).fit(X, Y) for seed in (0, 1)]
    for model in made:
        model.predicted = model.predict(X[:5])
    return made


@pytest.fixture(scope="module")
def template(models, tmp_path_factory):
    """The first model with a user's notes beside it, as natpn 0.1.0 wrote it from the command line: with table.json."""
    place = tmp_path_factory.mktemp("template") / "model"
    models[0].save(place)
    config = json.loads((place / "config.json").read_text())
    del config["table"], config["sha256"]
    (place / "config.json").write_text(json.dumps(config | {"sha256": checksum(config)}))
    (place / "notes.txt").write_text("mine")
    (place / "table.json").write_text('{"target": "rent", "dropped": ["flat"]}')
    return place


@pytest.fixture(params=["over a model", "first"])
def start(request, template, tmp_path):
    """Return what puts a directory in its first state, and the models that may be there after a save."""
    place = tmp_path / "there" / "model"

    def prepare():
        shutil.rmtree(place.parent, ignore_errors=True)
        if request.param == "over a model":
            shutil.copytree(template, place)
        return place

    return prepare, request.param == "over a model"


def which(place, models):
    """Return which of the models is at a place; None if none is, and a failure if it is not whole."""
    try:
        found = load(place).predict(X[:5])
    except FileNotFoundError:
        return None
    return next(number for number, model in enumerate(models) if np.array_equal(model.predicted, found))


def files(place):
    return sorted(path.name for path in place.iterdir())


def steps_of(prepare, action):
    place = prepare()
    with Steps() as steps:
        action(place)
    assert steps.count > 20
    return range(1, steps.count + 1)


def test_a_kill_at_every_step(start, models):
    prepare, replaces = start
    kept = ["notes.txt"] if replaces else []
    seen = []

    def killed(place, step):
        with Steps(step):
            save(models[1], place, TABLE)

    for step in steps_of(prepare, lambda place: save(models[1], place, TABLE)):
        place = prepare()
        assert os.WTERMSIG(forked(lambda place=place, step=step: killed(place, step))) == signal.SIGKILL, step
        seen.append(which(place, models))
        models[1].save(place)
        assert files(place) == sorted([*FILES, *kept]), step
        assert [path.name for path in place.parent.iterdir()] == ["model"]
    old = 0 if replaces else None
    change = seen.index(1)
    assert seen == [old] * change + [1] * (len(seen) - change)
    assert 0 < change < len(seen)


def test_an_interrupt_at_every_step(start, models):
    prepare, replaces = start

    def interrupt():
        raise KeyboardInterrupt

    for step in steps_of(prepare, models[1].save):
        place = prepare()
        with Steps(step, interrupt), pytest.raises(KeyboardInterrupt):
            models[1].save(place)
        assert which(place, models) in ((0, 1) if replaces else (None, 1)), step
        models[1].save(place)
        assert files(place) == sorted([*FILES, *(["notes.txt"] if replaces else [])]), step


def test_a_disk_that_is_full_at_every_write(start, models):
    """All calls that need space fail from one step on; those that free it do not."""
    prepare, replaces = start

    class Full(Steps):
        def _counted(self, function):
            def call(*arguments, **options):
                creates = function in (self._kept["mkdir"], self._kept["fsync"])
                if creates or (function is self._kept["open"] and arguments[1] & os.O_CREAT):
                    self.tick()
                return function(*arguments, **options)

            return call

        def tick(self):
            self.count += 1
            if self.at and self.count >= self.at:
                raise OSError(errno.ENOSPC, "No space left on device")

    place = prepare()
    with Full() as steps:
        models[1].save(place)
    assert steps.count > 8
    for step in range(1, steps.count + 1):
        place = prepare()
        if step == steps.count:  # all is written, and only the wish to keep the names is not met
            with Full(step):
                models[1].save(place)
            assert which(place, models) == 1
            continue
        with Full(step), pytest.raises(OSError, match="No space left"):
            models[1].save(place)
        if replaces:
            assert which(place, models) == 0
            assert files(place) == [*FILES, "notes.txt", "table.json"]
        else:
            assert not place.exists()


def test_saves_of_several_processes_at_once_end_with_one_whole_model(models, tmp_path):
    place = tmp_path / "model"
    children = []
    for model in models:
        child = os.fork()
        if child == 0:
            try:
                for _ in range(20):
                    model.save(place)
            except BaseException as error:
                print(error, file=sys.stderr)
                os._exit(3)
            os._exit(0)
        children.append(child)
    found = set()
    while children:
        found.add(which(place, models))
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended:
            assert status == 0
            children.remove(ended)
    assert which(place, models) in (0, 1)
    assert files(place) == FILES
    assert files(tmp_path) == ["model"]


def test_a_reader_between_the_steps_of_a_save_looks_again(models, tmp_path, monkeypatch):
    """It has read the old tensors and the new configuration when the tensors get their name."""
    place, other = tmp_path / "model", tmp_path / "other"
    models[0].save(place)
    models[1].save(other)
    named = json.loads((other / "config.json").read_text())["tensors_sha256"]
    hidden = place / f".natpn-{named}.safetensors"
    shutil.copy(other / "model.safetensors", hidden)
    shutil.copy(other / "config.json", place)
    read = Path.read_bytes

    def and_rename(path):
        content = read(path)
        if path.name == "model.safetensors" and hidden.exists():
            os.replace(hidden, path)
        return content

    monkeypatch.setattr(Path, "read_bytes", and_rename)
    assert which(place, models) == 1
    assert files(place) == FILES


def test_a_file_that_is_killed_at_every_step_of_its_replacement(tmp_path):
    """Predictions, pages, ONNX files and checkpoints are all written by this function."""
    from natpn.outputs import Kind, replacing

    place, link = tmp_path / "real" / "out.csv", tmp_path / "out.csv"
    place.parent.mkdir()
    link.symlink_to(place)
    kind = Kind("ours", lambda file: file.read(4) == b"ours")

    def put(content, step=0):
        with Steps(step) as steps, replacing(link, kind) as file:
            file.write(content)
        return steps.count

    seen = []
    for step in range(1, put(b"ours, old") + 1):
        put(b"ours, old")
        assert os.WTERMSIG(forked(lambda step=step: put(b"ours, new", step))) == signal.SIGKILL
        seen.append(place.read_bytes())
    put(b"ours, old")
    change = seen.index(b"ours, new")
    assert seen == [b"ours, old"] * change + [b"ours, new"] * (len(seen) - change)
    assert files(place.parent) == ["out.csv"]
    assert link.is_symlink()


def test_what_another_process_is_writing_is_not_swept(tmp_path):
    from natpn.outputs import Kind, replacing

    kind = Kind("ours", lambda file: True)
    with replacing(tmp_path / "slow", kind) as slow:
        slow.write(b"slow")
        with replacing(tmp_path / "quick", kind) as quick:
            quick.write(b"quick")
    assert files(tmp_path) == ["quick", "slow"]


def test_a_model_that_an_earlier_version_left_beside_its_place_is_found(models, tmp_path):
    """Version 0.1.0 renamed directories: a kill between two renames left the model under this name."""
    models[0].save(tmp_path / ".m.old")
    assert which(tmp_path / "m", models) == 0
    models[1].save(tmp_path / "m")
    assert which(tmp_path / "m", models) == 1
    assert files(tmp_path / ".m.old") == FILES  # it may as well be a copy that a user made
