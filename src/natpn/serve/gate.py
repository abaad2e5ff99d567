"""What every request passes through: the host, the token, the clock, the log, and headers for browsers.

A route with a path of its own is called from here, without the framework between, which takes longer than a prediction
in a batch does; the framework knows of it too, for the description of the API, and has all other paths.
"""

import asyncio
import hmac
import ipaddress
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from natpn.serve.access_log import AccessLog
from natpn.serve.metrics import OTHER, Metrics
from natpn.serve.packing import LEAST, accepts_gzip, pack
from natpn.serve.request_rows import RequestError, header
from natpn.tabular.texts import brief

MAX_REQUESTS = 1_000
# The status under which a request is counted whose client hung up; the number is nginx's.
GONE = 499
_LARGE = 2**16  # bytes, which take a millisecond to pack
_LOG = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]

PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8") for name in ("page", "fields", "plot", "rows")},
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}
# A page and its parts are the same for every model, and a browser sends no token with them.
HEALTH = {"/health", "/v2/health/live", "/v2/health/ready"}
OPEN = {*HEALTH, *PAGE}
PROTOCOL = "/v2"  # under which all other paths of the Open Inference Protocol are counted
PATHS = {"/predict", "/feedback", "/model", "/metrics", "/drift", "/openapi.json", PROTOCOL, *OPEN}
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"vary", b"accept-encoding"),
]


class Gate:
    """Passes requests on, or refuses them.

    Args:
        app: The application behind it.
        endpoints: What answers a method and a path without it.
        metrics: Where requests are counted.
        token: The token to ask for, if any.
        hosts: Host names that are accepted, besides addresses and localhost; None accepts every name.
        log: Where requests are written down, if anywhere.
    """

    def __init__(
        self,
        app: ASGIApp,
        endpoints: Mapping[tuple[str, str], Endpoint],
        metrics: Metrics,
        token: str | None,
        hosts: Iterable[str] | None,
        log: AccessLog | None,
    ) -> None:
        self._app, self._endpoints, self._metrics, self._log = app, endpoints, metrics, log
        self._expected = None if token is None else token.encode()
        self._hosts = None if hosts is None else {"localhost", *(_name(host) for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        answer = _Answer(scope, send)
        path = scope["path"]
        if path not in PATHS:
            path = PROTOCOL if path.startswith(f"{PROTOCOL}/models/") else OTHER
        n_open = self._metrics.begin()
        try:
            refusal = self._refusal(scope, path, n_open)
            endpoint = self._endpoints.get((scope["method"], scope["path"]))
            if refusal is not None:
                await refusal.response()(scope, receive, answer)
            elif endpoint is not None:
                await _answer(endpoint, scope, receive, answer)
            else:
                await self._app(scope, receive, answer)
        except ClientDisconnect:
            answer.status = GONE
        except Exception:
            # The log is told, the client is not; its connection stays open.
            _LOG.exception("%s %s failed", scope["method"], path)
            if not answer.started:
                error = RequestError(500, "Something went wrong in the server. Its log says what.")
                await error.response()(scope, receive, answer)
        finally:
            seconds = time.perf_counter() - start
            self._metrics.end(path, answer.status, seconds)
            if self._log is not None:
                self._log.write(scope, answer.status, seconds)

    def _refusal(self, scope: Scope, path: str, n_open: int) -> RequestError | None:
        host = header(scope, b"host")
        name = _name(host)
        # A browser on a page of another site sends that site's name.
        if self._hosts is not None and name not in self._hosts and not _is_address(name):
            return RequestError(
                421,
                f"Host: expected an address, localhost or a name that the server was told, got {brief(host)}. Ask by "
                "its address, or start it with --allow-host and this name.",
            )
        if n_open > MAX_REQUESTS and path not in HEALTH:
            return RequestError(503, "Too many requests are open. Try again in a second.")
        if self._expected is not None and path not in OPEN:
            scheme, _, token = header(scope, b"authorization").encode("latin-1").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._expected):
                return RequestError(401, "A token is needed. Send it as Authorization: Bearer <token>.")
        return None


class _Answer:
    """Sends an answer on, with headers for browsers, packed if the client takes that and it is worth it.

    Args:
        scope: The request.
        send: Where to.

    Attributes:
        status: Its status; 500 as long as there is none.
        started: Whether a part of it was sent.
    """

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send, self.status, self.started = send, 500, False
        self._packs = accepts_gzip(header(scope, b"accept-encoding"))
        self._head: Message | None = None  # which has the length, and so waits for the body

    async def __call__(self, message: Message) -> None:
        """Send a part of the answer on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._head = {**message, "headers": [*message.get("headers", []), *HEADERS]}
            return
        if self._head is not None and message["type"] == "http.response.body":
            head, self._head = self._head, None
            body = message.get("body", b"")
            if self._packs and len(body) >= LEAST and not message.get("more_body", False):
                loop = asyncio.get_running_loop()
                body = await loop.run_in_executor(None, pack, body) if len(body) > _LARGE else pack(body)
                others = [(name, value) for name, value in head["headers"] if name != b"content-length"]
                head["headers"] = [
                    *others,
                    (b"content-length", str(len(body)).encode()),
                    (b"content-encoding", b"gzip"),
                ]
                message = {**message, "body": body}
            self.started = True
            await self._send(head)
        await self._send(message)


async def _answer(endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer as the framework would."""
    try:
        response = await endpoint(Request(scope, receive))
    except RequestError as error:
        response = error.response()
    await response(scope, receive, send)


def _name(host: str) -> str:
    """Return the name or address in `name`, `name:port`, `[address]:port` or `address`, in small letters."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0].rstrip(".")


@lru_cache(1_000)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
