"""The routes of the server, and how request bodies are read."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from sklearn.utils.validation import check_is_fitted
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from natpn.estimators.base import NatPNEstimator
from natpn.serve import inference_protocol, openapi
from natpn.serve.gate import GONE, PAGE, Gate, Metrics
from natpn.serve.identity import Identity
from natpn.serve.inference_protocol import InferenceProtocol
from natpn.serve.predictor import COVERAGE, Batcher, Predictor
from natpn.serve.request_rows import ArrayReader, Reader, RequestError, TableReader, as_json
from natpn.tabular.texts import PLAIN, Written, brief

MAX_BODY = 16 * 2**20
MAX_ROWS = 100_000
MAX_CURVES = 100
BODY_SECONDS = 30.0
# All bodies in memory together may be this many times the limit of one.
HELD = 16
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
) -> FastAPI:
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
    """
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise ValueError("token: expected printable ASCII characters without spaces, at least one")
    for argument, limit in (("max_body", max_body), ("max_rows", max_rows)):
        if limit < 1:
            raise ValueError(f"{argument}: expected a limit of at least 1, got {limit}")
    check_is_fitted(model)
    predictor = Predictor(model.model_)
    batcher = Batcher(predictor.answers)
    metrics = Metrics(model.model_.watch().novelty)
    bodies = Bodies(max_body)
    columns, shape = model.model_.inputs.columns, model.model_.inputs.shape
    reader: Reader = ArrayReader(shape, max_rows) if columns is None else TableReader(columns, max_rows, written)
    hosts = tuple(allow_hosts)
    identity = identity or Identity()
    about = identity.described() | predictor.about()
    protocol = InferenceProtocol(identity.name, about["natpn"], columns, shape, reader)
    described = protocol.metadata(model.model_.answer_without_evidence().records(COVERAGE)[0])

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        batcher.close()

    app = FastAPI(
        title="natpn",
        version=about["natpn"],
        description=openapi.DESCRIPTION,
        docs_url=None,  # their scripts would be loaded from another site
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(Gate, metrics=metrics, token=token, hosts=None if token and not hosts else hosts)
    app.add_exception_handler(RequestError, _refuse)
    app.add_exception_handler(ClientDisconnect, _leave)
    app.add_exception_handler(HTTPException, _refuse_path)
    bad = (401,) if token else ()
    plain = openapi.responses(*bad, schema={"type": "object"})
    of_model = openapi.responses(*bad, 404, schema={"type": "object"})

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
        curve, coverage = _flag(request, "curve"), _coverage(request)
        form = _content(request)
        async with bodies.read(request) as body:
            large = len(body) > _LARGE_BODY
            rows, alone = await batcher.apart(reader.read, body, form) if large else reader.read(body, form)
            if curve and len(rows) > MAX_CURVES:
                message = f"curve: at most {MAX_CURVES} rows have curves at once, got {len(rows)}."
                raise RequestError(413, message, "curve")
            if curve or coverage != COVERAGE:  # requests that are predicted together have intervals of one width
                function = predictor.with_curves if curve else predictor.answers
                answers: Any = await batcher.apart(function, rows, coverage)
            else:
                answers = await batcher.submit(rows)
            metrics.rows(answers)
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
        return Response(metrics.text(batcher.batches), media_type="text/plain; version=0.0.4; charset=utf-8")

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
            metrics.rows(answers)
            return as_json(await batcher.apart(protocol.answer, answers, asked))

    folder = files("natpn.serve") / "page"
    for path, (file, media) in PAGE.items():
        app.get(path, include_in_schema=False, response_model=None)(_static((folder / file).read_bytes(), media))
    if token:
        _describe_token(app)
    return app


class Bodies:
    """Reads bodies of a limited number of bytes, in a limited time, and not too many at once."""

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the body, and count its bytes while it is in use."""
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                if int(request.headers.get("content-length", "0")) > self._limit:
                    raise self._too_large()
                async for chunk in request.stream():
                    size += len(chunk)
                    self._held += len(chunk)
                    if size > self._limit:
                        raise self._too_large()
                    if self._held > HELD * self._limit:
                        raise RequestError(503, "Too many large requests are open. Try again in a second.")
                    chunks.append(chunk)
            yield b"".join(chunks)
        except TimeoutError:
            raise RequestError(408, f"The body did not arrive within {BODY_SECONDS:g} s. Send it again.") from None
        finally:
            self._held -= size

    def _too_large(self) -> RequestError:
        return RequestError(413, f"A body may have {self._limit} bytes, this has more. Send it in several requests.")


def _content(request: Request) -> str:
    """Return "json" or "csv", or raise."""
    given = request.headers.get("content-type", "")
    media, _, parameters = given.lower().partition(";")
    charset = parameters.partition("charset=")[2].split(";")[0].strip(' "') or "utf-8"
    form = {"application/json": "json", "text/csv": "csv"}.get(media.strip())
    if form is None or charset not in ("utf-8", "utf8", "us-ascii"):
        came = brief(given) if given else "none"
        message = f"Expected Content-Type: application/json or text/csv, in UTF-8, got {came}. Set the header."
        raise RequestError(415, message)
    return form


def _flag(request: Request, name: str) -> bool:
    value = request.query_params.get(name, "false").lower()
    if value not in ("true", "false"):
        raise RequestError(422, f"{name}: expected true or false, got {brief(value)}.", name)
    return value == "true"


def _coverage(request: Request) -> float:
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
