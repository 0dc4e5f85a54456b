"""What clients may send. UNSET: not sent, so it stays as it is; null clears what may be empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from actors.http.faults import FieldFault
from actors.http.reading import Request
from protocols.crawl import INITIAL_URLS, parse_webcrawler_urls, recognisable
from protocols.schedule import InvalidSchedule, parse_schedule
from protocols.webpolicy import UrlRefused, WebRules, parse_url
from schema.pipelines.manage import MAX_CONFIG_BYTES

_URL_FAULTS: Final = 20

Id = Annotated[int, Meta(ge=1, le=2**63 - 1)]
PipelineName = Annotated[str, Meta(min_length=1, max_length=200)]
ConnectorName = Annotated[str, Meta(min_length=1, max_length=100)]
FolderName = Annotated[str, Meta(min_length=1, max_length=255)]
Position = Annotated[str, Meta(pattern="^[A-Za-z0-9]{1,50}$")]
Cron = Annotated[str, Meta(max_length=120, description="Five fields or an alias such as @daily.")]
Zone = Annotated[str, Meta(min_length=1, max_length=64, description="An IANA name such as Europe/Amsterdam.")]
Minutes = Annotated[int, Meta(ge=5, le=525_600)]
Config = Annotated[
    dict[str, Any],
    Meta(
        description=f"At most {MAX_CONFIG_BYTES} bytes of JSON; no place for secrets. Web pages: INITIAL_URLS. Laws: SELECT, "
        "LAW_IDS, MAX_AGE_DAYS, INCLUDE_NOT_HARVESTABLE, PRIORITY, MAX_LAWS_PER_FIRE, STAGGER_SECS, DATE, "
        "FOLLOW_REFERENCES. What a pipeline sets goes before what its connector sets."
    ),
]


class Page(Request):
    """Which part of a list."""

    lax: ClassVar[bool] = True
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    offset: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0


class WorkspacePage(Page, kw_only=True):
    """Which part of the list of a workspace."""

    workspace_id: Id


class RunQuery(Request):
    """``if_idle``: no run when one is pending or running."""

    lax: ClassVar[bool] = True
    if_idle: bool = False


class PipelineCreate(Request):
    """A new pipeline. ``connector_id`` null: filled by uploads, so it can have no schedule."""

    workspace_id: Id
    name: PipelineName
    connector_id: Id | None = None
    config: Config = msgspec.field(default_factory=dict)
    save_to_kb: bool = False
    destination_folder_id: Id | None = None
    schedule_cron: Cron | None = None
    schedule_timezone: Zone = "UTC"
    enabled: bool = True

    @classmethod
    def check(cls, given: Mapping[str, Any], web: WebRules) -> Iterator[FieldFault]:
        yield from _shared_faults(given, web)
        if given.get("schedule_cron") is not None and given.get("connector_id") is None:
            yield FieldFault("schedule_cron", "a pipeline without connector is filled by uploads: it has no schedule")


class PipelineUpdate(Request):
    """What is to change. Workspace and connector of a pipeline never do."""

    name: PipelineName | UnsetType = UNSET
    config: Config | UnsetType = UNSET
    save_to_kb: bool | UnsetType = UNSET
    destination_folder_id: Id | UnsetType | None = UNSET
    schedule_cron: Cron | UnsetType | None = UNSET
    schedule_timezone: Zone | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET

    @classmethod
    def check(cls, given: Mapping[str, Any], web: WebRules) -> Iterator[FieldFault]:
        yield from _shared_faults(given, web)


class ConnectorCreate(Request):
    """A new source."""

    workspace_id: Id
    name: ConnectorName
    connector_type: Annotated[str, Meta(pattern="^[A-Z][A-Z0-9_]{1,62}$")]
    config: Config = msgspec.field(default_factory=dict)
    is_indexable: bool = False
    periodic_indexing_enabled: bool = False
    indexing_frequency_minutes: Minutes | None = None

    @classmethod
    def check(cls, given: Mapping[str, Any], web: WebRules) -> Iterator[FieldFault]:
        yield from _shared_faults(given, web)


class ConnectorUpdate(Request):
    """What is to change. Workspace and type of a connector never do."""

    name: ConnectorName | UnsetType = UNSET
    config: Config | UnsetType = UNSET
    is_indexable: bool | UnsetType = UNSET
    periodic_indexing_enabled: bool | UnsetType = UNSET
    indexing_frequency_minutes: Minutes | UnsetType | None = UNSET

    @classmethod
    def check(cls, given: Mapping[str, Any], web: WebRules) -> Iterator[FieldFault]:
        yield from _shared_faults(given, web)


class FolderCreate(Request):
    """A new folder. ``parent_id`` null: at the root."""

    workspace_id: Id
    name: FolderName
    parent_id: Id | None = None
    position: Position = "a0"

    @classmethod
    def check(cls, given: Mapping[str, Any], web: WebRules) -> Iterable[FieldFault]:
        return _shared_faults(given, web)


class FolderUpdate(Request):
    """What is to change. ``parent_id`` null moves to the root."""

    name: FolderName | UnsetType = UNSET
    parent_id: Id | UnsetType | None = UNSET
    position: Position | UnsetType = UNSET

    @classmethod
    def check(cls, given: Mapping[str, Any], web: WebRules) -> Iterable[FieldFault]:
        return _shared_faults(given, web)


def _shared_faults(given: Mapping[str, Any], web: WebRules) -> Iterator[FieldFault]:
    """What can be judged without asking database or network, in the fields that several requests have."""
    if "name" in given and not given["name"].strip():
        yield FieldFault("name", "must not be blank")
    if "config" in given:
        yield from _config_faults(given["config"], web)
    cron, zone = given.get("schedule_cron"), given.get("schedule_timezone")
    if cron is not None or zone is not None:
        yield from _schedule_faults(cron, zone)


def _config_faults(config: Mapping[str, Any], web: WebRules) -> Iterator[FieldFault]:
    if len(msgspec.json.encode(config)) > MAX_CONFIG_BYTES:
        yield FieldFault("config", f"is larger than {MAX_CONFIG_BYTES} bytes")
        return
    found = 0
    for number, url in enumerate(parse_webcrawler_urls(config.get(INITIAL_URLS))):
        try:
            parse_url(url, web)
        except UrlRefused as refused:
            yield FieldFault(f"config.{INITIAL_URLS}[{number}]", f"{recognisable(url)}: {refused.message}")
            found += 1
            if found == _URL_FAULTS:
                return


def _schedule_faults(cron: str | None, zone: str | None) -> Iterator[FieldFault]:
    """Each by itself, so that a fault of both is told for both. Whether the pair ever fires is asked with a clock, later."""
    for name, pair in (("schedule_cron", (cron, "UTC")), ("schedule_timezone", ("@daily", zone))):
        if None in pair:
            continue
        try:
            parse_schedule(*(str(part) for part in pair))
        except InvalidSchedule as refused:
            yield FieldFault(name, refused.message)
