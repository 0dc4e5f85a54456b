"""Lines as the two agent CLIs print them, cut down to what matters; and a runner that plays them on a mock clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from actors.agent import SliceCall
from actors.ports.agentprocess import AgentEnd, Stop, Stopped
from actors.ports.launcher import AgentCommand
from actors.ports.spool import Spool

SESSION = "5e55105e-0000-4000-8000-000000000001"


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


# --- claude ----------------------------------------------------------------------------------------------------------


def init(model: str = "claude-opus-5-5") -> bytes:
    return line(type="system", subtype="init", cwd="/srv/corpus", session_id=SESSION, model=model, tools=["Read"])


def partial() -> bytes:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}
    return line(type="stream_event", event=delta, session_id=SESSION, parent_tool_use_id=None)


def tool(name: str = "Edit", path: str = "/srv/corpus/laws/wet/law.yaml", message: str = "msg_1") -> bytes:
    block = {"type": "tool_use", "id": f"toolu_{message}", "name": name, "input": {"file_path": path}}
    content = {"id": message, "role": "assistant", "model": "claude-opus-5-5", "content": [block], "stop_reason": None}
    return line(type="assistant", message=content, parent_tool_use_id=None, session_id=SESSION)


def retry(delay_ms: int = 35_000, status: int | None = 529) -> bytes:
    return line(
        type="system",
        subtype="api_retry",
        attempt=1,
        max_retries=10,
        retry_delay_ms=delay_ms,
        error_status=status,
        error="overloaded",
        session_id=SESSION,
    )


def api_error(error: str, status: int | None, text: str) -> bytes:
    content = {"id": "msg_x", "role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    return line(
        type="assistant",
        message=content,
        error=error,
        is_api_error_message=True,
        api_error_status=status,
        session_id=SESSION,
    )


def result(*, is_error: bool = False, text: str = "done", cost: float = 0.5) -> bytes:
    usage = {
        "input_tokens": 10,
        "output_tokens": 20,
        "cache_read_input_tokens": 30,
        "cache_creation_input_tokens": 40,
    }
    return line(
        total_cost_usd=cost,
        usage=usage,
        type="result",
        subtype="success",
        is_error=is_error,
        result=text,
        session_id=SESSION,
        terminal_reason="api_error" if is_error else "completed",
    )


# --- opencode --------------------------------------------------------------------------------------------------------


def step(reason: str = "stop", text: str = "", number: int = 1, session: str = "ses_1") -> bytes:
    """One whole step: start, text, finish."""
    part = {"id": f"prt_{number}", "messageID": f"msg_{number}", "sessionID": session}
    tokens = {"total": 60, "input": 10, "output": 20, "reasoning": 5, "cache": {"read": 30, "write": 0}}
    lines = [line(type="step_start", timestamp=1, sessionID=session, part={**part, "type": "step-start"})]
    if text:
        lines.append(line(type="text", timestamp=1, sessionID=session, part={**part, "type": "text", "text": text}))
    finish = {**part, "type": "step-finish", "reason": reason, "tokens": tokens, "cost": 0}
    lines.append(line(type="step_finish", timestamp=1, sessionID=session, part=finish))
    return b"".join(lines)


def opencode_error(name: str = "APIError", status: int | None = 401, **data: Any) -> bytes:
    body = {"message": "no", "isRetryable": False, **({"statusCode": status} if status else {}), **data}
    return line(type="error", timestamp=1, sessionID="ses_1", error={"name": name, "data": body})


# --- Playing ---------------------------------------------------------------------------------------------------------


@define
class Played:
    """What one call does: waits and bytes in turn, then it ends with ``code``, or never."""

    script: list[Any]
    code: int = 0
    hangs: bool = False
    stderr: str = ""
    dies_after_s: float = 0.0
    """After it was asked to stop."""
    stopped_at: float | None = field(init=False, default=None)


@define
class PlayedRunner:
    """An ``AgentRunner`` without a process: plays one script a call, in the order of the calls' ``argv[0]``."""

    scripts: dict[str, Played]
    now_running: int = field(init=False, default=0)

    async def __call__(self, command: AgentCommand, *, spool: Spool, stop: Stop, limit_s: float) -> AgentEnd:
        played = self.scripts[command.argv[0]]
        began = trio.current_time()
        self.now_running += 1
        try:
            with trio.move_on_after(limit_s) as limit:
                await self._play(played, spool, stop)
        finally:
            self.now_running -= 1
            spool.close()
        if limit.cancelled_caught:
            stop.request(Stopped.LIMIT)
        if stop.reason is None:
            return AgentEnd(played.code, None, trio.current_time() - began, stderr=played.stderr)
        played.stopped_at = trio.current_time()
        with trio.CancelScope(shield=True):
            await trio.sleep(played.dies_after_s)
        return AgentEnd(None, 15, trio.current_time() - began, stopped=stop.reason, stderr=played.stderr)

    async def _play(self, played: Played, spool: Spool, stop: Stop) -> None:
        async with trio.open_nursery() as nursery:

            async def write() -> None:
                for part in played.script:
                    if isinstance(part, bytes):
                        spool.put(part)
                    else:
                        await trio.sleep(part)
                if not played.hangs:
                    nursery.cancel_scope.cancel()

            nursery.start_soon(write)
            await stop.event.wait()
            nursery.cancel_scope.cancel()


def slice_call(name: str, folder: Path, *, limit_s: float = 1290.0, label: str = "translate") -> SliceCall:
    """The call that :class:`PlayedRunner` plays the script ``name`` for."""
    command = AgentCommand((name,), env={}, cwd=Path("/srv/corpus"), writable=())
    return SliceCall(label, command, folder, limit_s, asked_model="asked")
