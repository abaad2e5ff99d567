"""The files of a model, `config.json` and `model.safetensors`: where they are, and how both change at once.

`config.json` has checksums of itself and of the tensors, so that both files are known by their content. A save puts the
new tensors beside the old ones under a hidden name that holds their checksum, then replaces `config.json`, which makes
the new model the current one, and then renames the tensors. The reader takes the tensors that `config.json` names,
under either name. So it finds the old model or the new one, whole, whenever a save is cut off, and the next save
finishes what was begun. Whatever else is in the directory stays.

The card, `README.md`, is put beside the others in the same way, under a hidden name that holds the checksum of
`config.json`. It has a checksum of its own in its head. A card without one, or changed since, is the user's, and stays.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import IO, Any

from natpn.outputs import HIDDEN, Kind, check_apart, check_writable, directory, replacing, sweep

SCHEMA = 4
CONFIG, TENSORS, CARD = "config.json", "model.safetensors", "README.md"
_DEEPEST = 20  # nested lists and objects
_NOTES = "table.json"  # where the command line of natpn 0.1.0 kept what is now under "table" in config.json
_HASH = re.compile(r"[0-9a-f]{64}")
_STAGED = re.compile(rf"\.natpn-({_HASH.pattern})\.safetensors")
_STAGED_CARD = re.compile(rf"\.natpn-({_HASH.pattern})\.md")
_SIGNATURE = re.compile(rf"(?m)^natpn_card: ({_HASH.pattern})$")
_ATTEMPTS = 5  # a reader that comes between two steps of a save tries again


def checksum(config: dict[str, Any]) -> str:
    """Return the checksum of a configuration."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def find(place: str | PathLike[str]) -> Path | None:
    """Return the directory in which the files of a model are, or None if there is none.

    It is the place itself, or the hidden directory beside it where natpn 0.1.0 had a model while it was replaced.
    """
    own = Path(place)
    before = own.absolute().parent / f".{own.absolute().name}.old"
    return next((path for path in (own, before) if (path / CONFIG).is_file()), None)


def read(place: str | PathLike[str]) -> tuple[dict[str, Any], bytes]:
    """Return the configuration and the tensors of a model.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it was cut short, changed, or written by a newer version.
    """
    path = find(place)
    if path is None:
        raise FileNotFoundError(f"{place}: no model there; expected a directory with {CONFIG} and {TENSORS}")
    for _ in range(_ATTEMPTS):
        config = _read_config(path / CONFIG)
        named = config.get("tensors_sha256")
        names = [TENSORS, *([_staged(named)] if isinstance(named, str) and _HASH.fullmatch(named) else [])]
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # it may be renamed at this moment
                content = (path / name).read_bytes()
                if _sha256(content) == named:
                    return config | {"table": _notes(path, config)}, content
    if not (path / TENSORS).is_file():
        raise FileNotFoundError(f"{path}: {TENSORS} is missing; copy the whole directory")
    raise ValueError(
        f"{path / TENSORS}: it was cut short or changed since it was written; delete it and save the model again"
    )


def created_at(place: str | PathLike[str]) -> str:
    """Return when the files of a model were written, in ISO form and UTC."""
    path = find(place) or Path(place)
    return iso_date((path / CONFIG).stat().st_mtime)


