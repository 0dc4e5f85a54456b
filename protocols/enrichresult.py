"""What stands in the result of an enrich job (``enrich.md`` 1.3), typed. Other services read it, so names are fixed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, fields, frozen

from protocols.agentevents import Usage
from protocols.enrichpayload import without_absent
from protocols.failures import JsonObject
from protocols.lawstats import CapturedMarking, CapturedUntranslatable
from protocols.related import RelatedEntry


@frozen
class AgentUsage:
    """Tokens and money of calls. Reads and writes of the cache are priced differently and never added up.

    ``cost_millicents``: a thousandth of a cent; a dollar has 100 000.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_millicents: int = 0

    @staticmethod
    def of(usage: Usage | None, cost_millicents: int | None) -> AgentUsage | None:
        """What a call reported; None when that was nothing."""
        if usage is None and cost_millicents is None:
            return None
        found = usage or Usage()
        return AgentUsage(
            found.input_tokens,
            found.output_tokens,
            found.cache_read_tokens,
            found.cache_write_tokens,
            cost_millicents or 0,
        )

    def __add__(self, other: AgentUsage) -> AgentUsage:
        return AgentUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cost_millicents + other.cost_millicents,
        )


@frozen
class AgentCallRecord:
    """One call of an agent in a result. ``step``: ``translate`` or the label of a gate."""

    step: str
    resumed: bool = False
    usage: AgentUsage | None = None
    model: str | None = None
    duration_s: float = 0.0
    turns: int = 0
    tool_calls: int = 0
    cut_off_steps: int = 0
    slice: int = 0
    verdict: str = "ok"


@frozen
class EnrichResult:
    """What one run made. ``coverage_score`` is of this run alone; ``enrich_cursor`` the first entry not yet done."""

    law_id: str
    yaml_path: str
    articles_total: int
    articles_with_machine_readable: int
    coverage_score: float
    provider: str
    branch: str
    law_complete: bool = True
    enrich_cursor: int = 0
    related_legislation: tuple[RelatedEntry, ...] = ()
    untranslatables: tuple[CapturedUntranslatable, ...] = ()
    markings: tuple[CapturedMarking, ...] = ()
    feedback: tuple[JsonObject, ...] = ()
    agent_calls: tuple[AgentCallRecord, ...] = ()
    session_reuse: str = ""
    models: tuple[str, ...] = ()
    discarded_edits: int = 0
    restarted: JsonObject | None = field(default=None)

    @property
    def usage(self) -> AgentUsage | None:
        """The sum over the calls; None when none of them reported anything."""
        reported = [call.usage for call in self.agent_calls if call.usage is not None]
        return sum(reported, AgentUsage()) if reported else None


def result_document(result: EnrichResult) -> JsonObject:
    """As it is stored in ``jobs.result``."""
    usage = result.usage
    return {
        "law_id": result.law_id,
        "yaml_path": result.yaml_path,
        "articles_total": result.articles_total,
        "articles_with_machine_readable": result.articles_with_machine_readable,
        "coverage_score": result.coverage_score,
        "provider": result.provider,
        "branch": result.branch,
        "law_complete": result.law_complete,
        "enrich_cursor": result.enrich_cursor,
        "related_legislation": [without_absent(**_fields(entry)) for entry in result.related_legislation],
        "untranslatables": [row.to_json() for row in result.untranslatables],
        "markings": [row.to_json() for row in result.markings],
        "feedback": list(result.feedback),
        "agent_calls": [call_document(call) for call in result.agent_calls],
        "session_reuse": result.session_reuse,
        "models": list(result.models),
        "discarded_edits": result.discarded_edits,
        **without_absent(usage=None if usage is None else _fields(usage), restarted=result.restarted),
    }


def call_document(call: AgentCallRecord) -> JsonObject:
    """``duration_secs`` is the field's name outside."""
    document = _fields(call)
    document["duration_secs"] = round(document.pop("duration_s"), 1)
    return {**document, "usage": None if call.usage is None else _fields(call.usage)}


def is_complete(result: Any) -> bool:
    """Whether a stored result covers the whole law. Old rows do not say so and always did."""
    return not isinstance(result, Mapping) or result.get("law_complete") is not False


def _fields(value: Any) -> JsonObject:
    return {
        item.name: list(found) if isinstance(found := getattr(value, item.name), tuple) else found
        for item in fields(type(value))
    }
