"""How well ONNX graphs agree: quantiles of Student's t against scipy, and real tables against `predict_frame`.

    python benchmarks/export.py                  # the quantiles, and three tables by the module that is exported
    python benchmarks/export.py --onnxruntime    # the tables by onnxruntime, which takes a minute more

The tables are found under `NATPN_DATA`: each model is fitted on 1,000 rows and asked about 1,000 others, of which one
in seven gets a new category and one in eleven a missing value in each column.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy import stats

from natpn import NatPNClassifier, NatPNRegressor
from natpn.export import export_onnx
from natpn.export.graph_module import LEVELS, Answers
from natpn.families import StudentT
from natpn.families.normal import student_quantiles

TABLES = ("hotel_rates", "king_county", "adult")
SHOWN = ("prediction", "lower", "upper", "aleatoric", "epistemic", "familiarity")


def quantiles():
    df = np.concatenate([np.exp2(np.linspace(-3, 20, 100_001)), np.logspace(6, 14, 2001)])
    t = StudentT(torch.zeros(len(df)).double(), torch.ones(len(df)).double(), torch.from_numpy(df))
    for levels in (LEVELS, (1e-12, 1e-9, 1e-6, 1e-3, 0.49)):
        exact = stats.t.ppf(levels, df[:, None])
        gap = np.abs(student_quantiles(levels)(t).numpy() - exact) / np.where(exact == 0, 1, np.abs(exact))
        print(f"Student's t at {', '.join(f'{q:g}' for q in levels)}: largest relative error {gap.max():.1e}")


def given(model, rows):
    """Return what a graph takes for each column, and the numbers that texts become."""
    feed, numbers = {}, []
    for column in model.model_.inputs.columns:
        values, codes = rows[column.name], column.arithmetic.codes
        if codes is not None:
            texts = values.astype(object).where(values.notna(), "").astype(str)
            feed[column.name] = texts.to_numpy(object)
            numbers.append([codes.of.get(text, codes.otherwise) for text in texts])
            continue
        if column.kind == "date":
            values = pd.Series(np.where(values.isna(), np.nan, values.to_numpy("M8[us]").astype(np.int64) / 1e6))
        feed[column.name] = values.to_numpy(float, na_value=np.nan)
        numbers.append(feed[column.name])
    return feed, np.stack([np.asarray(one, float) for one in numbers], 1)


def table(name, runtime):
    data = Path(os.environ["NATPN_DATA"]) / "arena"
    task = next(task for task in json.loads((data / "tasks.json").read_text()) if task["name"] == name)
    frame = pd.read_parquet(data / task["file"]).sample(2000, random_state=0).drop(columns=task["drop"])
    X, y = frame.drop(columns=task["target"]).reset_index(drop=True), frame[task["target"]].to_numpy()
    kind = NatPNRegressor if task["classes"] is None else NatPNClassifier
    model = kind(ensemble_size=1, max_epochs=10, random_state=0).fit(X.head(1000), y[:1000])
    rows = X.tail(1000).reset_index(drop=True).astype({c: float for c in X if X[c].dtype.kind in "iu"})
    for place, column in enumerate(model.model_.inputs.columns):
        if column.kind == "category":
            rows[column.name] = rows[column.name].astype(object)
            rows.loc[place::7, column.name] = "never seen"
        if column.kind != "boolean":
            rows.loc[place::11, column.name] = None
    feed, numbers = given(model, rows)
    if runtime:
        import onnxruntime

        with tempfile.TemporaryDirectory() as directory:
            export_onnx(model, directory + "/m.onnx")
            session = onnxruntime.InferenceSession(directory + "/m.onnx")
        found = dict(zip([o.name for o in session.get_outputs()], session.run(None, feed), strict=True))
    else:
        answers = Answers(model.model_)
        with torch.no_grad():
            found = dict(zip(answers.outputs, answers(torch.from_numpy(numbers)), strict=True))
    expected = model.predict_frame(rows)
    gaps = {}
    for column in SHOWN:
        if column in found and expected[column].dtype.kind == "f":
            exact = expected[column].to_numpy()
            gaps[column] = np.max(np.abs(np.asarray(found[column]) - exact) / (1 + np.abs(exact)))
    print(f"{name}: " + ", ".join(f"{column} {gap:.0e}" for column, gap in gaps.items()))


if __name__ == "__main__":
    quantiles()
    for each in TABLES:
        table(each, "--onnxruntime" in sys.argv)
