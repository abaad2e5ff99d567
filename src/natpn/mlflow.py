"""Models in MLflow: logged with their directory as the artefact, and loaded as estimators or as functions of tables.

    with mlflow.start_run():
        info = natpn.mlflow.log_model(model, name="rent")
    natpn.mlflow.load_model(info.model_uri)            # the estimator
    mlflow.pyfunc.load_model(info.model_uri).predict(rows, params={"coverage": 0.5})

An MLflow model holds the files that `save` writes, and nothing that can run code when it is loaded. Its signature has
the columns of the model by name. Values may be missing, but every column has to be there: one that is optional would
count as missing whenever its name is misspelt. Each kind of column says which of MLflow's types its values have
(`Column.mlflow_type`).
"""

import importlib
import sys
import tempfile
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from natpn.estimators import load
from natpn.estimators.base import NatPNEstimator
from natpn.model import TableInputs
from natpn.tabular import Column, TableTransform

FLAVOUR = "natpn"
_DIRECTORY = "natpn-model"  # of the model's files, in `data/`
_COVERAGE = 0.9
_TYPES = {"f": "double", "b": "boolean", "i": "long", "u": "long"}  # of answers; others are texts
_PINNED = ("natpn", "torch", "numpy", "scipy", "scikit-learn", "safetensors", "pandas")


