"""What stands in the payload of an enrich job (``enrich.md`` 1.1, 1.2), typed.

Reading ignores unknown keys; writing leaves unset values out, which is what the other services expect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, ClassVar, Final
from uuid import UUID

from attrs import frozen

from protocols.budget import PROVIDERS
from protocols.corpus import corpus_path
from protocols.failures import InvalidInput, InvalidPayload, JsonObject

TASK_DELIVERY: Final = "task"
_LEGACY_PREFIXES: Final = ("/tmp/corpus-repo/", "/tmp/regulation-repo/")


class ForeignTarget(InvalidPayload):
    """A job for a traject that would be pushed with the central token to the central corpus."""

    kind: ClassVar[str] = "foreign_target"


@frozen
class EnrichPayload:
    """A window of enrichment to do. ``yaml_path`` is normalised. ``depth``: of related legislation, absent is 0.

    ``deliver`` ``task`` sends the result to a person instead of a branch. ``restart`` begins the law anew from its
    present base (D55).
    """

    law_id: str
    yaml_path: str
    provider: str | None = None
    depth: int | None = None
    requested_by: UUID | None = None
    deliver: str | None = None
    traject_id: UUID | None = None
    traject_ref: str | None = None
    source_etag: str | None = None
    new_law: bool = False
    restart: bool = False

    @property
    def is_task_flow(self) -> bool:
        return self.deliver == TASK_DELIVERY

    def continuation(self, provider: str) -> JsonObject:
        """The payload of the next window in the corpus flow; a restart was done by this one."""
        return without_absent(
            law_id=self.law_id,
            yaml_path=self.yaml_path,
            provider=provider,
            depth=self.depth,
            traject_ref=self.traject_ref,
        )

    def task_continuation(self, provider: str) -> JsonObject:
        """The payload of the next window in the task flow."""
        return {**payload_document(self), "provider": provider}


def read_enrich_payload(payload: Any) -> EnrichPayload:
    """The payload of a claimed enrich job. InvalidPayload (ForeignTarget) when it cannot be worked on, ever."""
    if not isinstance(payload, Mapping):
        raise InvalidPayload("an enrich job needs a payload with law_id and yaml_path")
    try:
        parsed = EnrichPayload(
            law_id=_need_text(payload, "law_id"),
            yaml_path=law_path(_need_text(payload, "yaml_path")),
            depth=_whole(payload, "depth"),
            new_law=_boolean(payload, "new_law"),
            restart=_boolean(payload, "restart"),
            provider=_text(payload, "provider"),
            deliver=_text(payload, "deliver"),
            traject_ref=_text(payload, "traject_ref"),
            source_etag=_text(payload, "source_etag"),
            requested_by=_uuid(payload, "requested_by"),
            traject_id=_uuid(payload, "traject_id"),
        )
    except InvalidInput as error:
        raise InvalidPayload(f"enrich payload: {error.message}") from error
    _check_target(parsed)
    return parsed


def payload_document(payload: EnrichPayload) -> JsonObject:
    """As it is stored: unset values are absent."""
    return without_absent(
        law_id=payload.law_id,
        yaml_path=payload.yaml_path,
        provider=payload.provider,
        depth=payload.depth,
        requested_by=None if payload.requested_by is None else str(payload.requested_by),
        deliver=payload.deliver,
        traject_id=None if payload.traject_id is None else str(payload.traject_id),
        traject_ref=payload.traject_ref,
        source_etag=payload.source_etag,
        new_law=payload.new_law or None,
        restart=payload.restart or None,
    )


def law_path(path: str) -> str:
    """``path`` relative to the repository. Old payloads hold two absolute prefixes, which are taken off. InvalidInput.

    Also guards the paths of blobs that become files.
    """
    if not path:
        raise InvalidInput("yaml_path is empty: give the path of the law file in the repository")
    for prefix in _LEGACY_PREFIXES:
        if path.startswith(prefix):
            path = path.removeprefix(prefix)
            break
    if ".." in path or not re.fullmatch(r"[A-Za-z0-9/_.-]+", path):
        raise InvalidInput(f"yaml_path {path[:200]!r}: only letters, digits and / _ . - are allowed, and no '..'")
    return corpus_path(path)


def law_folder(path: str) -> PurePosixPath:
    """The folder of the law at ``path``, which is the law's own: its cursor, report and scenarios are there too. InvalidInput
    where that would be the whole corpus."""
    folder = PurePosixPath(path).parent
    if not folder.name:
        raise InvalidInput(
            f"{path} stands in the root of the corpus, and a law needs a folder of its own below it, for its cursor and its "
            f"report: move it, for instance to {PurePosixPath(path).stem}/{path}"
        )
    return folder


def provider_of(payload: EnrichPayload, default: str) -> str:
    """Who runs it. InvalidPayload for a name that nobody knows: another provider would push to another branch."""
    if payload.provider is None:
        return default
    if payload.provider not in PROVIDERS:
        raise InvalidPayload(f"unknown provider {payload.provider[:40]!r}: known are {', '.join(PROVIDERS)}")
    return payload.provider


def _check_target(payload: EnrichPayload) -> None:
    if payload.is_task_flow:
        if payload.requested_by is None or payload.traject_id is None:
            raise InvalidPayload("a review task needs requested_by and traject_id: there is nobody to show it to")
    elif payload.traject_id is not None or payload.traject_ref is not None:
        raise ForeignTarget(
            "a law of a traject is delivered by a review task (review-taak): set deliver to 'task', "
            "or leave traject_id and traject_ref out"
        )


def without_absent(**values: Any) -> JsonObject:
    """Only what has a value."""
    return {key: value for key, value in values.items() if value is not None}


def _need_text(payload: Mapping[str, Any], name: str) -> str:
    value = _text(payload, name)
    if not value:
        raise InvalidInput(f"{name} is missing")
    return value


def _text(payload: Mapping[str, Any], name: str) -> str | None:
    value = payload.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{name} must be a text, not {type(value).__name__}")
    return value


def _whole(payload: Mapping[str, Any], name: str) -> int | None:
    value = payload.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise InvalidInput(f"{name} must be a whole number, 0 or more")
    return value


def _boolean(payload: Mapping[str, Any], name: str) -> bool:
    value = payload.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidInput(f"{name} must be true or false")
    return value is True


def _uuid(payload: Mapping[str, Any], name: str) -> UUID | None:
    value = _text(payload, name)
    try:
        return None if value is None else UUID(value)
    except ValueError:
        raise InvalidInput(f"{name} is no UUID") from None
