"""Answer concurrent requests by one prediction.

A prediction of many rows takes hardly longer than one of a single row. Requests that come while a prediction runs wait,
and are answered together by the next. If the last prediction had several requests, the next waits for as many, up to
2 ms; a client that is alone never waits.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

In = TypeVar("In")
Out = TypeVar("Out")
Result = TypeVar("Result")

MAX_ROWS = 256
LINGER = 0.002


@dataclass
class _Request(Generic[In, Out]):
    rows: Sequence[In]
    answer: "asyncio.Future[Sequence[Out]]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Batcher(Generic[In, Out]):
    """Answer rows in batches, in a worker thread.

    Args:
        function: Answers rows, one answer each. It must be safe in a thread.
        max_rows: The most rows of a batch. Larger requests run in a second thread.
    """

    def __init__(self, function: Callable[[Sequence[In]], Sequence[Out]], max_rows: int = MAX_ROWS) -> None:
        self._function = function
        self._max_rows = max_rows
        self._small = ThreadPoolExecutor(1, "natpn-batch")
        self._large = ThreadPoolExecutor(1, "natpn-large")
        self._pending: list[_Request[In, Out]] = []
        self._arrived: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._expected = 1
        self.batches = 0

    async def submit(self, rows: Sequence[In]) -> Sequence[Out]:
        """Return the answers to some rows.

        Raises:
            Exception: What the function raises for these rows.
        """
        if len(rows) > self._max_rows:
            self.batches += 1
            return await self.apart(self._function, rows)
        request = _Request[In, Out](rows)
        self._pending.append(request)
        if self._arrived is not None:
            self._arrived.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await request.answer

    async def apart(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run something long in the second thread."""
        return await asyncio.get_running_loop().run_in_executor(self._large, function, *arguments)

    def close(self) -> None:
        """Finish what runs, and end the threads."""
        self._small.shutdown()
        self._large.shutdown()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pending:
            if self._expected > 1:
                await self._linger()
            batch = self._take()
            self._expected = len(batch)
            self.batches += 1
            for request, answer in await loop.run_in_executor(self._small, self._answer, batch):
                if request.answer.done():  # its client has left
                    continue
                if isinstance(answer, BaseException):
                    request.answer.set_exception(answer)
                else:
                    request.answer.set_result(answer)
            # Clients may ask again at once: let their requests arrive before the next batch is taken.
            await asyncio.sleep(0)

    async def _linger(self) -> None:
        """Wait for as many requests as the last batch had, but not long."""
        self._arrived = asyncio.Event()
        try:
            async with asyncio.timeout(LINGER):
                while len(self._pending) < self._expected:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            pass
        finally:
            self._arrived = None

    def _take(self) -> list[_Request[In, Out]]:
        rows = 0
        for place, request in enumerate(self._pending):
            rows += len(request.rows)
            if rows > self._max_rows:
                batch, self._pending = self._pending[:place], self._pending[place:]
                return batch
        batch, self._pending = self._pending, []
        return batch

    def _answer(self, batch: list[_Request[In, Out]]) -> list[tuple[_Request[In, Out], Sequence[Out] | Exception]]:
        """Answer a batch; if it fails, answer each request alone, so that only the faulty one fails."""
        try:
            answers = self._function([row for request in batch for row in request.rows])
        except Exception as error:
            if len(batch) == 1:
                return [(batch[0], error)]
            return [pair for request in batch for pair in self._answer([request])]
        results: list[tuple[_Request[In, Out], Sequence[Out] | Exception]] = []
        start = 0
        for request in batch:
            results.append((request, answers[start : start + len(request.rows)]))
            start += len(request.rows)
        return results
