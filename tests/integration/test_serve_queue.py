"""The queue: batches, bounds, and places that are freed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from serve_help import Panic, Shouting, served, tiny

from regard.serve.errors import ApiError, WorkerFault
from regard.serve.metrics import Metrics
from regard.serve.models import ServedModel
from regard.serve.queue import TranslationQueue
from regard.serve.settings import ServeSettings


@asynccontextmanager
async def queue_of(**settings: float) -> AsyncIterator[tuple[TranslationQueue, ServedModel, Shouting]]:
    translator = tiny()
    queue = TranslationQueue(ServeSettings(**{"workers": 1, **settings}), Metrics())  # type: ignore[arg-type]
    queue.start()
    try:
        yield queue, served(translator), translator
    finally:
        translator.door.set()
        await asyncio.to_thread(queue.close)


async def shut(queue: TranslationQueue, model: ServedModel, translator: Shouting) -> asyncio.Task[object]:
    """Keep the model busy with a sentence until its door is opened."""
    translator.entered.clear()
    translator.door.clear()
    task = asyncio.ensure_future(queue.translate(model, ["busy"]))
    await asyncio.to_thread(translator.entered.wait, 10)
    return task


async def entered(queue: TranslationQueue, places: int) -> None:
    async with asyncio.timeout(20):
        while queue._places != places:
            await asyncio.sleep(0.005)


def test_requests_that_wait_together_are_translated_together() -> None:
    async def run() -> None:
        async with queue_of() as (queue, model, translator):
            busy = await shut(queue, model, translator)
            tasks = [asyncio.ensure_future(queue.translate(model, [f"a {n}", f"b {n}"])) for n in range(20)]
            other = asyncio.ensure_future(queue.translate(model, ["three ways"], n_best=3))
            await entered(queue, 22)
            translator.door.set()
            for number, found in enumerate(await asyncio.gather(*tasks)):
                assert [each.text for each in found] == [f"A {number}", f"B {number}"]
            assert len((await other)[0].n_best) == 3
            await busy
            assert [len(batch) for batch in translator.batches] == [1, 40, 1]  # another n_best is another search
            assert queue._places == 0

    asyncio.run(run())


def test_a_request_is_answered_before_the_rest_of_its_batch() -> None:
    async def run() -> None:
        async with queue_of() as (queue, model, translator):
            busy = await shut(queue, model, translator)
            late = asyncio.ensure_future(queue.translate(model, ["dawdle", "much longer"]))
            soon = asyncio.ensure_future(queue.translate(model, ["quick one"]))
            await entered(queue, 3)
            translator.door.set()
            assert (await soon)[0].text == "QUICK ONE"
            assert not late.done()
            translator.slowly.set()
            assert [each.text for each in await late] == ["DAWDLE", "MUCH LONGER"]
            await busy
            assert [len(batch) for batch in translator.batches] == [1, 3]

    asyncio.run(run())


def test_workers_translate_side_by_side() -> None:
    async def run() -> None:
        async with queue_of(workers=2) as (queue, model, translator):
            busy = await shut(queue, model, translator)
            other = asyncio.ensure_future(queue.translate(model, ["meanwhile"]))
            async with asyncio.timeout(20):
                while len(translator.batches) < 2:  # though the first worker is still behind the door
                    await asyncio.sleep(0.005)
            translator.door.set()
            assert [each[0].text for each in await asyncio.gather(busy, other)] == ["BUSY", "MEANWHILE"]

    asyncio.run(run())


def test_workers_share_a_long_request() -> None:
    async def run() -> None:
        async with queue_of(workers=2, max_batch=2) as (queue, model, translator):
            translator.door.clear()
            task = asyncio.ensure_future(queue.translate(model, [f"line {n}" for n in range(4)]))
            async with asyncio.timeout(20):
                while len(translator.batches) < 2:  # both are behind the door
                    await asyncio.sleep(0.005)
            translator.door.set()
            assert [each.text for each in await task] == [f"LINE {n}" for n in range(4)]

    asyncio.run(run())


def test_a_long_request_travels_in_several_batches() -> None:
    async def run() -> None:
        async with queue_of(max_batch=8) as (queue, model, translator):
            found = await queue.translate(model, [f"line {n}" for n in range(20)])
            assert [each.text for each in found] == [f"LINE {n}" for n in range(20)]
            assert [len(batch) for batch in translator.batches] == [8, 8, 4]

    asyncio.run(run())


def test_long_sentences_travel_in_small_company() -> None:
    async def run() -> None:
        async with queue_of(max_batch=64) as (queue, model, translator):
            await queue.translate(model, ["x" * 500] * 64)
            assert max(map(len, translator.batches)) <= 10

    asyncio.run(run())


def test_requests_of_similar_length_go_first_with_the_oldest() -> None:
    async def run() -> None:
        async with queue_of(max_batch=2) as (queue, model, translator):
            busy = await shut(queue, model, translator)
            asked = ["x" * 10, "y" * 40, "z" * 12, "w" * 38]
            tasks = [asyncio.ensure_future(queue.translate(model, [text])) for text in asked]
            await entered(queue, 5)
            translator.door.set()
            await asyncio.gather(busy, *tasks)
            assert translator.batches[1:] == [[asked[0], asked[2]], [asked[1], asked[3]]]

    asyncio.run(run())


def test_a_full_queue_refuses_at_once() -> None:
    async def run() -> None:
        async with queue_of(max_queue=3) as (queue, model, translator):
            await shut(queue, model, translator)
            waiting = [asyncio.ensure_future(queue.translate(model, ["x"])) for _ in range(2)]
            await entered(queue, 3)
            with pytest.raises(ApiError) as refusal:
                await queue.translate(model, ["one too many"])
            assert refusal.value.status == 503
            assert int(refusal.value.headers["Retry-After"]) >= 1
            translator.door.set()
            await asyncio.gather(*waiting)
            await queue.translate(model, ["now there is room"])

    asyncio.run(run())


def test_a_client_that_goes_frees_its_place_and_is_not_translated() -> None:
    async def run() -> None:
        async with queue_of(max_queue=2) as (queue, model, translator):
            busy = await shut(queue, model, translator)
            gone = asyncio.ensure_future(queue.translate(model, ["nobody waits for this"]))
            await entered(queue, 2)
            gone.cancel()
            await entered(queue, 1)
            kept = asyncio.ensure_future(queue.translate(model, ["kept"]))
            await entered(queue, 2)
            translator.door.set()
            assert (await kept)[0].text == "KEPT"
            await busy
            assert translator.batches == [["busy"], ["kept"]]

    asyncio.run(run())


def test_a_batch_that_nobody_waits_for_is_left_at_its_next_sentence() -> None:
    async def run() -> None:
        async with queue_of() as (queue, model, translator):
            gone = asyncio.ensure_future(queue.translate(model, ["dawdle", "two", "one"]))
            await asyncio.to_thread(translator.entered.wait, 10)
            gone.cancel()
            await entered(queue, 0)
            kept = asyncio.ensure_future(queue.translate(model, ["kept"]))
            translator.slowly.set()
            assert (await kept)[0].text == "KEPT"
            assert translator.made == ["dawdle", "kept"]

    asyncio.run(run())


def test_one_request_does_not_spoil_those_of_others() -> None:
    async def run() -> None:
        async with queue_of() as (queue, model, translator):
            await shut(queue, model, translator)
            good, bad = (asyncio.ensure_future(queue.translate(model, [text])) for text in ("good", "poison"))
            await entered(queue, 3)
            translator.door.set()
            assert (await good)[0].text == "GOOD"
            with pytest.raises(RuntimeError, match="poisoned"):
                await bad
            assert (await queue.translate(model, ["after"]))[0].text == "AFTER"

    asyncio.run(run())


def test_a_panic_fails_its_request_alone_and_the_worker_is_replaced() -> None:
    async def run() -> None:
        async with queue_of() as (queue, model, translator):
            before = queue._workers[0]
            await shut(queue, model, translator)
            good, bad = (asyncio.ensure_future(queue.translate(model, [text])) for text in ("good", "panic"))
            await entered(queue, 3)
            translator.door.set()
            assert (await good)[0].text == "GOOD"
            with pytest.raises(WorkerFault, match="the tokenizer panicked"):
                await bad
            assert (await queue.translate(model, ["after"]))[0].text == "AFTER"
            assert queue.is_well()
            assert queue._workers[0] is not before

            def panic() -> None:
                raise Panic("here")

            for _ in range(5):
                with pytest.raises(WorkerFault, match="Panic: here"):
                    await queue.call(panic)
            assert (await queue.translate(model, ["again"]))[0].text == "AGAIN"

    asyncio.run(run())


def test_a_dead_worker_is_missed_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with queue_of() as (queue, model, _):
            with monkeypatch.context() as patched:
                patched.setattr(threading.Thread, "start", no_thread)

                def die() -> None:
                    raise Panic("dead")

                with pytest.raises(WorkerFault):
                    await queue.call(die)
                async with asyncio.timeout(20):
                    while queue.is_well():
                        await asyncio.sleep(0.005)
            assert queue.is_well()  # the system has threads again
            assert (await queue.translate(model, ["back"]))[0].text == "BACK"

    asyncio.run(run())


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_worker_that_is_busy_beyond_patience_is_not_well() -> None:
    async def run() -> None:
        async with queue_of(max_seconds=0.05) as (queue, model, translator):
            busy = await shut(queue, model, translator)
            async with asyncio.timeout(20):
                while queue.is_well():
                    await asyncio.sleep(0.005)
            translator.door.set()
            await busy
            async with asyncio.timeout(20):
                while not queue.is_well():
                    await asyncio.sleep(0.005)

    asyncio.run(run())


def test_a_stream_stops_when_nobody_listens() -> None:
    async def run() -> None:
        async with queue_of() as (queue, model, _):
            said = 0

            def endless() -> object:
                nonlocal said
                while True:
                    said += 1
                    yield said

            stream = queue.stream(endless)  # type: ignore[arg-type]
            assert [await anext(stream) for _ in range(3)] == [1, 2, 3]
            await stream.aclose()
            assert (await queue.translate(model, ["next"]))[0].text == "NEXT"  # the thread is free again
            assert queue._places == 0

    asyncio.run(run())


def test_a_stream_tells_what_went_wrong() -> None:
    async def run() -> None:
        async with queue_of() as (queue, _, __):

            def broken() -> object:
                yield 1
                raise ValueError("broken")

            stream = queue.stream(broken)  # type: ignore[arg-type]
            assert await anext(stream) == 1
            with pytest.raises(ValueError, match="broken"):
                await anext(stream)

    asyncio.run(run())


def test_closing_finishes_what_waits() -> None:
    async def run() -> None:
        async with queue_of() as (queue, model, translator):
            await shut(queue, model, translator)
            waiting = asyncio.ensure_future(queue.translate(model, ["last"]))
            await entered(queue, 2)
            closing = asyncio.ensure_future(asyncio.to_thread(queue.close))
            await asyncio.sleep(0.02)
            with pytest.raises(ApiError, match="shutting down"):
                await queue.translate(model, ["too late"])
            translator.door.set()
            assert (await waiting)[0].text == "LAST"
            await closing

    asyncio.run(run())
