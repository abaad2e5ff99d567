"""What every request passes through: the host, the token, the clock, and headers for browsers.

The clock's counts are told as Prometheus reads them. Counters only grow, and Prometheus takes their rate. Two gauges
show drift at a glance: the share of rows flagged as novel and the mean familiarity, over about the last thousand rows:
m ← m + (x − m)·k/n for k rows of mean x, where n counts the rows so far, k included, but at most 1,000. Two more are a
test that may be looked at all the time: a martingale, and whether it has ever reached 100 (`natpn.model.drift`).
"""

import hmac
import ipaddress
import logging
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from natpn.model import DriftAlarm
from natpn.serve.request_rows import RequestError
from natpn.tabular.texts import brief

MAX_REQUESTS = 1_000
MEMORY = 1_000  # rows over which means run
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
# The status under which a request is counted whose client hung up; the number is nginx's.
GONE = 499
_TOGETHER = 256  # rows
_LOG = logging.getLogger(__name__)

PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8") for name in ("page", "fields", "plot", "rows")},
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}
# A page and its parts are the same for every model, and a browser sends no token with them.
HEALTH = {"/health", "/v2/health/live", "/v2/health/ready"}
OPEN = {*HEALTH, *PAGE}
PATHS = {"/predict", "/model", "/metrics", "/openapi.json", *OPEN}
PROTOCOL = "/v2"  # under which all other paths of the Open Inference Protocol are counted
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class RunningMean:
    """The mean of about the last thousand values."""

    def __init__(self) -> None:
        self.value, self._n = 0.0, 0

    def add(self, total: float, count: int) -> None:
        """Add values by their sum and their number."""
        self._n = min(self._n + count, MEMORY)
        self.value += (total / count - self.value) * min(count / self._n, 1.0)


class Metrics:
    """What has happened since the server started.

    Args:
        alarm: What watches rows for drift.
    """

    def __init__(self, alarm: DriftAlarm) -> None:
        self._alarm = alarm
        self._scores: list[float] = []  # of rows that it has not seen yet: one call for many rows
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._seconds: dict[str, list[float]] = defaultdict(lambda: [0.0] * (len(BUCKETS) + 2))
        self._rows, self._novel, self._familiarity = 0, 0, 0.0
        self._novel_share, self._mean_familiarity = RunningMean(), RunningMean()

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests[path, status] += 1
        histogram = self._seconds[path]
        histogram[bisect_left(BUCKETS, seconds)] += 1
        histogram[-1] += seconds

    def rows(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Count rows that were answered, those flagged as novel, and the sum of their familiarity."""
        count, novel = len(answers), sum(answer["novel"] for answer in answers)
        familiarity = sum(answer["familiarity"] for answer in answers)
        self._scores += [-answer["epistemic"] for answer in answers]
        if len(self._scores) >= _TOGETHER:
            self._watch()
        self._rows += count
        self._novel += novel
        self._familiarity += familiarity
        self._novel_share.add(novel, count)
        self._mean_familiarity.add(familiarity, count)

    def _watch(self) -> None:
        self._alarm.see(self._scores)
        self._scores = []

    def text(self, batches: int) -> str:
        """Return everything in Prometheus' text format."""
        self._watch()
        return "\n".join(self._lines(batches)) + "\n"

    def _lines(self, batches: int) -> Iterator[str]:
        yield from _head("natpn_requests_total", "counter", "Requests answered, by path and status.")
        for (path, status), count in sorted(self._requests.items()):
            yield f'natpn_requests_total{{path="{path}",status="{status}"}} {count}'
        yield from _head("natpn_request_seconds", "histogram", "Time from a request to its answer.")
        for path, histogram in sorted(self._seconds.items()):
            total = 0
            for bound, inside in zip((*BUCKETS, "+Inf"), histogram, strict=False):
                total += int(inside)
                yield f'natpn_request_seconds_bucket{{path="{path}",le="{bound}"}} {total}'
            yield f'natpn_request_seconds_sum{{path="{path}"}} {histogram[-1]!r}'
            yield f'natpn_request_seconds_count{{path="{path}"}} {total}'
        last = f"about the last {MEMORY} rows"
        for name, kind, text, value in (
            ("natpn_batches_total", "counter", "Predictions made, each for all requests that waited.", batches),
            ("natpn_rows_total", "counter", "Rows answered.", self._rows),
            ("natpn_novel_rows_total", "counter", "Rows flagged as novel.", self._novel),
            ("natpn_familiarity_total", "counter", "Sum of the familiarity of all rows.", self._familiarity),
            ("natpn_novel_share", "gauge", f"Share of {last} flagged as novel.", self._novel_share.value),
            ("natpn_familiarity_mean", "gauge", f"Mean familiarity of {last}.", self._mean_familiarity.value),
            ("natpn_drift_martingale", "gauge", "Evidence of drift; 1 at the start.", self._alarm.value),
            ("natpn_drift_alarm", "gauge", f"1 if it ever reached {1 / self._alarm.level:g}.", +self._alarm.is_raised),
        ):
            yield from _head(name, kind, text)
            yield f"{name} {value!r}"


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


class Gate:
    """Passes requests on, or refuses them.

    Args:
        app: The application behind it.
        metrics: Where requests are counted.
        token: The token to ask for, if any.
        hosts: Host names that are accepted, besides addresses and localhost; None accepts every name.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, token: str | None, hosts: Iterable[str] | None) -> None:
        self._app, self._metrics = app, metrics
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

        path = scope["path"]
        if path not in PATHS:
            path = PROTOCOL if path == PROTOCOL or path.startswith(f"{PROTOCOL}/models/") else "other"
        self._open += 1
        try:
            refusal = self._refusal(scope, path)
            await (refusal.response() if refusal else self._app)(scope, receive, noting)
        except ClientDisconnect:
            status = GONE
        except Exception:
            # The log is told, the client is not; its connection stays open.
            _LOG.exception("%s %s failed", scope["method"], path)
            if not started:
                error = RequestError(500, "Something went wrong in the server. Its log says what.")
                await error.response()(scope, receive, noting)
        finally:
            self._open -= 1
            self._metrics.request(path, status, time.perf_counter() - start)

    def _refusal(self, scope: Scope, path: str) -> RequestError | None:
        host = _header(scope, b"host")
        name = _name(host)
        # A browser on a page of another site sends that site's name.
        if self._hosts is not None and name not in self._hosts and not _is_address(name):
            return RequestError(
                421,
                f"Host: expected an address, localhost or a name that the server was told, got {brief(host)}. Ask by "
                "its address, or start it with --allow-host and this name.",
            )
        if self._open > MAX_REQUESTS and path not in HEALTH:
            return RequestError(503, "Too many requests are open. Try again in a second.")
        if self._expected is not None and path not in OPEN:
            scheme, _, token = _header(scope, b"authorization").encode("latin-1").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._expected):
                return RequestError(401, "A token is needed. Send it as Authorization: Bearer <token>.")
        return None


def _header(scope: Scope, name: bytes) -> str:
    value: bytes = next((value for key, value in scope["headers"] if key == name), b"")
    return value.decode("latin-1")


def _name(host: str) -> str:
    """Return the name or address in `name`, `name:port`, `[address]:port` or `address`, in small letters."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
