"""Requests are answered together, each with its own answer, and only the guilty fail."""

import asyncio
import threading
import time

import pytest

from natpn.serve.predictor import Batcher


def run(main):
    return asyncio.run(main())


def double(rows):
    return [2 * row for row in rows]


def test_those_who_come_together_are_answered_together():
    async def main():
        batches = []
        batcher = Batcher(double, counted=lambda: batches.append(1))
        answers = await asyncio.gather(*(batcher.submit([k, k + 0.5]) for k in range(50)))
        batcher.close()
        return answers, len(batches)

    answers, batches = run(main)
    assert answers == [[2 * k, 2 * k + 1] for k in range(50)]
    assert batches <= 2


def test_batches_are_limited_and_large_requests_run_apart():
    sizes, threads = [], set()

    def note(rows):
        sizes.append(len(rows))
        threads.add(threading.current_thread().name.rpartition("_")[0])
        return rows

    async def main():
        batcher = Batcher(note, max_rows=10)
        await asyncio.gather(*(batcher.submit([k] * 4) for k in range(6)), batcher.submit([0] * 11))
        batcher.close()

    run(main)
    assert sorted(sizes) == [8, 8, 8, 11]
    assert threads == {"natpn-batch", "natpn-large"}


def test_only_the_guilty_fails():
    def fussy(rows):
        if 13 in rows:
            raise ArithmeticError("thirteen")
        return rows

    async def main():
        batcher = Batcher(fussy)
        return await asyncio.gather(*(batcher.submit([k]) for k in range(20)), return_exceptions=True)

    answers = run(main)
    assert isinstance(answers.pop(13), ArithmeticError)
    assert answers == [[k] for k in range(20) if k != 13]


def test_a_client_that_leaves_disturbs_nobody():
    def slow(rows):
        time.sleep(0.05)
        return rows

    async def main():
        batcher = Batcher(slow)
        first, second = asyncio.create_task(batcher.submit([1])), asyncio.create_task(batcher.submit([2]))
        await asyncio.sleep(0.01)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second, await batcher.submit([3])

    assert run(main) == ([2], [3])


def test_a_client_that_is_alone_does_not_wait(monkeypatch):
    monkeypatch.setattr("natpn.serve.predictor.LINGER", 5.0)

    async def main():
        batcher = Batcher(double)
        start = time.perf_counter()
        for k in range(20):
            await batcher.submit([k])
        return time.perf_counter() - start

    assert run(main) < 4