def iso_date(seconds: float) -> str:
    """Return a time since 1970 in ISO form and UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def check(place: str | PathLike[str], *inputs: str | PathLike[str]) -> None:
    """Raise unless a model may be written to a directory: there is none, it is empty, or it holds a model.

    Args:
        place: The directory.
        inputs: What is read to make the model.

    Raises:
        ValueError: If something else is there, or it is, holds or lies in what is read.
        OSError: If it cannot be written.
    """
    check_apart(place, *inputs)
    path = _directory(place)
    if path.exists():
        with directory(path):  # not while another process saves
            _check_content(place, path)
    check_writable(next(parent for parent in (path, *path.parents) if os.path.lexists(parent)))


def write(place: str | PathLike[str], config: dict[str, Any], tensors: bytes, card: tuple[dict[str, Any], str]) -> None:
    """Write a model to a directory; one that is there is replaced.

    Args:
        place: The directory.
        config: The configuration.
        tensors: The tensors.
        card: The head of the card, by key, and its text.

    Raises:
        ValueError: If the directory holds something else.
        OSError: If it cannot be written; what was there stays.
    """
    check_apart(place)
    path = _directory(place)
    named = _sha256(tensors)
    config = config | {"tensors_sha256": named}
    current = checksum(config)
    text = json.dumps(config | {"sha256": current}, indent=1)
    with directory(path):
        _finish(path)
        _check_content(place, path)
        try:
            with replacing(path / _staged(named), Kind("the tensors of a model", lambda file: False)) as file:
                file.write(tensors)
            with replacing(path / f".natpn-{current}.md", Kind("the card of a model", _is_card)) as file:
                file.write(_signed(*card))
            with replacing(path / CONFIG, Kind("the description of a natpn model", _is_config)) as file:
                file.write(text.encode())
        finally:
            _finish(path)


_NO_HASH = 64 * "0"
_OWN = (HIDDEN, _STAGED, _STAGED_CARD)


def _directory(place: str | PathLike[str]) -> Path:
    """Return where links lead to, which must be a directory or nothing."""
    path = Path(os.path.realpath(place))
    if path.exists() and not path.is_dir():
        raise ValueError(f"{place} exists and is not a model; choose another directory")
    return path


def _check_content(place: str | PathLike[str], path: Path) -> None:
    found = sorted(name for name in os.listdir(path) if not any(own.fullmatch(name) for own in _OWN))
    if not found:
        return
    config = _own_config(path)
    if config is None:
        what = f"{CONFIG} is not one that natpn wrote" if CONFIG in found else f"it holds {found[0]!r}"
        raise ValueError(f"{place} exists and is not a model, {what}; choose another directory")
    named = config["tensors_sha256"]
    if TENSORS in found and not os.path.exists(path / _staged(named)) and _sha256_of(path / TENSORS) != named:
        raise ValueError(
            f"{place} exists and is not a model, {TENSORS} is not the one that {CONFIG} names; choose another "
            "directory, or move it away first"
        )


def _finish(path: Path) -> None:
    """Bring the tensors that `config.json` names to their place, and remove what other saves left."""
    sweep(path)
    config = _own_config(path)
    named = None if config is None else config["tensors_sha256"]
    for name in os.listdir(path):
        staged = _STAGED.fullmatch(name)
        if not staged or _sha256_of(path / name) != staged[1]:
            continue
        if staged[1] != named or _sha256_of(path / TENSORS) == named:
            os.unlink(path / name)
        elif (path / TENSORS).is_symlink():  # what it leads to may be on another disk
            with replacing(path / TENSORS, Kind("", lambda file: True)) as file, (path / name).open("rb") as tensors:
                shutil.copyfileobj(tensors, file)
            os.unlink(path / name)
        else:
            with contextlib.suppress(FileNotFoundError):
                shutil.copymode(path / TENSORS, path / name)
            os.replace(path / name, path / TENSORS)
    for name in os.listdir(path):
        staged = _STAGED_CARD.fullmatch(name)
        if staged and _own_card(path / name):
            _place_card(path, name, config is not None and staged[1] == config["sha256"])
    if config is not None and "table" in config and _own_notes(path) is not None:
        os.unlink(path / _NOTES)


def _place_card(path: Path, name: str, current: bool) -> None:
    """Bring a hidden card to its place if it is that of the current model and the place is ours; else remove it."""
    place = path / CARD
    if not current or (os.path.lexists(place) and not _own_card(place)):
        os.unlink(path / name)
        return
    with contextlib.suppress(FileNotFoundError):
        shutil.copymode(place, path / name)
    os.replace(path / name, place)


def _own_card(path: Path) -> bool:
    """Say whether a file, not a link, is a card that natpn wrote and no one has changed."""
    if path.is_symlink() or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return _is_card(file)
    except OSError:  # it cannot be read, so it is not known to be ours
        return False


def _is_card(file: IO[bytes]) -> bool:
    text = file.read().decode("utf-8", "replace")
    signed = _SIGNATURE.search(text)
    return signed is not None and _unsigned_hash(text) == signed[1]


def _signed(head: dict[str, Any], text: str) -> bytes:
    """Return a card with the head in YAML, of which JSON is a part, and the checksum in it."""
    lines = [f"{key}: {json.dumps(value)}" for key, value in head.items()]
    card = "\n".join(["---", *lines, f"natpn_card: {_NO_HASH}", "---", "", text])
    return _SIGNATURE.sub(f"natpn_card: {_unsigned_hash(card)}", card, count=1).encode()


def _unsigned_hash(card: str) -> str:
    return _sha256(_SIGNATURE.sub(f"natpn_card: {_NO_HASH}", card, count=1).encode())


def _staged(named: str) -> str:
    return f".natpn-{named}.safetensors"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _sha256_of(path: Path) -> str | None:
    """Return the checksum of a file, None if there is none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_json(content: bytes) -> Any:
    """Return what JSON says.

    Raises:
        ValueError: If it is not JSON, or nested deeper than any model is.
    """
    try:
        found = json.loads(content)
    except RecursionError:
        raise ValueError(f"it is nested more than {_DEEPEST} deep") from None
    level: list[Any] = [found]
    for _ in range(_DEEPEST):
        level = [part for value in level for part in _parts(value)]
        if not level:
            return found
    raise ValueError(f"it is nested more than {_DEEPEST} deep")


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _is_config(file: IO[bytes]) -> bool:
    """Say whether a file is the configuration of a model, as it was written."""
    try:
        config = _read_json(file.read())
    except ValueError:
        return False
    if not isinstance(config, dict) or not {"schema", "natpn", "class", "tensors_sha256"} <= config.keys():
        return False
    return config.pop("sha256", None) == checksum(config) and bool(_HASH.fullmatch(str(config["tensors_sha256"])))


