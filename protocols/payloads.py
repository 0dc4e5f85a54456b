"""What stands in ``jobs.payload`` and ``jobs.result`` (``queue.md`` 3.2), typed. Shared with the existing services.

Reading is lenient about what is not known (unknown keys are ignored) and strict about what is: a number where a text is
due is :class:`InvalidPayload`. Writing leaves absent values out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from attrs import field, frozen
from cattrs import Converter, transform_error
from cattrs.gen import make_dict_unstructure_fn

from protocols.failures import InvalidPayload, JsonObject
from protocols.law_ids import InvalidDate, parse_date

MAX_HARVEST_DEPTH: Final = 1000
"""A stop for runaway chains, not a setting: chains end because their laws are harvested or queued already (D15)."""

T = TypeVar("T")


class Change(StrEnum):
    """What a harvest found different from the last one (D15)."""

    TEXT = "text"
    """The source text of the law."""
    CONVERTER = "converter"
    """Only the bytes that this converter makes of it."""
    NONE = "none"


@frozen
class HarvestPayload:
    """A harvest to do. ``date`` is YYYY-MM-DD, absent: the text in force today, else the latest (D35).

    ``depth`` counts references from the law that was asked for (absent or 0). ``max_depth`` ends this request's chain
    early, ``no_follow`` at once (D26), ``refresh`` says that a schedule asked and no person (D73); workers that do not
    know these ignore them.
    """

    bwb_id: str | None = None
    cvdr_id: str | None = None
    date: str | None = None
    max_size_mb: int | None = None
    depth: int | None = None
    max_depth: int | None = None
    no_follow: bool = False
    refresh: bool = False

    @staticmethod
    def for_law(law_id: str, date: str | None = None) -> HarvestPayload:
        """By the prefix of the id: ``BWBR`` is national, anything else decentral."""
        if law_id.startswith("BWBR"):
            return HarvestPayload(bwb_id=law_id, date=date)
        return HarvestPayload(cvdr_id=law_id, date=date)

    @property
    def law_id(self) -> str:
        """InvalidPayload when the payload names no law."""
        if self.bwb_id or self.cvdr_id:
            return self.bwb_id or self.cvdr_id or ""
        raise InvalidPayload("a harvest job must name its law: payload {'bwb_id': ...} or {'cvdr_id': ...}")

    @property
    def follows(self) -> bool:
        """Whether the laws that this one cites may be harvested next."""
        limit = MAX_HARVEST_DEPTH if self.max_depth is None else min(self.max_depth, MAX_HARVEST_DEPTH)
        return not self.no_follow and (self.depth or 0) < limit

    def follow_up(self, bwb_id: str) -> HarvestPayload:
        """The payload for a law that this one cites: the date that was *asked for*, the limits, one step deeper."""
        return HarvestPayload(
            bwb_id=bwb_id,
            date=self.date,
            max_size_mb=self.max_size_mb,
            depth=(self.depth or 0) + 1,
            max_depth=self.max_depth,
        )


@frozen
class HarvestResult:
    """What a harvest made. ``file_path`` is relative to the repository root; ``harvest_date`` is the resolved date.

    ``changed`` is what the existing services read; ``change`` is the finer word behind it (D15).
    """

    law_name: str
    slug: str
    layer: str
    file_path: str
    harvest_date: str
    article_count: int = 0
    warning_count: int = 0
    warnings: tuple[str, ...] = ()
    referenced_bwb_ids: tuple[str, ...] = ()
    source_type: str = "bwb"
    changed: bool = field(default=True)
    change: Change = Change.TEXT
    source_sha256: str = ""
    content_sha256: str = ""


def read_harvest_payload(payload: Any, law_id: str) -> HarvestPayload:
    """The payload of a harvest job; a job without one is for the law that its row names. InvalidPayload."""
    if payload is None:
        return HarvestPayload(cvdr_id=law_id) if law_id.startswith("CVDR") else HarvestPayload(bwb_id=law_id)
    parsed = _structure(payload, HarvestPayload)
    parsed.law_id  # noqa: B018 - asks for it, so that a payload without a law is refused here
    if parsed.date is not None:
        try:
            parse_date(parsed.date)
        except InvalidDate as error:
            raise InvalidPayload(f"harvest payload: {error}") from error
    return parsed


def read_harvest_result(result: Any) -> HarvestResult:
    """The result of a completed harvest, ours or an existing worker's. InvalidPayload when it is none."""
    return _structure(result, HarvestResult)


def to_document(value: HarvestPayload | HarvestResult) -> JsonObject:
    """As it is stored: absent values of a payload are left out, a result is whole."""
    document: JsonObject = _CONVERTER.unstructure(value)
    return document


def _structure(value: Any, cls: type[T]) -> T:
    if not isinstance(value, Mapping):
        raise InvalidPayload(f"{_word(cls)} must be a JSON object, not {type(value).__name__}")
    try:
        return _CONVERTER.structure(value, cls)
    except Exception as error:
        raise InvalidPayload(f"{_word(cls)}: {'; '.join(transform_error(error))}") from error


def _word(cls: type[Any]) -> str:
    """``HarvestPayload`` -> ``harvest payload``."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", cls.__name__).lower()


def _strict(value: Any, cls: type[Any]) -> Any:
    """No conversion between JSON types; a bool is no number."""
    if type(value) is not cls:
        raise ValueError(f"expected {cls.__name__}, not {type(value).__name__}")
    return value


def _texts(value: Any, _: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list of texts, not {type(value).__name__}")
    return tuple(_strict(item, str) for item in value)


def _converter() -> Converter:
    converter = Converter(unstruct_collection_overrides={tuple: list})
    for cls in (str, int, bool):
        converter.register_structure_hook(cls, _strict)
    converter.register_structure_hook_func(lambda cls: cls == tuple[str, ...], _texts)
    converter.register_unstructure_hook(
        HarvestPayload, make_dict_unstructure_fn(HarvestPayload, converter, _cattrs_omit_if_default=True)
    )
    return converter


_CONVERTER: Final = _converter()
