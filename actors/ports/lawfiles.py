"""What fetching of national and decentral laws has in common: requests checked first, files parsed in threads.

Metadata files have megabytes, and the loop must not stand still for 50 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import TypeVar

import trio
from attrs import frozen

from actors.ports.fetch import Fetched, Fetcher, Purpose
from protocols.bwb.errors import ConversionError
from protocols.downloads import DownloadFailed, NotServed, RedirectLoop
from protocols.failures import InvalidInput
from protocols.law_ids import InvalidLawId

Parsed = TypeVar("Parsed")


class TextNotServed(DownloadFailed):
    """The manifest names a text that the repository does not hand out; it may be about to be replaced (BW-03)."""

    kind = "text_not_served"


@frozen
class SourceFile:
    """One file that a law was made from; ``sha256`` is of the unpacked bytes, ``from_cache`` means unchanged (304)."""

    url: str
    sha256: str
    size_bytes: int
    from_cache: bool


def source_of(file: Fetched) -> SourceFile:
    """``file`` without its content."""
    return SourceFile(file.url, file.sha256, len(file.content), file.from_cache)


def check_request(parse_id: Callable[[str], Parsed], law_id: str, day: date | None, today: date) -> Parsed:
    """The id as ``parse_id`` reads it; a malformed one or a date after ``today`` is ``InvalidInput``, nobody asked."""
    try:
        parsed = parse_id(law_id)
    except InvalidLawId as error:
        raise InvalidInput(str(error), law_id=law_id[:80]) from None
    if day is not None and day > today:
        late = f"{law_id}: the date {day.isoformat()} lies after today ({today.isoformat()})"
        raise InvalidInput(late, law_id=law_id)
    return parsed


async def parsed_file(fetcher: Fetcher, file: Fetched, parse: Callable[[bytes], Parsed]) -> Parsed:
    """Parse in a thread. What cannot be read must not come back from the cache next time."""
    try:
        return await trio.to_thread.run_sync(parse, file.content)
    except ConversionError:
        await fetcher.forget(file.url)
        raise


async def get_text(fetcher: Fetcher, url: str, law_id: str, max_bytes: int | None) -> Fetched:
    """A text that a manifest names; ``TextNotServed`` where the repository does not hand it out."""
    try:
        return await fetcher.get(url, Purpose.CONTENT, max_bytes=max_bytes)
    except (NotServed, RedirectLoop) as error:
        raise TextNotServed(
            f"{law_id}: its text is named but not served, perhaps deleted ({error.message})",
            law_id=law_id,
            **error.details,
        ) from error
