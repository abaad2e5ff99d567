"""The routes: what is asked, what is answered, and what every request passes through."""

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from natpn.estimators.base import NatPNEstimator
from natpn.serve import openapi
from natpn.serve.batching import Batcher
from natpn.serve.errors import RequestError, shown
from natpn.serve.metrics import CONTENT_TYPE, Metrics
from natpn.serve.predictor import Predictor
from natpn.serve.rows import ArrayReader, Row, TableReader
from natpn.serve.schema import columns_of

MAX_BODY = 16 * 2**20
MAX_ROWS = 100_000
MAX_CURVES = 100
BODY_SECONDS = 30.0
# Bytes of all bodies that are held at once: many large requests together must not use up the memory.
HELD = 16
_LARGE_BODY = 2**16
_LOG = logging.getLogger(__name__)

PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}
# A page and its parts are the same for every model, and a browser sends no token with them.
OPEN = {"/health", *PAGE}
PATHS = {"/predict", "/model", "/metrics", "/openapi.json", *OPEN}
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


def create_app(
    model: NatPNEstimator, *, token: str | None = None, max_body: int = MAX_BODY, max_rows: int = MAX_ROWS
) -> FastAPI:
    """Return the application that serves a fitted model.

    Args:
        model: A fitted `NatPNClassifier` or `NatPNRegressor`.
        token: What clients must send as `Authorization: Bearer …`; None asks for nothing.
        max_body: How many bytes a body may have.
        max_rows: How many rows a request may have.
    """
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise ValueError("token: expected printable ASCII characters without spaces, at least one")
    for name, limit in (("max_body", max_body), ("max_rows", max_rows)):
        if limit < 1:
            raise ValueError(f"{name}: expected a limit of at least 1, got {limit}")
    predictor = Predictor(model)
    batcher = Batcher[Row, dict[str, Any]](predictor.answers)
    metrics = Metrics()
    columns = columns_of(model)
    shape = model.inputs_.shape
    reader = ArrayReader(shape, max_rows) if columns is None else TableReader(columns, max_rows)
    bodies = Bodies(max_body)
    about = orjson.dumps(predictor.about(), default=str)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        batcher.close()

    app = FastAPI(
        title="natpn",
        version=predictor.about()["natpn"],
        description=openapi.DESCRIPTION,
        docs_url=None,  # they load their scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(Gate, metrics=metrics, token=token)
    _add_errors(app)
    bad = (401,) if token else ()

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
        curve = _flag(request, "curve")
        form = _content(request)
        async with bodies.read(request) as body:
            read = reader.json if form == "json" else lambda body: (reader.csv(body), False)
            rows, alone = await batcher.apart(read, body) if len(body) > _LARGE_BODY else read(body)
            if curve and len(rows) > MAX_CURVES:
                raise RequestError(
                    413, f"curve: at most {MAX_CURVES} rows have curves at once, got {len(rows)}.", "curve"
                )
            answers: Any = await (batcher.apart(predictor.with_curves, rows) if curve else batcher.submit(rows))
            metrics.rows(len(answers), sum(a["novel"] for a in answers), sum(a["familiarity"] for a in answers))
            return _json(answers[0] if alone else {"rows": answers})

    @app.get(
        "/model",
        summary="Features, classes and how the model was trained",
        response_model=None,
        responses=openapi.responses(*bad, schema={"type": "object"}),
    )
    async def model_(request: Request) -> Response:
        return Response(about, media_type="application/json")

    @app.get(
        "/health",
        summary="Whether the server answers",
        response_model=None,
        responses=openapi.responses(schema={"type": "object"}),
    )
    async def health(request: Request) -> Response:
        return _json({"status": "ok"})

    @app.get(
        "/metrics",
        summary="Requests, latency, rows and drift, for Prometheus",
        response_model=None,
        responses=openapi.responses(*bad, schema={"type": "string"}, media="text/plain"),
    )
    async def metrics_(request: Request) -> Response:
        return Response(metrics.text(batcher.batches), media_type=CONTENT_TYPE)

    folder = files("natpn.serve") / "page"
    for path, (name, media) in PAGE.items():
        app.get(path, include_in_schema=False, response_model=None)(_static((folder / name).read_bytes(), media))
    if token:
        _describe_token(app)
    return app


class Gate:
    """What every request passes through: the token, the clock, and headers for browsers.

    Args:
        app: The application behind it.
        metrics: Where requests are counted.
        token: The token to ask for, if any.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, token: str | None) -> None:
        self._app = app
        self._metrics = metrics
        self._expected = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status, started = 500, False

        async def noting(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        path = scope["path"] if scope["path"] in PATHS else "other"
        try:
            if self._expected is not None and path not in OPEN and not self._knows(scope):
                error = RequestError(401, "A token is needed. Send it as Authorization: Bearer <token>.")
                refusal = _json(error.body(), 401, {"www-authenticate": "Bearer"})
                await refusal(scope, receive, noting)
            else:
                await self._app(scope, receive, noting)
        except Exception:
            # Told to the log, and not to the client, whose connection lives on.
            _LOG.exception("%s %s failed", scope["method"], path)
            if not started:
                error = RequestError(500, "Something went wrong in the server. Its log says what.")
                await _json(error.body(), 500)(scope, receive, noting)
        finally:
            self._metrics.request(path, status, time.perf_counter() - start)

    def _knows(self, scope: Scope) -> bool:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._expected or b"")


class Bodies:
    """Read bodies of a limited size, in a limited time, and not too many at once.

    Args:
        limit: How many bytes one may have.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Give the body, and count its bytes as long as it is in use."""
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
        came = f"got {shown(given)}" if given else "got none"
        raise RequestError(
            415, f"Expected Content-Type: application/json or text/csv, in UTF-8, {came}. Set the header."
        )
    return form


def _flag(request: Request, name: str) -> bool:
    value = request.query_params.get(name, "false").lower()
    if value not in ("true", "false"):
        raise RequestError(422, f"{name}: expected true or false, got {shown(value)}.", name)
    return value == "true"


def _json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    # NaN and infinity become null.
    return Response(orjson.dumps(content, default=str), status, headers, "application/json")


def _static(content: bytes, media: str) -> Any:
    async def page(request: Request) -> Response:
        return Response(content, media_type=media, headers={"cache-control": "no-cache"})

    return page


def _add_errors(app: FastAPI) -> None:
    async def refuse(request: Request, error: Exception) -> Response:
        if not isinstance(error, RequestError):
            raise error
        # Whoever sends too much would send the rest into the next request.
        close = {"connection": "close"} if error.status in (408, 413, 503) else {}
        retry = {"retry-after": "1"} if error.status == 503 else {}
        return _json(error.body(), error.status, close | retry)

    async def other(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 400
        path = shown(request.url.path)
        cures = {
            404: f"There is no {path}. Try /predict, /model, /health, /metrics or /openapi.json.",
            405: f"{path} does not take {request.method}. See /openapi.json.",
        }
        message = cures.get(status, "The request cannot be answered. See /openapi.json.")
        headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
        return _json(RequestError(status, message).body(), status, headers)

    app.add_exception_handler(RequestError, refuse)
    app.add_exception_handler(HTTPException, other)


def _describe_token(app: FastAPI) -> None:
    plain = app.openapi

    def described() -> dict[str, Any]:
        schema = plain()
        schema.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"token": []}]
        schema["paths"]["/health"]["get"]["security"] = []
        return schema

    app.openapi = described  # type: ignore[method-assign]
