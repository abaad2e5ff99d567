"""Writing models: a directory with `config.json` and `model.safetensors`, and nothing that can run code.

`config.json` holds the schema version, the class, its parameters, what was learned about inputs and targets, and
checksums of itself and of the tensors. It is written beside and renamed, so a directory is whole or not there. Between
two renames a model that is replaced is in a hidden directory beside its place, where `load` finds it after a crash.
"""

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import fields
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save as save_tensors
from sklearn.utils.validation import check_is_fitted
from torch import nn

from natpn import families
from natpn.evidence import Evidence
from natpn.families import Family
from natpn.training import Scheme

SCHEMA = 1
CONFIG, TENSORS = "config.json", "model.safetensors"


def save(model: Any, directory: str | PathLike[str]) -> None:
    """Write a fitted model to a directory; a model that is there is replaced.

    Raises:
        ValueError: If the directory holds something else, or the model has parts that cannot be written.
    """
    check_is_fitted(model)
    place = Path(directory)
    _check_place(place)
    tensors = save_tensors(_tensors(model))
    config = _config(model) | {"tensors_sha256": hashlib.sha256(tensors).hexdigest()}
    config["sha256"] = checksum(config)
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        for name, content in ((TENSORS, tensors), (CONFIG, json.dumps(config, indent=1).encode())):
            with (beside / name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        beside.chmod(0o755)
        _put(beside, place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _check_place(place: Path) -> None:
    """Raise if something is there that is not a model: it would be lost."""
    if not place.exists():
        return
    found = {path.name for path in place.iterdir()} if place.is_dir() else {place.name}
    if found and (CONFIG not in found or not found <= {CONFIG, TENSORS}):
        others = sorted(found - {CONFIG, TENSORS}) or [CONFIG]
        raise ValueError(f"{place} exists and is not a model alone, there is {others[0]!r}: choose another directory")


def _put(beside: Path, place: Path) -> None:
    """Move a directory to its place, from which another one may have to go first."""
    old = hidden(place)
    if place.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.replace(place, old)
    try:
        os.replace(beside, place)
    except BaseException:
        if old.exists():
            os.replace(old, place)
        raise
    shutil.rmtree(old, ignore_errors=True)


def hidden(place: Path) -> Path:
    """Return where a model is while another one takes its place."""
    return place.absolute().parent / f".{place.absolute().name}.old"


def checksum(config: dict[str, Any]) -> str:
    """Return the checksum of a configuration."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def _config(model: Any) -> dict[str, Any]:
    config = {
        "schema": SCHEMA,
        "natpn": version("natpn"),
        "class": type(model).__name__,
        "parameters": {name: _plain(name, value) for name, value in model.get_params(deep=False).items()},
        "inputs": {"kind": model.inputs_.kind, **model.inputs_.to_config()},
        "family": _family(model.family_),
        "n_rows": model.n_rows_,
        "n_features_in": model.n_features_in_,
        "feature_names_in": getattr(model, "feature_names_in_", np.array([])).tolist() or None,
        "history": model.history_[-1:],
    }
    if hasattr(model, "units_"):
        config["units"] = model.units_.to_config()
    if hasattr(model, "classes_"):
        kind = model.classes_.dtype
        config["classes"] = {"dtype": kind.str if kind.kind != "O" else "object", "labels": model.classes_.tolist()}
        if any(not isinstance(label, (str, int, float, bool)) for label in model.classes_.tolist()):
            raise ValueError("The labels cannot be written: expected texts, numbers or booleans")
    return config


def _tensors(model: Any) -> dict[str, torch.Tensor]:
    tensors = {f"network.{name}": t.contiguous().cpu() for name, t in model.network_.state_dict().items()}
    # Weights were trained in float32 and widened; narrowing them is exact. The prior is wide from the start.
    narrow = {k: t.float() if t.dtype == torch.float64 and "prior" not in k else t for k, t in tensors.items()}
    tensors = {k: n if torch.equal(n.to(tensors[k].dtype), tensors[k]) else tensors[k] for k, n in narrow.items()}
    tensors["calibration.log_evidence"] = torch.from_numpy(model.calibration_.log_evidence)
    if model.calibration_.scores is not None:
        tensors["calibration.scores"] = torch.from_numpy(model.calibration_.scores)
    return tensors


def _family(family: Family) -> dict[str, Any]:
    name = next(name for name, kind in families.FAMILIES.items() if kind is type(family))
    chosen = [f.name for f in fields(family) if f.init]  # type: ignore[arg-type]
    return {"name": name, "parameters": {parameter: getattr(family, parameter) for parameter in chosen}}


def _plain(name: str, value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if name == "encoder" and not isinstance(value, str):
        return {"module": type(value).__name__ if isinstance(value, nn.Module) else "function"}
    if isinstance(value, nn.Module):
        raise ValueError(f"{name}: a density that was given as a module cannot be saved; name it instead")
    if isinstance(value, Scheme):
        return type(value).__name__.lower()  # how it was trained; a model that is loaded is not trained again
    if isinstance(value, Family):
        return {"family": _family(value)}
    if isinstance(value, Evidence):
        return {"prior": [value.chi.tolist(), float(value.log_n.exp())]}
    if isinstance(value, tuple) and name == "prior":
        return {"prior": [np.asarray(value[0], float).tolist(), float(value[1])]}
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, PathLike):
        return os.fspath(value)
    return value.item() if isinstance(value, np.generic) else value
