"""Pages to Markdown in processes that can be killed (D69): no page stops the loop, eats the memory or lasts for ever.

trafilatura takes minutes for some pages and knows no limit; a thread could not be stopped. Not ``anyio.to_process``:
its workers inherit the environment with all secrets in it, readable through ``/proc`` (D50), and their answers are
unpickled.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec
import structlog
import trio
from attrs import define, field

import actors
from actors.ports import adopted, proctable
from actors.ports.crawlsettings import ExtractSettings
from actors.ports.extraction_process import LENGTH_BYTES, READY, Order, frame
from actors.ports.guardian import FAMILY
from protocols.failures import ResourceExhausted
from protocols.webpage.extract import Extracted, PageLimits, RawPage

_log = structlog.get_logger(__name__)

_BOOT: Final = (
    "import sys; sys.path.append(sys.argv[1]); from actors.ports.extraction_process import main; sys.exit(main())"
)
_START_LIMIT_S: Final = 30.0
_ANSWER_LIMIT_BYTES: Final = 64 << 20


@define(eq=False)
class _Worker:
    process: trio.Process
    pages: int = 0

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    async def ask(self, order: Order) -> Extracted:
        """Raises ``EOFError`` when the process ends instead of answering, ``ValueError`` for an answer that is none."""
        assert self.process.stdin is not None
        self.pages += 1
        try:
            await self.process.stdin.send_all(frame(order))
        except trio.BrokenResourceError:
            raise EOFError from None
        length = int.from_bytes(await self._read(LENGTH_BYTES), "big")
        if length > _ANSWER_LIMIT_BYTES:
            raise ValueError("the answer is too long")
        return msgspec.msgpack.decode(await self._read(length), type=Extracted)

    async def ready(self) -> None:
        """Raises like :meth:`ask`, or ``TooSlowError``."""
        with trio.fail_after(_START_LIMIT_S):
            if await self._read(len(READY)) != READY:
                raise ValueError("the process does not greet")

    async def _read(self, size: int) -> bytes:
        assert self.process.stdout is not None
        content = bytearray()
        while len(content) < size:
            chunk = await self.process.stdout.receive_some(min(1 << 16, size - len(content)))
            if not chunk:
                raise EOFError
            content += chunk
        return bytes(content)

    async def end(self) -> None:
        """Killed and waited for, whatever it does. Without a checkpoint that could be cancelled."""
        with trio.CancelScope(shield=True):
            self.process.kill()
            await self.process.wait()
            adopted.disown(self.process.pid)
            for pipe in (self.process.stdin, self.process.stdout):
                assert pipe is not None
                await trio.aclose_forcefully(pipe)


@define(eq=False)
class Extractor:
    """Made by :func:`open_extractor`. Processes start when there are pages, at most ``settings.workers``."""

    settings: ExtractSettings
    _idle: list[_Worker] = field(init=False, factory=list)
    _places: trio.CapacityLimiter = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._places = trio.CapacityLimiter(self.settings.workers)

    async def extract(self, page: RawPage) -> Extracted:
        """Never raises for what a page does: time, memory and crashes become the ``problem`` of the answer.

        ResourceExhausted when no process can be started.
        """
        settings = self.settings
        limits = PageLimits(
            max_text_bytes=settings.max_text_bytes,
            shell_html_bytes=settings.shell_html_bytes,
            min_content_chars=settings.min_content_chars,
        )
        async with self._places:
            worker = await self._worker()
            usable = False
            try:
                with trio.move_on_after(settings.time_limit_s):
                    answer = await worker.ask(Order(page, limits, settings.time_limit_s))
                    usable = worker.pages < settings.pages_per_worker
                    return answer
                problem = f"extraction took more than {settings.time_limit_s:g} s"
            except EOFError:
                problem = "extraction ended without an answer: too much memory, or a page that kills its parser"
            except (ValueError, msgspec.MsgspecError):
                problem = "extraction gave no readable answer"
            finally:
                if usable:
                    self._idle.append(worker)
                else:
                    await worker.end()  # noqa: ASYNC102 - it shields itself
        _log.warning("page not extracted", problem=problem, bytes=len(page.body))
        return Extracted(problem=problem)

    async def close(self) -> None:
        """End the processes that wait for work; those at work end with their task."""
        while self._idle:
            await self._idle.pop().end()

    async def _worker(self) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            await worker.end()
        return await _start(self.settings.memory_bytes)


@asynccontextmanager
async def open_extractor(settings: ExtractSettings) -> AsyncIterator[Extractor]:
    """One for the process: the number of workers is what the machine has room for."""
    extractor = Extractor(settings)
    try:
        yield extractor
    finally:
        await extractor.close()  # noqa: ASYNC102 - it shields itself


async def _start(memory_bytes: int) -> _Worker:
    root = str(Path(next(iter(actors.__path__))).parent)
    process = await trio.lowlevel.open_process(
        [sys.executable, "-I", "-c", _BOOT, root, str(memory_bytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={proctable.MARK_VARIABLE: f"{FAMILY}.{uuid4().hex}"},
        cwd="/",
    )
    adopted.own(process.pid)
    worker = _Worker(process)
    try:
        await worker.ready()
    except (EOFError, ValueError, trio.TooSlowError) as error:
        await worker.end()
        raise ResourceExhausted(
            f"a process that extracts pages did not start ({type(error).__name__}); is there enough memory for it?"
        ) from error
    except BaseException:
        await worker.end()  # noqa: ASYNC102 - it shields itself
        raise
    return worker
