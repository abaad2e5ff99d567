"""The routes of the server, and how request bodies are read."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from importlib.resources import files
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from sklearn.utils.validation import check_is_fitted
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from natpn.estimators.base import NatPNEstimator
from natpn.model.updating import check_can_update
from natpn.serve import inference_protocol, openapi
from natpn.serve.access_log import ROWS, AccessLog
from natpn.serve.bodies import Bodies
from natpn.serve.feedback import Served, read_lessons
from natpn.serve.gate import GONE, PAGE, PATHS, Endpoint, Gate
from natpn.serve.identity import Identity
from natpn.serve.inference_protocol import InferenceProtocol
from natpn.serve.metrics import Metrics
from natpn.serve.predictor import COVERAGE, Batcher
from natpn.serve.request_rows import ArrayReader, Reader, RequestError, as_json, header
from natpn.serve.table_rows import TableReader
from natpn.tabular.texts import PLAIN, Written, brief

MAX_BODY = 16 * 2**20
MAX_ROWS = 100_000
MAX_CURVES = 100
_LARGE_BODY = 2**16
_MANY_ANSWERS = 1_000


def create_app(
    model: NatPNEstimator,
    *,
    token: str | None = None,
    max_body: int = MAX_BODY,
    max_rows: int = MAX_ROWS,
    allow_hosts: Iterable[str] = (),
    written: Written = PLAIN,
    identity: Identity | None = None,
    dropped: Iterable[str] = (),
    access_log: bool = False,
    workers: int = 1,
    learn: bool = False,
    keep: Callable[[NatPNEstimator], None] | None = None,
) -> "App":
    """Return the application that serves a fitted model.

    Args:
        model: A fitted `NatPNClassifier` or `NatPNRegressor`.
        token: What clients must send as `Authorization: Bearer …`; None asks for nothing.
        max_body: How many bytes a body may have.
        max_rows: How many rows a request may have.
        allow_hosts: Host names that are accepted, besides addresses and localhost. With a token and no names here,
            every name is accepted: a page of another site that points its name here does not know the token.
        written: How a CSV writes values.
        identity: What the model is called, as in the paths of the Open Inference Protocol, and what it predicts.
        dropped: Columns that were left out in training, which a CSV may have.
        access_log: Whether to write a line to standard output for each request.
        workers: How many processes, copies of this one, will answer.
        learn: Whether there is `POST /feedback`, from which the model learns.
        keep: Called with each model that has learned, before it answers, as to save it; by default it is not saved.
    """
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise ValueError("token: expected printable ASCII characters without spaces, at least one")
    for argument, limit in (("max_body", max_body), ("max_rows", max_rows), ("workers", workers)):
        if limit < 1:
            raise ValueError(f"{argument}: expected a limit of at least 1, got {limit}")
    check_is_fitted(model)
    if learn:
        check_can_update(model.model_)
        if workers > 1:
            raise ValueError(f"learn: expected one worker, since each would learn for itself alone, got {workers}")
    identity = identity or Identity()
    served = Served(model, keep)
    served.predictor.warm_up()
    metrics = Metrics(PATHS, model.model_.watch().novelty, identity.labels(), workers)
    batcher = Batcher(served.answers, counted=metrics.batch)
    bodies = Bodies(max_body)
    columns, shape = model.model_.columns, model.model_.inputs.shape
    reader: Reader = ArrayReader(shape, max_rows)
    if columns is not None:
        reader = TableReader(columns, max_rows, written, {*dropped, identity.target or ""})
    hosts = tuple(allow_hosts)
    about = identity.described() | served.predictor.about()
    protocol = InferenceProtocol(identity.name, about["natpn"], columns, shape, reader)
    described = protocol.metadata(model.model_.answer_without_evidence().records(COVERAGE)[0])

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        batcher.close()

    app = App(
        metrics,
        title="natpn",
        version=about["natpn"],
        description=openapi.DESCRIPTION,
        docs_url=None,  # their scripts would be loaded from another site
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_exception_handler(RequestError, _refuse)
    app.add_exception_handler(ClientDisconnect, _leave)
    app.add_exception_handler(HTTPException, _refuse_path)
    bad = (401,) if token else ()
    plain = openapi.responses(*bad, schema={"type": "object"})
    of_model = openapi.responses(*bad, 404, schema={"type": "object"})

    def count(request: Request, answers: Sequence[dict[str, Any]], watched: bool = True) -> None:
        metrics.rows(answers, watched)
        request.scope[ROWS] = len(answers)

    @app.post(
        "/predict",
        summary="Predict one row or many",
        response_model=None,
        openapi_extra=openapi.predict_operation(columns, shape, max_rows, max_body),
        responses=openapi.responses(
            *bad, 400, 408, 413, 415, 422, 503, schema={"anyOf": [openapi.ANSWER, openapi.ANSWERS]}
        ),
    )
    async def predict(request: Request) -> Response:
        curve, coverage, explain = _flag(request, "curve"), _coverage(request), _flag(request, "explain")
        if explain and (curve or columns is None):
            cure = "ask for one of them" if curve else "leave it out: this model is not one of tables"
            raise RequestError(422, f"explain: expected false beside curve or without columns; {cure}.", "explain")
        form, identifier, drop = _content(request), None, []
        if request.scope["query_string"]:
            identifier, drop = request.query_params.get("id"), request.query_params.getlist("drop")
        how = (form, [] if identifier is None else [identifier], drop)
        async with bodies.read(request) as body:
            large = len(body) > _LARGE_BODY
            rows, alone, kept = await batcher.apart(reader.read, body, *how) if large else reader.read(body, *how)
            if curve and len(rows) > MAX_CURVES:
                message = f"curve: at most {MAX_CURVES} rows have curves at once, got {len(rows)}."
                raise RequestError(413, message, "curve")
            if curve or explain or coverage != COVERAGE:  # those predicted together have intervals of one width
                now = served.predictor
                function = now.with_curves if curve else now.explained if explain else now.answers
                answers: Any = await batcher.apart(function, rows, coverage)
            else:
                answers = await batcher.submit(rows)
            count(request, answers, watched=not curve)  # curves are for the page, where people try out values
            if identifier is not None:
                answers = _named(answers, identifier, kept[identifier])
            if len(answers) > _MANY_ANSWERS:
                return Response(await batcher.apart(_in_pieces, answers), media_type="application/json")
            return as_json(answers[0] if alone else {"rows": answers})

    @app.get(
        "/model",
        summary="Features, classes and how the model was trained",
        response_model=None,
        responses=openapi.responses(*bad, schema={"type": "object"}),
    )
    async def model_(request: Request) -> Response:
        return as_json(about)

    async def feedback(request: Request) -> Response:
        if _content(request) != "json":
            raise RequestError(415, "Rows with their truth are JSON. Set Content-Type: application/json.")
        async with bodies.read(request) as body:
            rows, targets = await batcher.apart(read_lessons, reader, body)
            learned = (await asyncio.to_thread(served.learn, rows, targets)).model_
            metrics.drift.refer_to(learned.watch().novelty)
            about.update(served.predictor.about())
            total = 0 if learned.memory is None else learned.memory.n_rows
            return as_json({"learned": len(rows), "total": total, "saved": keep is not None})

    if learn:
        app.post(
            "/feedback",
            summary="Learn from rows whose truth is known",
            response_model=None,
            openapi_extra=openapi.feedback_operation(columns, max_rows, max_body),
            responses=openapi.responses(*bad, 400, 408, 413, 415, 422, 503, schema={"type": "object"}),
        )(feedback)

    @app.get(
        "/health",
        summary="Whether the server answers",
        response_model=None,
        responses=openapi.responses(schema={"type": "object"}),
    )
    async def health(request: Request) -> Response:
        return as_json({"status": "ok"})

    @app.get(
        "/metrics",
        summary="Requests, latency, rows and drift, for Prometheus",
        response_model=None,
        responses=openapi.responses(*bad, schema={"type": "string"}, media="text/plain"),
    )
    async def metrics_(request: Request) -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get(
        "/drift",
        summary="Whether the rows since the start have drifted from those of training",
        response_model=None,
        responses=openapi.responses(*bad, schema={"type": "object"}),
    )
    async def drift(request: Request) -> Response:
        return as_json(metrics.drift.summary())

    @app.get("/v2", summary="The server, by the Open Inference Protocol", response_model=None, responses=plain)
    async def server(request: Request) -> Response:
        return as_json(protocol.server())

    @app.get("/v2/health/live", summary="Whether the server runs", response_model=None, responses=plain)
    async def live(request: Request) -> Response:
        return as_json({"live": True})

    @app.get("/v2/health/ready", summary="Whether the server answers", response_model=None, responses=plain)
    async def ready(request: Request) -> Response:
        return as_json({"ready": True})

    @app.get("/v2/models/{name}", summary="Tensors of the model", response_model=None, responses=of_model)
    async def metadata(name: str) -> Response:
        protocol.check(name)
        return as_json(described)

    @app.get("/v2/models/{name}/ready", summary="Whether it is there", response_model=None, responses=of_model)
    async def model_ready(name: str) -> Response:
        protocol.check(name)
        return as_json({"name": name, "ready": True})

    @app.post(
        "/v2/models/{name}/infer",
        summary="Predict tensors",
        response_model=None,
        openapi_extra=inference_protocol.REQUEST,
        responses=openapi.responses(*bad, 400, 404, 408, 413, 415, 422, 503, schema={"type": "object"}),
    )
    async def infer(name: str, request: Request) -> Response:
        protocol.check(name)
        if _content(request) != "json":
            raise RequestError(415, "Tensors are JSON. Set Content-Type: application/json.")
        async with bodies.read(request) as body:
            rows, asked = await batcher.apart(protocol.read, body)
            answers: Any = await batcher.submit(rows)
            count(request, answers)
            return as_json(await batcher.apart(protocol.answer, answers, asked))

    folder = files("natpn.serve") / "page"
    for path, (file, media) in PAGE.items():
        app.get(path, include_in_schema=False, response_model=None)(_static((folder / file).read_bytes(), media))
    if token:
        _describe_token(app)
    app.close(token, None if token and not hosts else hosts, AccessLog() if access_log else None)
    return app


class App(FastAPI):
    """The application behind its gate.

    Args:
        metrics: Where requests are counted.
        **options: Those of FastAPI.
    """

    def __init__(self, metrics: Metrics, **options: Any) -> None:
        super().__init__(**options)
        self.metrics = metrics
        self._gate: ASGIApp = super().__call__

    def close(self, token: str | None, hosts: Iterable[str] | None, log: AccessLog | None) -> None:
        """Put the gate before all routes that there are."""
        endpoints: dict[tuple[str, str], Endpoint] = {
            (method, route.path): route.endpoint
            for route in self.routes
            if isinstance(route, APIRoute) and not route.param_convertors
            for method in route.methods or ()
        }
        self._gate = Gate(super().__call__, endpoints, self.metrics, token, hosts, log)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._gate(scope, receive, send)


def _named(answers: Sequence[dict[str, Any]], name: str, texts: list[str]) -> list[dict[str, Any]]:
    """Return answers with the texts of a column that names their rows."""
    if name in answers[0]:
        raise RequestError(422, f"id: an answer has a field {brief(name)} of its own. Rename the column.", "id")
    return [{name: text, **answer} for text, answer in zip(texts, answers, strict=True)]


def _content(request: Request) -> str:
    """Return "json" or "csv", or raise."""
    given = header(request.scope, b"content-type")
    form = _form(given)
    if form is None:
        came = brief(given) if given else "none"
        message = f"Expected Content-Type: application/json or text/csv, in UTF-8, got {came}. Set the header."
        raise RequestError(415, message)
    return form


@lru_cache(100)
def _form(given: str) -> str | None:
    media, _, parameters = given.lower().partition(";")
    charset = parameters.partition("charset=")[2].split(";")[0].strip(' "') or "utf-8"
    if charset not in ("utf-8", "utf8", "us-ascii"):
        return None
    return {"application/json": "json", "text/csv": "csv"}.get(media.strip())


def _flag(request: Request, name: str) -> bool:
    if not request.scope["query_string"]:
        return False
    value = request.query_params.get(name, "false").lower()
    if value not in ("true", "false"):
        raise RequestError(422, f"{name}: expected true or false, got {brief(value)}.", name)
    return value == "true"


def _coverage(request: Request) -> float:
    if not request.scope["query_string"]:
        return COVERAGE
    text = request.query_params.get("coverage", str(COVERAGE))
    try:
        coverage = float(text)
    except ValueError:
        coverage = 0.0
    if not 0 < coverage < 1:
        raise RequestError(422, f"coverage: expected a number between 0 and 1, got {brief(text)}.", "coverage")
    return coverage


def _in_pieces(answers: list[dict[str, Any]]) -> bytes:
    """Return many answers as JSON, piece by piece: orjson holds the interpreter lock while it runs."""
    pieces = (answers[start : start + _MANY_ANSWERS] for start in range(0, len(answers), _MANY_ANSWERS))
    return b'{"rows":[' + b",".join(orjson.dumps(piece, default=str)[1:-1] for piece in pieces) + b"]}"


def _static(content: bytes, media: str) -> Any:
    async def page(request: Request) -> Response:
        return Response(content, media_type=media, headers={"cache-control": "no-cache"})

    return page


async def _refuse(request: Request, error: Any) -> Response:
    refused: Response = error.response()
    return refused


async def _refuse_path(request: Request, error: Any) -> Response:
    path = brief(request.url.path)
    cures = {
        404: f"There is no {path}. Try /predict, /model, /health, /metrics, /v2 or /openapi.json.",
        405: f"{path} does not take {request.method}. See /openapi.json.",
    }
    message = cures.get(error.status_code, "The request cannot be answered. See /openapi.json.")
    return RequestError(error.status_code, message).response(error.headers)


async def _leave(request: Request, error: Any) -> Response:
    return Response(status_code=GONE)  # no one reads it


def _describe_token(app: FastAPI) -> None:
    plain = app.openapi

    def described() -> dict[str, Any]:
        schema = plain()
        schema.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"token": []}]
        schema["paths"]["/health"]["get"]["security"] = []
        return schema

    app.openapi = described  # type: ignore[method-assign]