def save_model(
    model: NatPNEstimator,
    path: str | PathLike[str],
    mlflow_model: Any = None,
    input_example: Any = None,
    pip_requirements: Sequence[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Write a fitted estimator to a directory as an MLflow model.

    Args:
        model: The fitted estimator.
        path: The directory, which must not exist yet.
        mlflow_model: MLflow's description of the model, to which this one is added; a new one by default.
        input_example: A few rows that MLflow keeps with the model; none by default.
        pip_requirements: What the model needs; by default natpn and what it stands on, in the versions of this machine.
        metadata: Whatever else MLflow shall keep.

    Raises:
        ImportError: If mlflow-skinny or pandas is not installed.
        ValueError: If the model cannot be loaded from its files alone.
    """
    mlflow = _import_mlflow()
    _check(model)
    about = mlflow.models.Model(metadata=metadata) if mlflow_model is None else mlflow_model
    about.add_flavor(FLAVOUR, natpn_version=version("natpn"), data=f"data/{_DIRECTORY}")
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow asks for an example, to guess the signature from
        model.save(Path(scratch, _DIRECTORY))
        mlflow.pyfunc.save_model(
            str(path),
            loader_module=__name__,
            data_path=str(Path(scratch, _DIRECTORY)),
            mlflow_model=about,
            signature=signature(model),
            input_example=input_example,
            pip_requirements=default_requirements() if pip_requirements is None else list(pip_requirements),
        )


def log_model(
    model: NatPNEstimator,
    name: str = "model",
    registered_model_name: str | None = None,
    input_example: Any = None,
    pip_requirements: Sequence[str] | None = None,
    metadata: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Log a fitted estimator to the active run of MLflow, or to a new one.

    Args:
        model: The fitted estimator.
        name: The name of the logged model.
        registered_model_name: The name under which it is registered, too; not by default.
        input_example: A few rows that MLflow keeps with the model; none by default.
        pip_requirements: What the model needs; by default natpn and what it stands on, in the versions of this machine.
        metadata: Whatever else MLflow shall keep.
        **options: Further arguments of `mlflow.models.Model.log`, such as tags.

    Returns:
        MLflow's `ModelInfo`; its `model_uri` is what `load_model` takes.

    Raises:
        ImportError: If mlflow-skinny or pandas is not installed.
        ValueError: If the model cannot be loaded from its files alone.
    """
    mlflow = _import_mlflow()
    _check(model)
    return mlflow.models.Model.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        model=model,
        registered_model_name=registered_model_name,
        input_example=input_example,
        pip_requirements=pip_requirements,
        metadata=metadata,
        **options,
    )


def load_model(model_uri: str) -> Any:
    """Return the estimator that `log_model` or `save_model` wrote.

    For a function of tables, as MLflow serves it, use `mlflow.pyfunc.load_model`.

    Args:
        model_uri: Where it is, as MLflow says it: "models:/rent/3", "runs:/…/rent", or a directory.

    Raises:
        ImportError: If mlflow-skinny or pandas is not installed.
        ValueError: If it is not one of ours.
    """
    mlflow = _import_mlflow()
    place = Path(mlflow.artifacts.download_artifacts(artifact_uri=str(model_uri)))
    about = mlflow.models.Model.load(str(place))
    if FLAVOUR not in about.flavors:
        found = ", ".join(about.flavors)
        raise ValueError(
            f"model_uri: expected a model that natpn.mlflow wrote, got one of {found} at {model_uri}; load it with "
            "mlflow.pyfunc.load_model"
        )
    return load(place / about.flavors[FLAVOUR]["data"])


def signature(model: NatPNEstimator) -> Any:
    """Return MLflow's signature of a fitted estimator: its columns, those of `predict_frame`, and the coverage."""
    mlflow = _import_mlflow()
    types, schema = mlflow.types, importlib.import_module("mlflow.types.schema")
    inputs = model.model_.inputs
    if isinstance(inputs, TableInputs) and inputs.table.named:
        specs = [
            types.ColSpec(schema.AnyType() if column.mlflow_type == "any" else column.mlflow_type, column.name)
            for column in model.model_.columns or []
        ]
    else:
        shape = (len(inputs.table.columns),) if isinstance(inputs, TableInputs) else inputs.shape
        specs = [types.TensorSpec(np.dtype(np.float64), (-1, *shape))]
    answer = _any_answer(model)
    outputs = [types.ColSpec(_TYPES.get(answer[name].dtype.kind, "string"), name) for name in answer.columns]
    coverage = types.ParamSpec("coverage", types.DataType.double, _COVERAGE)
    return mlflow.models.ModelSignature(types.Schema(specs), types.Schema(outputs), types.ParamSchema([coverage]))


def _any_answer(model: NatPNEstimator) -> Any:
    """Return the answer to one row."""
    inputs = model.model_.inputs
    if not isinstance(inputs, TableInputs):
        return model.predict_frame(np.zeros((1, *inputs.shape)), _COVERAGE)
    columns = model.model_.columns or []
    return model.predict_frame(_as_known(inputs.table, columns, [[column.usual for column in columns]]), _COVERAGE)


def _as_known(table: TableTransform, columns: Sequence[Column], rows: Any) -> Any:
    """Return rows as a frame, with names if training had them."""
    pandas = importlib.import_module("pandas")
    return pandas.DataFrame(rows, columns=[column.name for column in columns]) if table.named else rows


def default_requirements() -> list[str]:
    """Return natpn and what it stands on, in the versions of this machine; nothing is imported or downloaded for it."""
    return [f"{name}=={version(name).partition('+')[0]}" for name in _PINNED]


class TableFunction:
    """What MLflow calls: rows in, the columns of `predict_frame` out.

    Args:
        model: The fitted estimator.
    """

    def __init__(self, model: NatPNEstimator) -> None:
        self.model = model

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Return predictions and uncertainties in named columns.

        Args:
            data: Rows, as the signature says.
            params: `coverage`, the probability with which the interval holds the target.
        """
        return self.model.predict_frame(data, **{"coverage": _COVERAGE, **(params or {})})


def _load_pyfunc(path: str) -> TableFunction:
    """Return what MLflow calls; it asks for it by this name."""
    return TableFunction(load(path))


def _check(model: NatPNEstimator) -> None:
    """Raise if a model is not fitted, or cannot be loaded from its files alone."""
    check_is_fitted(model)
    if not isinstance(model.encoder, str):
        raise ValueError(
            "model: expected one with an encoder that has a name, got one that was given as a module, whose code is "
            "not saved: log the directory that `save` writes, and load it with natpn.load(directory, encoder=…)"
        )


def _import_mlflow() -> Any:
    try:
        importlib.import_module("pandas")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of type hints of its own
            importlib.import_module("mlflow.pyfunc")
        return importlib.import_module("mlflow")
    except ImportError as error:
        raise ImportError(
            f"natpn.mlflow needs the package {error.name!r}; in a clone of natpn, run: pip install '.[mlflow]'"
        ) from error
