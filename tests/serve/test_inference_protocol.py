"""The Open Inference Protocol: the same answers as `POST /predict`, in tensors."""

import numpy as np
import pytest

from natpn.serve import Identity, create_app
from serve.serving import client_of, row

ROWS = [row(), row(area=None, district="harbour"), row(area=1e6)]
KINDS = {"area": "FP64", "rooms": "INT64", "district": "BYTES", "garden": "BOOL", "built": "BYTES"}


def tensors(rows, nested=False):
    return [
        {"name": name, "datatype": kind, "shape": [len(rows), 1] if nested else [len(rows)],
         "data": [[r[name]] if nested else r[name] for r in rows]}
        for name, kind in KINDS.items()
    ]  # fmt: skip


def infer(client, inputs, status=200, name="model", **more):
    answer = client.post(f"/v2/models/{name}/infer", json={"inputs": inputs} | more)
    assert answer.status_code == status, answer.text
    return answer.json()


def outputs(answer):
    return {tensor["name"]: tensor for tensor in answer["outputs"]}


@pytest.mark.parametrize("nested", [False, True])
def test_tensors_say_what_rows_say(client, nested):
    expected = client.post("/predict", json={"rows": ROWS}).json()["rows"]
    answer = infer(client, tensors(ROWS, nested), id="a-7")
    assert (answer["model_name"], answer["id"]) == ("model", "a-7")
    found = outputs(answer)
    assert list(found) == list(expected[0])
    for name, tensor in found.items():
        assert tensor["data"] == [record[name] for record in expected]
        assert tensor["shape"] == [3]
    assert found["novel"]["datatype"] == "BOOL"


def test_outputs_can_be_chosen(client):
    found = infer(client, tensors(ROWS), outputs=[{"name": "upper"}, {"name": "novel"}])["outputs"]
    assert [tensor["name"] for tensor in found] == ["upper", "novel"]


def test_probabilities_of_classes_are_one_tensor(class_client):
    about = class_client.get("/v2/models/model").json()
    names = [tensor["name"] for tensor in about["inputs"]]
    inputs = [{"name": name, "datatype": "FP64", "shape": [2], "data": [0.5, -1]} for name in names]
    found = outputs(infer(class_client, inputs))
    assert found["probabilities"]["shape"] == [2, 3]
    assert sum(found["probabilities"]["data"]) == pytest.approx(2)
    assert found["prediction"]["datatype"] == "BYTES"
    described = {tensor["name"]: tensor for tensor in about["outputs"]}
    assert {name: tensor["datatype"] for name, tensor in described.items()} == {
        name: tensor["datatype"] for name, tensor in found.items()
    }
    assert described["probabilities"]["shape"] == [-1, 3]


def test_pictures_are_one_tensor(painter):
    pictures = np.random.default_rng(1).normal(size=(2, 1, 8, 8))
    with client_of(create_app(painter, identity=Identity("painter"))) as client:
        flat = {"name": "x", "datatype": "FP32", "shape": [2, 1, 8, 8], "data": pictures.ravel().tolist()}
        nested = flat | {"data": pictures.tolist()}
        one, other = (infer(client, [tensor], name="painter") for tensor in (flat, nested))
        expected = client.post("/predict", json={"rows": pictures.tolist()}).json()["rows"]
    assert one == other
    assert outputs(one)["epistemic"]["data"] == [record["epistemic"] for record in expected]


def test_server_and_model_are_described(client):
    assert client.get("/v2").json()["name"] == "natpn"
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2/models/model/ready").json() == {"name": "model", "ready": True}
    inputs = client.get("/v2/models/model").json()["inputs"]
    assert [tensor["name"] for tensor in inputs] == list(KINDS)


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ([], "expected a list of tensors"),
        ([{"name": "area"}], "expected a shape of whole numbers"),
        (tensors(ROWS)[:2], "Missing features"),
        ([*tensors(ROWS), tensors(ROWS)[0]], "two tensors have the same name"),
        ([tensors(ROWS)[0] | {"shape": [2]}, *tensors(ROWS)[1:]], "not of shape"),
        ([tensors(ROWS)[0] | {"datatype": "FP9"}, *tensors(ROWS)[1:]], "expected a datatype"),
        ([*tensors(ROWS)[:4], tensors(ROWS[:2])[4]], "different numbers of rows"),
        ([tensors(ROWS)[0] | {"data": ["much", 1, 2]}, *tensors(ROWS)[1:]], "expected a finite number"),
        ([t | {"shape": [0], "data": []} for t in tensors(ROWS)], "it has no rows"),
    ],
)
def test_what_is_wrong_is_said(client, inputs, sentence):
    assert sentence in infer(client, inputs, status=422)["error"]


def test_other_models_are_not_there(client):
    assert "There is no model 'other'" in infer(client, tensors(ROWS), status=404, name="other")["error"]
    assert client.get("/v2/models/other").status_code == 404
    assert "there is no 'width'" in infer(client, tensors(ROWS), 422, outputs=[{"name": "width"}])["error"]


def test_a_token_is_asked_for(regressor):
    with client_of(create_app(regressor, token="secret")) as client:
        assert client.get("/v2/models/model").status_code == 401
        assert client.get("/v2/health/ready").status_code == 200
