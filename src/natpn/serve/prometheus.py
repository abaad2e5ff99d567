"""Numbers about what the server does, as Prometheus reads them.

Counters only grow, and Prometheus takes their rate. Two gauges show drift at a glance: the share of rows flagged
as novel and the mean familiarity, over about the last thousand rows: m ← m + (x − m)·k/n for k rows of mean x, where n
counts the rows so far, k included, but at most 1,000.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

MEMORY = 1_000
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class RunningMean:
    """The mean of about the last thousand values."""

    def __init__(self) -> None:
        self.value = 0.0
        self._n = 0

    def add(self, total: float, count: int) -> None:
        """Add values by their sum and their number."""
        self._n = min(self._n + count, MEMORY)
        self.value += (total / count - self.value) * min(count / self._n, 1.0)


class Metrics:
    """What has happened since the server started."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._seconds: dict[str, list[float]] = defaultdict(lambda: [0.0] * (len(BUCKETS) + 2))
        self._rows = 0
        self._novel = 0
        self._familiarity = 0.0
        self._novel_share = RunningMean()
        self._mean_familiarity = RunningMean()

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests[path, status] += 1
        histogram = self._seconds[path]
        histogram[bisect_left(BUCKETS, seconds)] += 1
        histogram[-1] += seconds

    def rows(self, count: int, novel: int, familiarity: float) -> None:
        """Count rows that were answered, those flagged as novel, and the sum of their familiarity."""
        self._rows += count
        self._novel += novel
        self._familiarity += familiarity
        self._novel_share.add(novel, count)
        self._mean_familiarity.add(familiarity, count)

    def text(self, batches: int) -> str:
        """Return everything in Prometheus' text format."""
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
        totals: tuple[tuple[str, str, str, float], ...] = (
            ("natpn_batches_total", "counter", "Predictions made, each for all requests that waited.", batches),
            ("natpn_rows_total", "counter", "Rows answered.", self._rows),
            ("natpn_novel_rows_total", "counter", "Rows flagged as novel.", self._novel),
            ("natpn_familiarity_total", "counter", "Sum of the familiarity of all rows.", self._familiarity),
            ("natpn_novel_share", "gauge", f"Share of about the last {MEMORY} rows flagged as novel.",
             self._novel_share.value),
            ("natpn_familiarity_mean", "gauge", f"Mean familiarity of about the last {MEMORY} rows.",
             self._mean_familiarity.value),
        )  # fmt: skip
        for name, kind, text, value in totals:
            yield from _head(name, kind, text)
            yield f"{name} {value!r}"


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"
