"""The databases that tests get: fresh ones, from whatever server there is, with nothing to install."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from schema.connection import Connection
from schema.migrate import missing
from tests.kit import ledger
from tests.kit.postgres import PostgresServer, docker_answers, run_on, temporary_folder


@pytest.mark.claim("S0-163", "C-012")
def test_a_test_has_a_migrated_database_of_its_own(postgres_server: PostgresServer, database_url: str) -> None:
    assert run_on(database_url, missing) == ()
    run_on(database_url, ledger.make)
    with postgres_server.fresh() as other:
        run_on(other, ledger.make)
        assert run_on(other, ledger.ids) == []


def test_an_empty_database_has_no_schema(empty_database_url: str) -> None:
    assert run_on(empty_database_url, missing) != ()


def test_a_database_is_gone_after_its_test_even_with_somebody_connected(postgres_server: PostgresServer) -> None:
    async def exists(connection: Connection, name: str) -> bool:
        return bool(await connection.fetchval("SELECT count(*) FROM pg_database WHERE datname = $1", name))

    with ExitStack() as life:
        url = life.enter_context(postgres_server.fresh())
        name = urlsplit(url).path.removeprefix("/")

        async def drop_while_connected(connection: Connection) -> bool:
            seen = await exists(connection, name)
            await asyncio.to_thread(life.close)
            return seen

        assert run_on(url, drop_while_connected)
    assert not postgres_server.run(exists, name)


@contextmanager
def engine_socket(answer: bytes) -> Iterator[str]:
    with temporary_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder) / "docker.sock"
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                assert peer.recv(1024).startswith(b"GET /_ping ")
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"unix://{path}"
        thread.join()


def test_a_container_engine_is_found_by_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with engine_socket(b"HTTP/1.0 200 OK\r\n\r\nOK") as url:
        monkeypatch.setenv("DOCKER_HOST", url)
        assert docker_answers()
    with engine_socket(b"HTTP/1.0 503 Service Unavailable\r\n\r\n") as url:
        monkeypatch.setenv("DOCKER_HOST", url)
        assert not docker_answers()


@pytest.mark.parametrize("host", ["unix:///nonexistent/docker.sock", "tcp://127.0.0.1:1"])
def test_without_an_engine_none_is_found(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    assert not docker_answers()
