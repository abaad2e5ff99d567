"""Models on disk: a directory with `config.json` and `model.safetensors`, and nothing that can run code.

`config.json` holds the schema version, the class, its parameters, what was learned about inputs and targets, and
checksums of itself and of the tensors. It is written beside and renamed, so a directory is whole or not there.
"""

import hashlib
import json
import os
import shutil
import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import nn

import natpn
from natpn import families
from natpn.estimators.base import NatPNEstimator
from natpn.estimators.classifier import NatPNClassifier
from natpn.estimators.conformal import Calibration
from natpn.estimators.inputs import KINDS
from natpn.estimators.regressor import NatPNRegressor
from natpn.estimators.units import Units
from natpn.evidence import Evidence
from natpn.families import Family

SCHEMA = 1
CONFIG, TENSORS = "config.json", "model.safetensors"
CLASSES: dict[str, type[NatPNEstimator]] = {kind.__name__: kind for kind in (NatPNClassifier, NatPNRegressor)}


def save(model: NatPNEstimator, directory: str | PathLike[str]) -> None:
    """Write a fitted model to a directory; a model that is there is replaced.

    Raises:
        ValueError: If the directory holds something else, or the model has parts that cannot be written.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    place = Path(directory)
    if place.exists() and (not place.is_dir() or (any(place.iterdir()) and not (place / CONFIG).exists())):
        raise ValueError(f"{place} exists and is not a model: choose another directory")
    tensors = save_tensors(_tensors(model))
    config = _config(model) | {"tensors_sha256": hashlib.sha256(tensors).hexdigest()}
    config["sha256"] = _checksum(config)
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        for name, content in ((TENSORS, tensors), (CONFIG, json.dumps(config, indent=1).encode())):
            with (beside / name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        beside.chmod(0o755)
        if place.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
            os.replace(place, old)
            os.replace(beside, place)
            shutil.rmtree(old)
        else:
            os.replace(beside, place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def load(directory: str | PathLike[str], *, encoder: nn.Module | None = None) -> Any:
    """Read a model that `save` wrote.

    Args:
        directory: The directory.
        encoder: The module that was given as `encoder=`, if one was: code is not saved, only its weights are.

    Returns:
        The fitted `NatPNClassifier` or `NatPNRegressor`.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If the model was cut short, changed, or written by a newer version.
    """
    place = Path(directory)
    if not (place / CONFIG).is_file():
        raise FileNotFoundError(f"{place}: no model there; expected a directory with {CONFIG} and {TENSORS}")
    config = _read_config(place / CONFIG)
    if not (place / TENSORS).is_file():
        raise FileNotFoundError(f"{place}: {TENSORS} is missing; copy the whole directory")
    content = (place / TENSORS).read_bytes()
    if hashlib.sha256(content).hexdigest() != config["tensors_sha256"]:
        raise ValueError(f"{place / TENSORS}: it was cut short or changed since it was written; save the model again")
    try:
        return _rebuild(config, load_tensors(content), encoder)
    except (KeyError, TypeError, SafetensorError, RuntimeError) as error:
        raise ValueError(f"{place}: the model cannot be read, {type(error).__name__}: {error}") from error


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_bytes())
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: it was cut short or is no JSON ({error}); save the model again") from None
    if not isinstance(config, dict) or not isinstance(config.get("schema"), int):
        raise ValueError(f"{path}: it is not the description of a natpn model")
    if config["schema"] > SCHEMA:
        raise ValueError(
            f"{path}: it was written with schema {config['schema']} by natpn {config.get('natpn')}, and this natpn "
            f"{natpn.__version__} reads up to schema {SCHEMA}: update natpn"
        )
    if config.pop("sha256", None) != _checksum(config):
        raise ValueError(f"{path}: it was changed since it was written; save the model again")
    return config


def _checksum(config: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def _config(model: NatPNEstimator) -> dict[str, Any]:
    config = {
        "schema": SCHEMA,
        "natpn": natpn.__version__,
        "class": type(model).__name__,
        "parameters": {name: _plain(name, value) for name, value in model.get_params(deep=False).items()},
        "inputs": {"kind": model.inputs_.kind, **model.inputs_.to_config()},
        "family": _family(model.family_),
        "n_rows": model.n_rows_,
        "n_features_in": model.n_features_in_,
        "feature_names_in": getattr(model, "feature_names_in_", np.array([])).tolist() or None,
        "history": model.history_[-1:],
    }
    if isinstance(model, NatPNRegressor):
        config["units"] = model.units_.to_config()
    if isinstance(model, NatPNClassifier):
        kind = model.classes_.dtype
        config["classes"] = {"dtype": kind.str if kind.kind != "O" else "object", "labels": model.classes_.tolist()}
        if any(not isinstance(label, (str, int, float, bool)) for label in model.classes_.tolist()):
            raise ValueError("The labels cannot be written: expected texts, numbers or booleans")
    return config


def _tensors(model: NatPNEstimator) -> dict[str, torch.Tensor]:
    tensors = {f"network.{name}": t.contiguous().cpu() for name, t in model.network_.state_dict().items()}
    # Weights were trained in float32 and widened; narrowing them is exact. The prior is wide from the start.
    narrow = {k: t.float() if t.dtype == torch.float64 and "prior" not in k else t for k, t in tensors.items()}
    tensors = {k: n if torch.equal(n.to(tensors[k].dtype), tensors[k]) else tensors[k] for k, n in narrow.items()}
    tensors["calibration.log_evidence"] = torch.from_numpy(model.calibration_.log_evidence)
    if model.calibration_.scores is not None:
        tensors["calibration.scores"] = torch.from_numpy(model.calibration_.scores)
    return tensors


def _rebuild(config: dict[str, Any], tensors: dict[str, torch.Tensor], encoder: nn.Module | None) -> NatPNEstimator:
    if config["class"] not in CLASSES:
        raise ValueError(f"The model is a {config['class']!r}; known are {', '.join(CLASSES)}")
    parameters = dict(config["parameters"])
    for name, value in parameters.items():
        if isinstance(value, dict):
            parameters[name] = _unplain(name, value, encoder)
    model = CLASSES[config["class"]](**parameters)
    inputs = dict(config["inputs"])
    model.inputs_ = KINDS[inputs.pop("kind")].from_config(inputs)
    model.family_ = families.get(config["family"]["name"], **config["family"]["parameters"])
    model.n_features_in_, model.n_rows_ = config["n_features_in"], config["n_rows"]
    if config["feature_names_in"]:
        model.feature_names_in_ = np.array(config["feature_names_in"], dtype=object)
    model.history_ = config["history"]
    if isinstance(model, NatPNRegressor):
        model.units_ = Units.from_config(model.family_, config["units"])
    if isinstance(model, NatPNClassifier):
        model.classes_ = np.array(config["classes"]["labels"], dtype=config["classes"]["dtype"])
    model.network_ = model._build(model.n_rows_, 0)
    state = {k.removeprefix("network."): t for k, t in tensors.items() if k.startswith("network.")}
    model._finish()
    model.network_.load_state_dict(state)
    scores = tensors.get("calibration.scores")
    model.calibration_ = Calibration(
        tensors["calibration.log_evidence"].numpy(), None if scores is None else scores.numpy()
    )
    return model


def _family(family: Family) -> dict[str, Any]:
    name = next(name for name, kind in families.FAMILIES.items() if kind is type(family))
    return {"name": name, "parameters": dict(vars(family))}


def _plain(name: str, value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, nn.Module):
        if name == "encoder":
            return {"module": type(value).__name__}
        raise ValueError(f"{name}: a density that was given as a module cannot be saved; name it instead")
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


def _unplain(name: str, value: dict[str, Any], encoder: nn.Module | None) -> Any:
    if "family" in value:
        return families.get(value["family"]["name"], **value["family"]["parameters"])
    if "prior" in value:
        return tuple(value["prior"])
    if encoder is None:
        raise ValueError(
            f"The model was fitted with an encoder of its own, a {value['module']}: give it, as in "
            "load(directory, encoder=…)"
        )
    return encoder
