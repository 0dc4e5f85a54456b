"""Where conversions run, so that the loop never stands still for 50 ms.

Small texts: a worker thread, which gives way every few milliseconds. Large ones: a child process of their own. There
parser, YAML reader and garbage collector would keep a thread's turn for as long as the text is large; and a child can
be stopped, which a thread cannot, gives its memory back, and takes nobody along when a text kills its parser.
"""

from __future__ import annotations

import pickle
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec
import trio

import actors
from actors.ports.child import Exit, run_child
from actors.ports.conversion_process import Answer
from actors.ports.guardian import Guardian
from protocols.bwb.errors import MalformedLaw, RefusedLaw
from protocols.failures import Crashed, ResourceExhausted
from protocols.lawproduct import Order, Product, produce

LARGE_BYTES: Final = 1 << 20
"""From here on a child: starting one costs a third of a second, as long as a thread takes for this much."""
ANSWER_LIMIT_BYTES: Final = 256 << 20

_BOOT = "import sys; sys.path.append(sys.argv[1]); from actors.ports.conversion_process import main; sys.exit(main())"


async def converted(order: Order, guardian: Guardian | None = None) -> Product:
    """Do ``order``. ConversionError says what is wrong with the text; cancelled, a large conversion ends at once.

    ResourceExhausted when the child was killed, for which the usual reason is memory; Crashed when it died of anything
    else.
    """
    if len(order.text) < LARGE_BYTES:
        return await trio.to_thread.run_sync(produce, order)
    request = await trio.to_thread.run_sync(pickle.dumps, order)
    root = str(Path(next(iter(actors.__path__))).parent)
    ended = await run_child(
        [sys.executable, "-I", "-c", _BOOT, root],
        env={},
        cwd=Path("/"),
        stdin=request,
        stdout_limit_bytes=ANSWER_LIMIT_BYTES,
        guardian=guardian,
    )
    return await trio.to_thread.run_sync(_product, order.law_id, ended)


def _product(law_id: str, ended: Exit) -> Product:
    if not ended.ok:
        raise _failure(law_id, ended)
    answer = msgspec.msgpack.decode(ended.stdout, type=Answer)
    if answer.product is not None:
        return answer.product
    refusal = MalformedLaw if answer.malformed else RefusedLaw
    raise refusal(answer.reason, answer.message)


def _failure(law_id: str, ended: Exit) -> Crashed | ResourceExhausted:
    last = ended.stderr_tail.decode(errors="replace").strip().rpartition("\n")[2][:300]
    if ended.signal == signal.SIGKILL or last.startswith("MemoryError"):
        return ResourceExhausted(f"{law_id}: the conversion was killed; is there enough memory for it?")
    how = f"signal {ended.signal}" if ended.signal else f"exit code {ended.code}"
    if ended.killed_by is not None:
        how = f"more than {ANSWER_LIMIT_BYTES} bytes of output"
    return Crashed(f"{law_id}: the conversion ended with {how}: {last or 'no message'}")