def _own_config(path: Path) -> dict[str, Any] | None:
    """Return the configuration in a directory, if it is one that natpn wrote."""
    if not (path / CONFIG).is_file():
        return None
    with (path / CONFIG).open("rb") as file:
        if not _is_config(file):
            return None
        file.seek(0)
        config: dict[str, Any] = _read_json(file.read())
        return config


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = _read_json(path.read_bytes())
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: it was cut short or is no JSON ({error}); delete it and save the model again"
        ) from None
    if not isinstance(config, dict) or not isinstance(config.get("schema"), int):
        raise ValueError(f"{path}: it is not the description of a natpn model")
    if config["schema"] > SCHEMA:
        raise ValueError(
            f"{path}: it was written with schema {config['schema']} by natpn {config.get('natpn')}, and this natpn "
            f"{version('natpn')} reads up to schema {SCHEMA}: update natpn"
        )
    if config.pop("sha256", None) != checksum(config):
        raise ValueError(f"{path}: it was changed since it was written; delete it and save the model again")
    return config


def _notes(path: Path, config: dict[str, Any]) -> dict[str, Any] | None:
    """Return what is known about the table that a model was fitted on."""
    table = config["table"] if "table" in config else _own_notes(path)
    return table if isinstance(table, dict) else None


def _own_notes(path: Path) -> dict[str, Any] | None:
    """Return the notes that natpn 0.1.0 wrote beside a model, if they are there."""
    try:
        notes = _read_json((path / _NOTES).read_bytes())
    except (OSError, ValueError):
        return None
    return notes if isinstance(notes, dict) and notes.keys() == {"target", "dropped"} else None
