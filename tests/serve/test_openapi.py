"""The description of the interface, and requests made from it at random: no fault of the server, no traceback."""

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from natpn.serve import create_app
from serve.serving import row, serving

SETTINGS = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)


@pytest.fixture(scope="module")
def address(regressor):
    with serving(create_app(regressor)) as address:
        yield address


def test_the_description_is_complete(client):
    schema = client.get("/openapi.json").json()
    own = {path for path in schema["paths"] if not path.startswith("/v2")}
    assert own == {"/predict", "/model", "/health", "/metrics", "/drift"}
    one = schema["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]["anyOf"][0]
    assert one["required"] == ["area", "rooms", "district", "garden", "built"]
    assert "null" in schema["info"]["description"]
    assert client.post("/predict", json=one["example"]).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/predict", "/v2/models/{name}/infer"])
def test_requests_made_from_the_description(address, path):
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    operation = schema[path]["POST"]

    @SETTINGS
    @given(case=operation.as_strategy())
    def valid(case):
        case.call_and_validate(checks=[not_a_server_error, status_code_conformance, response_schema_conformance])

    @SETTINGS
    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))
    def broken(case):
        answer = case.call_and_validate(checks=[not_a_server_error, status_code_conformance])
        assert "Traceback" not in answer.text

    valid()
    broken()


anything = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
dates = st.datetimes().map(lambda moment: moment.isoformat())


def test_values_of_every_kind_in_every_field(client):
    @settings(SETTINGS, max_examples=150)
    @given(st.dictionaries(st.sampled_from(list(row())), anything | dates, max_size=3), st.booleans())
    def ask(changes, many):
        body = row(**changes)
        answer = client.post("/predict", json={"rows": [row(), body]} if many else body)
        assert answer.status_code in (200, 422), answer.text
        if answer.status_code == 422:
            assert answer.json()["field"] in changes

    ask()


def test_bytes_of_every_kind(client):
    @settings(SETTINGS, max_examples=100)
    @given(st.binary(max_size=100), st.sampled_from(["application/json", "text/csv"]))
    def ask(body, media):
        for content in (body, b"area,rooms,district,garden,built\n" + body):
            answer = client.post("/predict", content=content, headers={"content-type": media})
            assert answer.status_code in (200, 400, 422), answer.text

    ask()
