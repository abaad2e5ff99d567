"""Reading models that were written by `natpn.estimators.saving`."""

import hashlib
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import nn

from natpn import families
from natpn.estimators.base import NatPNEstimator
from natpn.estimators.checking import build_network, check_config, read_json
from natpn.estimators.classifier import NatPNClassifier
from natpn.estimators.conformal import Calibration
from natpn.estimators.inputs import KINDS
from natpn.estimators.regressor import NatPNRegressor
from natpn.estimators.saving import CONFIG, SCHEMA, TENSORS, checksum, hidden
from natpn.estimators.units import Units

CLASSES: dict[str, type[NatPNEstimator]] = {kind.__name__: kind for kind in (NatPNClassifier, NatPNRegressor)}


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
    if not place.exists() and (hidden(place) / CONFIG).is_file():
        place = hidden(place)
    if not (place / CONFIG).is_file():
        raise FileNotFoundError(f"{place}: no model there; expected a directory with {CONFIG} and {TENSORS}")
    config = _read_config(place / CONFIG)
    if not (place / TENSORS).is_file():
        raise FileNotFoundError(f"{place}: {TENSORS} is missing; copy the whole directory")
    content = (place / TENSORS).read_bytes()
    if hashlib.sha256(content).hexdigest() != config.get("tensors_sha256"):
        raise ValueError(f"{place / TENSORS}: it was cut short or changed since it was written; save the model again")
    try:
        return _rebuild(config, load_tensors(content), encoder)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, SafetensorError, RuntimeError) as error:
        raise ValueError(f"{place}: the model cannot be read, {type(error).__name__}: {error}") from error


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = read_json(path.read_bytes())
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: it was cut short or is no JSON ({error}); save the model again") from None
    if not isinstance(config, dict) or not isinstance(config.get("schema"), int):
        raise ValueError(f"{path}: it is not the description of a natpn model")
    if config["schema"] > SCHEMA:
        raise ValueError(
            f"{path}: it was written with schema {config['schema']} by natpn {config.get('natpn')}, and this natpn "
            f"{version('natpn')} reads up to schema {SCHEMA}: update natpn"
        )
    if config.pop("sha256", None) != checksum(config):
        raise ValueError(f"{path}: it was changed since it was written; save the model again")
    return config


def _rebuild(config: dict[str, Any], tensors: dict[str, torch.Tensor], encoder: nn.Module | None) -> NatPNEstimator:
    if config["class"] not in CLASSES:
        raise ValueError(f"The model is a {config['class']!r}; known are {', '.join(CLASSES)}")
    check_config(config, tensors)
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
    model.network_ = build_network(model, tensors)
    model._finish()
    scores = tensors.get("calibration.scores")
    model.calibration_ = Calibration(
        tensors["calibration.log_evidence"].numpy(), None if scores is None else scores.numpy()
    )
    return model


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
