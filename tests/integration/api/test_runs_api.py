"""Runs over HTTP: begun, looked at, read, ended (``pipelines.md`` 9, 12.24)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
import trio.testing

from protocols.messages import Phase
from tests.kit.api import Api, serving
from tests.kit.pipelines import Shop

MEBIBYTE = 1 << 20


async def test_a_run_is_accepted_pending_and_has_its_job(api: Api) -> None:
    pipeline = await api.shop.pipeline(enabled=False)  # one that is switched off may be run, too
    run = await api.ask("POST", f"/pipelines/{pipeline.id}/run", expect=202)
    assert (run["status"], run["trigger"], run["triggered_by_id"]) == ("pending", "manual", str(api.shop.owner))
    assert (await api.shop.rows.job(run["job_id"])).payload["run_id"] == run["id"]
    shown = await api.ask("GET", f"/pipelines/{pipeline.id}/runs/{run['id']}", expect=200)
    assert shown.items() >= run.items()
    assert (shown["progress"], shown["children"]["pending"]) == (None, 0)
    assert "result_blob_key" not in shown


async def test_if_idle_refuses_a_second_run_and_without_it_there_are_two(api: Api) -> None:
    pipeline = await api.shop.pipeline()
    path = f"/pipelines/{pipeline.id}/run"
    first = await api.ask("POST", f"{path}?if_idle=true", expect=202)
    refused = await api.ask("POST", f"{path}?if_idle=true", expect=409)
    assert refused["error"]["code"] == "run_state"
    second = await api.ask("POST", path, expect=202)
    assert second["id"] != first["id"]
    await api.ask("POST", f"{path}?if_idle=perhaps", expect=422)


async def test_a_request_that_is_sent_again_with_its_key_makes_no_second_run(api: Api) -> None:
    pipeline, other = await api.shop.pipeline(), await api.shop.pipeline()
    key = {"Idempotency-Key": "7f9c-1"}
    first = await api.ask("POST", f"/pipelines/{pipeline.id}/run", headers=key, expect=202)
    again = await api.ask("POST", f"/pipelines/{pipeline.id}/run?if_idle=true", headers=key, expect=202)
    assert again == first
    reused = await api.ask("POST", f"/pipelines/{other.id}/run", headers=key, expect=409)
    assert reused["error"]["code"] == "idempotency_key_reused"
    await api.shop.rows.sql("UPDATE api_idempotency_keys SET created_at = now() - interval '25 hours'")
    later = await api.ask("POST", f"/pipelines/{pipeline.id}/run", headers=key, expect=202)
    assert later["id"] != first["id"]


async def test_twenty_requests_with_one_key_at_once_make_one_run(api: Api) -> None:
    pipeline = await api.shop.pipeline()
    ids: list[int] = []

    async def send() -> None:
        answer = await api.ask("POST", f"/pipelines/{pipeline.id}/run", headers={"Idempotency-Key": "k"}, expect=202)
        ids.append(answer["id"])

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(send)
    assert (len(ids), len(set(ids)), (await api.counts())["pipeline_runs"]) == (20, 1, 1)


async def test_a_key_belongs_to_its_account(api: Api) -> None:
    pipeline = await api.shop.pipeline()
    await api.shop.database.transact(_let_in, api.shop)
    token = (await _token_of_actor(api)).text
    key = {"Idempotency-Key": "same"}
    first = await api.ask("POST", f"/pipelines/{pipeline.id}/run", headers=key, expect=202)
    second = await api.ask("POST", f"/pipelines/{pipeline.id}/run", headers=key, token=token, expect=202)
    assert first["id"] != second["id"]


@pytest.mark.parametrize("key", ["a b", "x" * 256, "é"])
async def test_a_key_that_is_none_is_refused(api: Api, key: str) -> None:
    pipeline = await api.shop.pipeline()
    answer = await api.ask(
        "POST", f"/pipelines/{pipeline.id}/run", headers={"Idempotency-Key": key.encode("latin-1")}, expect=422
    )
    assert answer["error"]["details"]["faults"][0]["field"] == "header.Idempotency-Key"


async def test_runs_are_paged_the_newest_first(api: Api) -> None:
    pipeline = await api.shop.pipeline()
    ids = [(await api.shop.run_of(pipeline)).id for _ in range(3)]
    page = await api.ask("GET", f"/pipelines/{pipeline.id}/runs?limit=2", expect=200)
    assert ([run["id"] for run in page["items"]], page["total"]) == ([ids[2], ids[1]], 3)
    rest = await api.ask("GET", f"/pipelines/{pipeline.id}/runs?limit=200&offset=2", expect=200)
    assert [run["id"] for run in rest["items"]] == [ids[0]]


async def test_items_tell_what_came_of_each_target(api: Api) -> None:
    pipeline = await api.shop.pipeline(urls=api.shop.urls(3))
    run = await api.shop.perform(pipeline)
    page = await api.ask("GET", f"/pipelines/{pipeline.id}/runs/{run.id}/items?limit=2&offset=1", expect=200)
    assert page["total"] == 3
    assert [(item["ordinal"], item["target"], item["outcome"]) for item in page["items"]] == [
        (1, "https://site.example/1", "success"),
        (2, "https://site.example/2", "success"),
    ]


async def test_a_waiting_run_is_cancelled_once(api: Api) -> None:
    pipeline = await api.shop.pipeline()
    run = await api.shop.run_of(pipeline)
    path = f"/pipelines/{pipeline.id}/runs/{run.id}/cancel"
    assert (await api.ask("POST", path, expect=202))["status"] == "cancelled"
    assert (await api.ask("POST", path, expect=409))["error"]["code"] == "run_state"


# --- results ----------------------------------------------------------------------------------------------------------


async def finished(api: Api) -> tuple[str, Any]:
    """A run that ended well without a stored result of its own; the path of that."""
    pipeline = await api.shop.pipeline()
    run = await api.shop.perform(pipeline)
    await api.shop.rows.sql("UPDATE pipeline_runs SET result_blob_key = NULL WHERE id = $1", run.id)
    return f"/pipelines/{pipeline.id}/runs/{run.id}/result", run


@pytest.mark.claim("S3-101")
async def test_a_result_is_read_as_it_was_stored_with_its_length(api: Api) -> None:
    path, run = await finished(api)
    content = b'{"runs":[{"url":"https://site.example/a"}]}'
    await api.publish(run, content)
    answer = await api.ask("GET", path)
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"] == str(len(content))
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment")


@pytest.mark.claim("S3-101")
async def test_a_result_that_never_was_expired_or_is_lost_is_not_there(api: Api) -> None:
    path, run = await finished(api)
    assert (await api.ask("GET", path, expect=404))["error"]["code"] == "no_result"
    key = await api.publish(run, b"{}", days=-1)
    assert (await api.ask("GET", path, expect=404))["error"]["code"] == "no_result"
    await api.publish(run, b"{}")
    await api.ask("GET", path, expect=200)
    await api.blobs.delete(key)
    assert (await api.ask("GET", path, expect=404))["error"]["code"] == "blob_missing"
    await api.publish(run, b"{}", backend="s3")
    assert (await api.ask("GET", path, expect=404))["error"]["code"] == "no_result"


async def test_a_large_result_is_streamed_and_not_held_in_memory(api: Api) -> None:
    path, run = await finished(api)
    size = 96 * MEBIBYTE
    await api.publish(run, b"x" * size)
    before = _resident()
    peak, read = before, 0
    async with api.client.stream("GET", path, headers={"Authorization": f"Bearer {api.token}"}) as answer:
        assert answer.headers["content-length"] == str(size)
        async for chunk in answer.aiter_raw():
            read += len(chunk)
            peak = max(peak, _resident())
    assert read == size
    assert peak - before < 48 * MEBIBYTE


async def test_a_drain_lets_an_open_stream_end_and_takes_nobody_new(shop: Shop, tmp_path: Path) -> None:
    async with serving(shop, tmp_path) as api:
        path, run = await finished(api)
        size = 32 * MEBIBYTE
        await api.publish(run, b"x" * size)
        read = 0
        async with api.client.stream("GET", path, headers={"Authorization": f"Bearer {api.token}"}) as answer:
            chunks = answer.aiter_raw()
            read += len(await anext(chunks))
            api.lifecycle.advance(Phase.DRAINING)
            with trio.fail_after(5):
                while not await _refused(api.url):
                    await trio.lowlevel.checkpoint()
            assert not api.stopped.is_set()
            async for chunk in chunks:
                read += len(chunk)
        assert read == size
        with trio.fail_after(5):
            await api.stopped.wait()


async def test_a_stream_that_does_not_end_is_cut_when_the_grace_is_over(shop: Shop, tmp_path: Path) -> None:
    async with serving(shop, tmp_path, grace_s=0.5) as api:
        path, run = await finished(api)
        await api.publish(run, b"x" * (64 * MEBIBYTE))
        async with api.client.stream("GET", path, headers={"Authorization": f"Bearer {api.token}"}) as answer:
            chunks = answer.aiter_raw()
            await anext(chunks)
            api.lifecycle.advance(Phase.DRAINING)
            with trio.fail_after(5):
                await api.stopped.wait()
            with pytest.raises(httpx.RemoteProtocolError):
                async for _ in chunks:
                    pass


async def test_a_server_that_is_cancelled_ends_at_once_although_a_client_does_not_read(
    shop: Shop, tmp_path: Path
) -> None:
    with trio.fail_after(20):
        async with serving(shop, tmp_path) as api:
            path, run = await finished(api)
            await api.publish(run, b"x" * (32 * MEBIBYTE))
            url = httpx.URL(api.url)
            stream = await trio.open_tcp_stream(url.host, url.port or 80)
            request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n\r\n"
            await stream.send_all(request.encode())
            assert (await stream.receive_some(1024)).startswith(b"HTTP/1.1 200")
            await trio.testing.wait_all_tasks_blocked(0.2)  # until the server can send no more
    await stream.aclose()


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_a_body_over_the_limit_is_refused_declared_or_not(api: Api) -> None:
    headers = {"Content-Type": "application/json"}
    large = b'{"name":"' + b"x" * MEBIBYTE + b'"}'

    async def chunks() -> Any:
        for start in range(0, len(large), 65_536):
            yield large[start : start + 65_536]

    for content in (large, chunks()):
        answer = await api.ask("POST", "/pipelines", content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


async def test_a_body_that_does_not_come_is_given_up_and_nothing_is_written(shop: Shop, tmp_path: Path) -> None:
    async with serving(shop, tmp_path, deadline_s=0.5) as api:
        head = (
            f"POST /pipelines HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        url = httpx.URL(api.url)
        async with await trio.open_tcp_stream(url.host, url.port or 80) as stream:
            await stream.send_all(head.encode())
            with trio.fail_after(5):
                answer = await stream.receive_some()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert await shop.rows.value("SELECT count(*) FROM pipelines") == 0


async def test_what_is_not_done_in_time_is_undone(shop: Shop, tmp_path: Path) -> None:
    pipeline = await shop.pipeline()
    async with serving(shop, tmp_path, deadline_s=0.0) as api:
        answer = await api.ask("DELETE", f"/pipelines/{pipeline.id}", expect=503)
        assert answer["error"]["code"] == "deadline"
    assert await shop.rows.value("SELECT count(*) FROM pipelines") == 1


def _resident() -> int:
    """Bytes of memory in use by this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


async def _refused(url: str) -> bool:
    """Whether a new connection is not taken."""
    parts = httpx.URL(url)
    try:
        stream = await trio.open_tcp_stream(parts.host, parts.port or 80)
    except OSError:
        return True
    await stream.aclose()
    return False


async def _let_in(connection: Any, shop: Shop) -> None:
    from schema.pipelines.workspaces import PERMISSIONS, add_member

    await add_member(connection, shop.workspace, shop.actor, PERMISSIONS)


async def _token_of_actor(api: Api) -> Any:
    from schema import tokens

    return await api.shop.database.transact(
        tokens.create_token,
        api.shop.actor,
        api.workspace,
        name="other",
        permissions=["connectors:update"],
        created_by="test",
    )
