"""What every request passes through: the host, the token, the clock, and headers for browsers."""

import hmac
import ipaddress
import logging
import time
from collections.abc import Iterable
from typing import Any

import orjson
from fastapi import Response
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from natpn.serve.errors import RequestError
from natpn.serve.prometheus import Metrics
from natpn.tabular.texts import brief

MAX_REQUESTS = 1_000
# The status under which a request is counted whose client hung up; the number is nginx's.
GONE = 499
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


class Gate:
    """Pass requests on, or refuse them.

    Args:
        app: The application behind it.
        metrics: Where requests are counted.
        token: The token to ask for, if any.
        hosts: Host names that are accepted, besides addresses and localhost; None accepts every name.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, token: str | None, hosts: Iterable[str] | None) -> None:
        self._app = app
        self._metrics = metrics
        self._expected = None if token is None else token.encode()
        self._hosts = None if hosts is None else {"localhost", *(_name(host) for host in hosts)}
        self._open = 0

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
        self._open += 1
        try:
            refusal = self._refusal(scope, path)
            await (refusal or self._app)(scope, receive, noting)
        except ClientDisconnect:
            status = GONE
        except Exception:
            # The log is told, the client is not; its connection stays open.
            _LOG.exception("%s %s failed", scope["method"], path)
            if not started:
                error = RequestError(500, "Something went wrong in the server. Its log says what.")
                await as_json(error.body(), 500)(scope, receive, noting)
        finally:
            self._open -= 1
            self._metrics.request(path, status, time.perf_counter() - start)

    def _refusal(self, scope: Scope, path: str) -> Response | None:
        host = _header(scope, b"host")
        if self._hosts is not None and not self._is_own(host):
            error = RequestError(
                421,
                f"Host: expected an address, localhost or a name that the server was told, got {brief(host)}. Ask by "
                "its address, or start it with --allow-host and this name.",
            )
            return as_json(error.body(), 421)
        if self._open > MAX_REQUESTS and path != "/health":
            error = RequestError(503, "Too many requests are open. Try again in a second.")
            return as_json(error.body(), 503, {"connection": "close", "retry-after": "1"})
        if self._expected is not None and path not in OPEN and not self._knows(scope):
            error = RequestError(401, "A token is needed. Send it as Authorization: Bearer <token>.")
            return as_json(error.body(), 401, {"www-authenticate": "Bearer"})
        return None

    def _is_own(self, host: str) -> bool:
        """Say whether the host is ours: a browser on a page of another site sends that site's name."""
        name = _name(host)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return self._hosts is not None and name in self._hosts
        return True

    def _knows(self, scope: Scope) -> bool:
        scheme, _, token = _header(scope, b"authorization").encode("latin-1").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._expected or b"")


def as_json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer; NaN and infinity become null."""
    return Response(orjson.dumps(content, default=str), status, headers, "application/json")


def _header(scope: Scope, name: bytes) -> str:
    value: bytes = next((value for key, value in scope["headers"] if key == name), b"")
    return value.decode("latin-1")


def _name(host: str) -> str:
    """Return the name or address in `name`, `name:port`, `[address]:port` or `address`, in small letters."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0].rstrip(".")
