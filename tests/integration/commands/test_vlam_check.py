"""``vlam-check`` against a model service on loopback (`enrich.md` 12)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.kit.cli import Done, run

KEY = "canary-vlam-key"
SECRET_ANSWER = "canary-answer"


class Service:
    """Answers as told and remembers what it was asked."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}"
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.models: Any = {"data": [{"id": "kimi-k3-prepaid", "object": "model", "max_model_len": 131072}]}
        self.status = 200
        self.drip_s = 0.0

    def answer(self, path: str, headers: dict[str, str], body: Any) -> Any:
        self.requests.append((path, headers, body))
        if path.endswith("/models"):
            return self.models
        message: dict[str, Any] = {"content": SECRET_ANSWER, "reasoning_content": "x" * 40}
        tokens = 60
        if "chat_template_kwargs" in body:
            del message["reasoning_content"]
            tokens = 2
        if "tools" in body:
            message["tool_calls"] = [{"function": {"name": "current_time", "arguments": "{}"}}]
        return {"choices": [{"message": message}], "usage": {"completion_tokens": tokens}}


@pytest.fixture
def service() -> Iterator[Service]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def _answer(self, body: Any) -> None:
            content = json.dumps(told.answer(self.path, dict(self.headers.items()), body)).encode()
            self.send_response(told.status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            for byte in content if told.drip_s else ():
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(told.drip_s)  # noqa: TID251 - the server drips, not the test
            self.wfile.write(b"" if told.drip_s else content)

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:
                return

        def log_message(self, *args: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told = Service(server)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield told
        server.shutdown()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "opencode.json"
    models = {"kimi-k3-prepaid": {"name": "Kimi K3", "limit": {"context": 131072, "output": 32000}}}
    path.write_text(json.dumps({"provider": {"vlam": {"npm": "@ai-sdk/openai-compatible", "models": models}}}))
    return path


def check(config: Path, service: Service, *args: str) -> Done:
    environ = {"VLAM_API_URL": service.url, "VLAM_API_KEY": KEY, "OPENCODE_MODEL": ""}
    return run("vlam-check", "--config", config, *args, **environ)


@pytest.mark.claim("S0-115", "S0-117")
def test_each_question_gives_one_line_with_figures_and_without_words(config: Path, service: Service) -> None:
    done = check(config, service)
    assert done.code == 0
    assert done.out.splitlines() == [
        "VLAM check: model kimi-k3-prepaid: HTTP 200, listed (object=model, max_model_len=131072)",
        "VLAM check: chat, plain: HTTP 200, 60 completion tokens, 40 characters of reasoning",
        "VLAM check: chat, reasoning_effort low: HTTP 200, 60 completion tokens, 40 characters of reasoning",
        "VLAM check: chat, thinking off: HTTP 200, 2 completion tokens, no separate reasoning",
        "VLAM check: tool call: HTTP 200, 60 completion tokens, answered with a tool call",
    ]
    assert "canary" not in done.out + done.err


@pytest.mark.claim("S0-116", "S0-120")
def test_the_service_is_asked_as_opencode_will_ask_it(config: Path, service: Service) -> None:
    check(config, service)
    paths = [path for path, _, _ in service.requests]
    assert paths == ["/v1/models", *["/v1/chat/completions"] * 4]
    assert {headers["Authorization"] for _, headers, _ in service.requests} == {f"Bearer {KEY}"}
    chats = [body for _, _, body in service.requests[1:]]
    assert {(body["model"], body["max_tokens"]) for body in chats} == {("kimi-k3-prepaid", 32000)}
    assert chats[1]["reasoning_effort"] == "low"
    assert chats[2]["chat_template_kwargs"] == {"thinking": False}
    assert len(chats[3]["tools"]) == 1


def test_a_service_that_refuses_is_no_reason_to_fail(config: Path, service: Service) -> None:
    service.status = 401
    done = check(config, service)
    assert done.code == 0
    assert done.out.count("HTTP 401") == 5


def test_a_model_that_is_not_listed_and_answers_of_odd_shape_are_told(config: Path, service: Service) -> None:
    service.models = {"data": [{"id": "other"}, None, 3]}
    assert "not listed" in check(config, service).out
    service.models = [1, 2]
    assert "no object" in check(config, service).out


def test_a_service_that_is_away_or_drips_is_waited_for_within_the_limit(config: Path, service: Service) -> None:
    service.drip_s = 0.05
    began = time.monotonic()
    done = check(config, service, "--limit", "0.3")
    assert done.code == 0
    assert done.out.count("no answer in time") == 5
    assert time.monotonic() - began < 10
    service.url = "http://127.0.0.1:9"
    assert check(config, service).out.count("no answer (ConnectError)") == 5


def test_without_address_key_or_configuration_one_line_says_that_it_is_skipped(
    config: Path, service: Service, tmp_path: Path
) -> None:
    for environ in ({}, {"VLAM_API_URL": service.url}, {"VLAM_API_KEY": KEY}):
        given = {"VLAM_API_URL": "", "VLAM_API_KEY": "", **environ}
        done = run("vlam-check", "--config", config, **given)
        assert (done.code, len(done.out.splitlines())) == (0, 1)
        assert "skipped" in done.out
    assert "skipped" in check(tmp_path / "none", service).out
    assert service.requests == []
