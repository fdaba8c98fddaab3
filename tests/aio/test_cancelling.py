"""Giving calls up: by cancelling and by deadlines, without ever mixing up answers."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

import rpcproto
from rpcproto.testing import pair, proxied_pair
from tests.aio._ends import RAW, Kit, poll, turns

pytestmark = pytest.mark.smoke


async def outcome(reply):
    """What became of it: its value, or the class of its error."""
    try:
        return await reply
    except asyncio.CancelledError:
        return asyncio.CancelledError
    except rpcproto.RpcError as error:
        return type(error)


def test_fault_35_answers_never_go_to_another_call(run, address):
    """Cancels at random moments, from before the call is sent to after its answer has come."""
    chance = random.Random(35)

    async def call(client, nonce):
        method = chance.choice(["Kit.echo", "Kit.echo_task"])
        timeout = chance.choice([None, 0, 1e-4, 5, 5])
        reply = client.request(method, nonce, timeout=timeout)
        if chance.random() < 0.5:
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            reply.cancel()
        result = await outcome(reply)
        assert result in (nonce, asyncio.CancelledError, rpcproto.DeadlineExceeded), (result, nonce)
        return result == nonce

    async def main():
        # Within the burst that a peer may send at once: 10,000 honest cancels are no flood.
        async with pair(Kit(), address) as (server, client):
            answered = 0
            for start in range(0, 5_000, 500):
                answers = await asyncio.gather(*(call(client, f"nonce-{start + n}") for n in range(500)))
                answered += sum(answers)
            assert 500 < answered < 4_500
            assert await client.request("Kit.echo", "after") == "after"
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)
            stats = client.stats()
            assert stats["calls_pending"] == stats["bytes_queued"] == 0

    run(main())


@pytest.mark.slow
def test_fault_35_at_full_size(run):
    async def call(client, nonce, chance):
        reply = client.request("Kit.echo", nonce)
        if chance.random() < 0.4:
            await asyncio.sleep(chance.random() * 0.05)
            reply.cancel()
        assert await outcome(reply) in (nonce, asyncio.CancelledError)

    async def main():
        chance = random.Random(36)
        async with proxied_pair(Kit()) as (_, client, proxy):
            proxy.down.delay = 0.02
            for start in range(0, 20_000, 2_000):
                await asyncio.gather(*(call(client, f"{start + n}", chance) for n in range(2_000)))
            assert client.stats()["calls_pending"] == 0

    run(main(), timeout=120)


def test_fault_35_a_large_call_cancelled_half_sent_leaves_the_connection_whole(run):
    async def main():
        async with proxied_pair(Kit(), client=RAW) as (_server, client, proxy):
            for size in (65_537, 300_000, 900_000, 3_000_000, 6_000_000):
                proxy.up.stop()
                reply = client.request("Kit.digest", bytes(size))
                await turns(3)
                reply.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await reply
                proxy.up.resume()
                assert await client.request("Kit.echo", b"next", timeout=5) == b"next"
            stats = client.stats()
            assert stats["bytes_queued"] == stats["calls_pending"] == 0

    run(main())


@pytest.mark.parametrize("size", [100_000, 3_000_000])
def test_a_large_reply_cancelled_half_received(run, size):
    async def main():
        async with proxied_pair(Kit()) as (server, client, proxy):
            for part in (1, 20_000, 80_000):
                proxy.down.limit(part, "stop")
                reply = client.request("Kit.produce", size)
                await proxy.down.reached(proxy.down.forwarded + 1)
                await turns(3)
                reply.cancel()
                proxy.down.resume()
                assert await client.request("Kit.echo", part, timeout=5) == part
            await poll(lambda: server.peers[0].stats()["bytes_queued"] == 0)
            assert len(await client.request("Kit.produce", size)) == size

    run(main())


def test_a_cancel_reaches_the_handler_once(run, address):
    async def main():
        kit = Kit()
        async with pair(kit, address) as (server, client):
            reply = client.request("Kit.wait", "a")
            await kit.until(lambda: kit.started)
            assert reply.cancel()
            assert not reply.cancel()
            await kit.until(lambda: kit.cancelled)
            await client.ping()
            assert kit.cancelled == ["a"]
            # A call that is cancelled before it was sent does not start at all, or is cancelled.
            client.request("Kit.wait", "b").cancel()
            await client.ping()
            await turns()
            assert kit.ended == kit.started
            # After the answer there is nothing to cancel.
            done = client.request("Kit.echo", 1)
            await done
            assert not done.cancel()
            assert server.peers[0].stats()["calls_running"] == 0

    run(main())


@pytest.mark.parametrize("way", ["wait_for", "timeout", "task", "gather", "wait"])
def test_every_way_of_cancelling_reaches_the_handler(run, address, way):
    async def main():
        kit = Kit()
        async with pair(kit, address) as (_, client):
            reply = client.request("Kit.wait", way)

            async def call():
                await reply

            if way == "wait_for":
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reply, 0.005)
            elif way == "timeout":
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.005):
                        await reply
            elif way == "task":
                task = asyncio.create_task(call())
                await kit.until(lambda: kit.started)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            elif way == "gather":
                gathered = asyncio.gather(reply, client.request("Kit.echo", 1))
                await kit.until(lambda: kit.started)
                gathered.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await gathered
            else:
                _, waiting = await asyncio.wait([reply], timeout=0.005)
                assert waiting == {reply}
                assert not reply.done()
                reply.cancel()
            await kit.until(lambda: kit.cancelled == [way])

    run(main())


def test_row_31_a_deadline_ends_the_call_at_both_ends(run, address):
    async def main():
        kit = Kit()
        async with pair(kit, address) as (server, client):
            start = time.monotonic()
            with pytest.raises(rpcproto.DeadlineExceeded) as caught:
                await client.request("Kit.wait", timeout=0.02)
            assert time.monotonic() - start >= 0.019  # the loop's timers are rounded to milliseconds
            assert caught.value.method == "Kit.wait"
            assert isinstance(caught.value, TimeoutError)
            await kit.until(lambda: kit.cancelled)
            assert await client.request("Kit.echo", "no harm", timeout=5) == "no harm"
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)

    run(main())


def test_row_31_a_call_that_is_late_on_arrival_is_never_started(run):
    async def main():
        kit = Kit()
        async with proxied_pair(kit) as (_server, client, proxy):
            await client.request("Kit.echo", 1)
            with pytest.raises(rpcproto.DeadlineExceeded):
                await client.request("Kit.wait", timeout=0)
            proxy.up.stop()
            late = client.request("Kit.wait", timeout=0.01)
            # What waits on our own side is not even sent.
            queued = client.request("Kit.wait", bytes(7_000_000), timeout=0.01)
            behind = client.request("Kit.wait", bytes(7_000_000), timeout=0.01)
            for call in (late, queued, behind):
                with pytest.raises(rpcproto.DeadlineExceeded):
                    await call
            proxy.up.resume()
            await client.ping()
            await poll(lambda: client.stats()["bytes_queued"] == 0)
            assert kit.ended == kit.started, "a late call was started and left running"
            assert len(kit.started) <= 1

    run(main())


def test_row_31_reply_and_expiry_race(run, address):
    """Deadlines about when the answer comes: always one outcome, and the connection lives."""

    async def nap(seconds):
        await asyncio.sleep(seconds)
        return seconds

    async def main():
        async with pair([{"nap": nap}, Kit()], address) as (server, client):
            naps = [0.008 + n * 0.0001 for n in range(100)]
            results = await asyncio.gather(*(outcome(client.request("nap", nap, timeout=0.012)) for nap in naps))
            assert set(results) <= {*naps, rpcproto.DeadlineExceeded}
            assert await client.request("Kit.echo", 1) == 1
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)
            assert client.stats()["calls_pending"] == 0

    run(main())


def test_fault_16_late_answers_are_dropped_and_counted(run):
    async def main():
        async with proxied_pair(Kit()) as (_, client, proxy):
            proxy.down.stop()
            late = [client.request("Kit.echo", n, timeout=0.01) for n in range(5)]
            late += [client.request("Kit.produce", 200_000, timeout=0.01), client.request("Kit.absent", timeout=0.01)]
            given_up = client.request("Kit.echo", "x")
            await turns(3)
            given_up.cancel()
            for reply in late:
                with pytest.raises(rpcproto.DeadlineExceeded):
                    await reply
            fresh = [client.request("Kit.echo", n) for n in range(100, 110)]
            proxy.down.resume()
            assert await asyncio.gather(*fresh) == list(range(100, 110))
            assert 1 <= client.stats()["late_replies"] <= 8

    run(main())


def test_fault_41_a_deadline_holds_though_nothing_gets_through(run):
    async def main():
        timeouts = rpcproto.Timeouts(heartbeat=None)
        async with proxied_pair(Kit(), client={"timeouts": timeouts}) as (_, client, proxy):
            proxy.up.stop()
            proxy.down.stop()
            for _ in range(3):
                start = time.monotonic()
                with pytest.raises(rpcproto.DeadlineExceeded):
                    await client.request("Kit.echo", 1, timeout=0.02)
                assert time.monotonic() - start >= 0.019  # the loop's timers are rounded to milliseconds
            with pytest.raises(rpcproto.DeadlineExceeded, match=r"ping of .*: no answer within 0\.01 s"):
                await client.ping(timeout=0.01)
            proxy.up.resume()
            proxy.down.resume()
            assert await client.request("Kit.echo", "restored", timeout=1) == "restored"

    run(main())


def test_fault_44_the_default_timeout_tells_what_it_is(run, address):
    async def main():
        timeouts = rpcproto.Timeouts(request=0.01)
        async with pair(Kit(), address, client={"timeouts": timeouts}) as (_, client):
            with pytest.raises(rpcproto.DeadlineExceeded) as caught:
                await client.request("Kit.wait")
            text = str(caught.value)
            assert text.startswith("Kit.wait at ")
            assert "0.01 s" in text
            assert "Timeouts.request" in text

    run(main())


def test_no_timeout_at_all(run, address):
    async def main():
        kit = Kit()
        timeouts = rpcproto.Timeouts(request=None)
        async with pair(kit, address, client={"timeouts": timeouts}) as (_, client):
            calls = [client.request("Kit.wait", 1), client.request("Kit.wait", 2, timeout=None)]
            await kit.until(lambda: len(kit.started) == 2)
            kit.gate.set()
            assert await asyncio.gather(*calls) == [1, 2]

    run(main())


@pytest.mark.parametrize("timeout", ["soon", -1, float("nan"), -0.001])
def test_a_timeout_that_makes_no_sense(run, timeout):
    async def main():
        async with pair(Kit()) as (_, client):
            with pytest.raises(rpcproto.ConfigurationError, match="timeout must be"):
                client.request("Kit.echo", 1, timeout=timeout)
            assert client.stats()["calls_pending"] == 0

    run(main())


@pytest.mark.parametrize(
    "timeout",
    [1e12, float("inf")],
)
def test_a_timeout_without_end(run, timeout):
    async def main():
        async with pair(Kit()) as (_, client):
            for _ in range(2):
                assert await client.request("Kit.echo", 1, timeout=timeout) == 1
            assert client.stats()["calls_pending"] == 0

    run(main())


def test_fault_18_nothing_is_kept_of_calls_that_are_over(run, address):
    async def main():
        kit = Kit()
        async with pair(kit, address) as (server, client):
            peer = server.peers[0]
            for _ in range(5):
                calls = [client.request("Kit.echo", n) for n in range(200)]
                calls += [client.request("Kit.wait", n) for n in range(100)]
                calls += [client.request("Kit.wait", n, timeout=0.001) for n in range(100)]
                calls += [client.request("Kit.absent", n) for n in range(100)]
                calls += [client.request("Kit.produce", 100_000) for n in range(10)]
                await turns(3)
                for call in calls[200:300]:
                    call.cancel()
                await asyncio.gather(*(outcome(call) for call in calls))
            await client.ping()
            await poll(lambda: peer.stats()["calls_running"] == 0)
            for stats in (client.stats(), peer.stats()):
                assert stats["calls_pending"] == stats["calls_running"] == stats["bytes_queued"] == 0
            assert len(asyncio.all_tasks()) == 1

    run(main())
