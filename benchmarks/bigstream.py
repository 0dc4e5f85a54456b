"""An invented agent stream of any size: mostly text that comes in small pieces, some tool input, some whole messages."""

from __future__ import annotations

import json
from random import Random

SESSION = "00000000-0000-4000-8000-000000000009"


def big_stream(size_bytes: int, seed: int = 1) -> bytes:
    """Whole lines, at least ``size_bytes`` together; 88 of 100 are text deltas, 6 deltas of tool input."""
    dice = Random(seed)
    lines: list[bytes] = []
    size = 0
    number = 0
    while size < size_bytes:
        number += 1
        line = json.dumps(_event(dice, number), separators=(",", ":")).encode() + b"\n"
        lines.append(line)
        size += len(line)
    return b"".join(lines)


def _event(dice: Random, number: int) -> dict[str, object]:
    kind = dice.random()
    around: dict[str, object] = {"session_id": SESSION, "parent_tool_use_id": None, "uuid": f"{number:032x}"}
    if kind < 0.94:
        text = 'de verzekerde heeft aanspraak op een toeslag van € 100 "per maand" '[: dice.randint(5, 60)]
        delta = (
            {"type": "text_delta", "text": text}
            if kind < 0.88
            else {"type": "input_json_delta", "partial_json": json.dumps({"old": text})[: dice.randint(4, 40)]}
        )
        event = {"type": "content_block_delta", "index": number % 3, "delta": delta}
        return {"type": "stream_event", "event": event, **around}
    message_id = f"msg_{number // 20}"
    if kind < 0.97:
        arguments = {"file_path": "/srv/law.yaml", "old_string": "x" * dice.randint(100, 3000)}
        content = [{"type": "tool_use", "id": f"toolu_{number}", "name": "Edit", "input": arguments}]
        message = {"id": message_id, "type": "message", "role": "assistant", "model": "m", "content": content}
        return {"type": "assistant", "message": message, **around}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number - 1}", "content": "y" * dice.randint(100, 6000)}
    return {"type": "user", "message": {"role": "user", "content": [result]}, **around}
