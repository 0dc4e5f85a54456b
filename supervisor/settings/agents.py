"""The settings of enrichment's agents: which CLI and model, how long, how often, how much (``enrich.md`` 14, D43-D60)."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from protocols.dialects.base import check_extra
from protocols.dialects.claude import EFFORTS
from protocols.enrichsteps import RECONCILE, WINDOW
from protocols.failures import InvalidInput
from protocols.gates.feedback import Rounds, parse_rounds
from protocols.sessions import SessionReuse, parse_session_reuse
from supervisor.settings.reader import choice, http_url, path, seconds, setting, text, whole

_ALL_STEPS = frozenset({WINDOW, RECONCILE})


def _rounds(raw: str) -> Rounds:
    rounds, warning = parse_rounds(raw)
    if warning is not None:
        raise ValueError("expected a number of rounds, or gate=number in a comma list: 2,schema=1")
    return rounds


def _session_reuse(raw: str) -> SessionReuse:
    mode, warning = parse_session_reuse(raw)
    if warning is not None:
        raise ValueError("expected window, repair or off")
    return mode


def _steps(raw: str) -> frozenset[str]:
    words = {word.strip().lower() for word in raw.split(",") if word.strip()}
    if not words or words - {"window", "reconcile", "all"}:
        raise ValueError("expected window, reconcile or all")
    return _ALL_STEPS if "all" in words else frozenset(words)


def _variables(raw: str) -> tuple[str, ...]:
    try:
        return check_extra(name.strip() for name in raw.split(",") if name.strip())
    except InvalidInput as error:
        raise ValueError(error.message) from error


def _dollars(raw: str) -> int:
    """Dollars as millicents."""
    try:
        return round(float(raw) * 100_000) if raw.replace(".", "", 1).isdecimal() else _no_amount()
    except (ValueError, OverflowError):
        return _no_amount()


def _no_amount() -> int:
    raise ValueError("expected dollars such as 25 or 7.50")


@frozen
class Agents:
    """How enrichment calls its agents."""

    llm_path: str | None = setting(
        "LLM_PATH", text, default=None, help="Program of either provider, where its own name is unset."
    )
    llm_model: str | None = setting(
        "LLM_MODEL", text, default=None, help="Model of either provider, where its own name is unset."
    )
    opencode_path: str | None = setting(
        "OPENCODE_PATH", text, default=None, shown_default="LLM_PATH, else `opencode`", help="The opencode CLI."
    )
    opencode_model: str | None = setting(
        "OPENCODE_MODEL",
        text,
        default=None,
        shown_default="LLM_MODEL, else the model in the image's opencode.json",
        help="Model for opencode, as provider/model.",
    )
    claude_path: str | None = setting(
        "CLAUDE_PATH", text, default=None, shown_default="LLM_PATH, else `claude`", help="The claude CLI."
    )
    claude_model: str | None = setting(
        "CLAUDE_MODEL", text, default=None, shown_default="LLM_MODEL, else `claude-opus-5-5`", help="Model for claude."
    )
    effort: str | None = setting(
        "LLM_EFFORT",
        choice(*EFFORTS),
        default=None,
        help="Effort asked of claude. Unset: the CLI chooses, and nothing reports what. opencode knows none.",
    )
    llm_timeout_s: float = setting(
        "LLM_TIMEOUT_SECS",
        seconds(1),
        default=600.0,
        example="1290",
        help="Most that one call gets. A call gets its share of the job's time where that is less: with one feedback round a "
        "gate a third of it for a translation, 1290 of 3900.",
    )
    claude_tokens: str | None = setting(
        "CLAUDE_CODE_OAUTH_TOKEN",
        text,
        default=None,
        secret=True,
        help="Token of claude; several, separated by commas, take turns. Never shown.",
    )
    claude_base_url: str | None = setting(
        "CLAUDE_BASE_URL", http_url, default=None, help="Address that claude talks to instead of its own."
    )
    vlam_api_url: str | None = setting(
        "VLAM_API_URL",
        http_url,
        default=None,
        help="Address of VLAM, without /v1, for opencode. VLAM_BASE_URL, the older name, is the whole address.",
    )
    vlam_api_key: str | None = setting(
        "VLAM_API_KEY", text, default=None, secret=True, help="Key of VLAM. Never shown."
    )
    opencode_output_max: int | None = setting(
        "OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX",
        whole(1),
        default=None,
        help="Passed on to opencode: needed for output limits above 32000.",
    )
    skills_dir: Path | None = setting(
        "SKILLS_DIR",
        path,
        default=None,
        shown_default="our own texts; /opt/skills in an image that brings others",
        help="Folder with .claude/skills to use instead of our own.",
    )
    schema_dir: Path | None = setting(
        "LAW_SCHEMA_DIR", path, default=None, help="Folder with law schemas to use instead of our own."
    )
    code_commit: str = setting("CODE_COMMIT", text, default="", help="Recorded in .enrichment.yaml.")
    work_path: Path = setting(
        "ENRICH_WORK_PATH",
        path,
        default=Path("/tmp/regelrecht-enrich"),
        help="Folder below which agents work. Swept at the start and every hour.",
    )
    max_articles: int = setting(
        "ENRICH_MAX_ARTICLES_PER_RUN",
        whole(),
        default=15,
        help="Entries of a law that one run may work on. 0: the whole law.",
    )
    window_mode: str = setting(
        "ENRICH_WINDOW_MODE",
        choice("document", "entries"),
        default="document",
        help="How windows follow each other: in the order of the document, the only way here.",
    )
    window_concurrency: int = setting(
        "ENRICH_WINDOW_CONCURRENCY",
        whole(1, 16),
        default=1,
        on_garbage=1,
        help="Agents at once in one window; each gets articles that do not refer to those of the others.",
    )
    feedback_rounds: Rounds = setting(
        "ENRICH_FEEDBACK_ROUNDS",
        _rounds,
        default=Rounds(),
        on_garbage=Rounds(),
        shown_default="1",
        help="How often a gate sends its findings back: a number, or gate=number for schema, checks, marking, reconcile, "
        "binding, in a comma list.",
    )
    session_reuse: SessionReuse = setting(
        "ENRICH_SESSION_REUSE",
        _session_reuse,
        default=SessionReuse.WINDOW,
        on_garbage=SessionReuse.WINDOW,
        shown_default="window",
        help="Which calls of a window share a session of claude: `window` all, `repair` only repairs of the schema, `off`.",
    )
    steps: frozenset[str] = setting(
        "ENRICH_STEPS",
        _steps,
        default=_ALL_STEPS,
        on_garbage=_ALL_STEPS,
        shown_default="all",
        help="`window` leaves the closing pass out, `reconcile` does only that.",
    )
    idle_s: float = setting(
        "ENRICH_AGENT_IDLE_SECS",
        seconds(),
        default=600.0,
        on_garbage=600.0,
        help="A claude call that writes nothing for this long is stopped. 0: never.",
    )
    retry_s: float = setting(
        "ENRICH_AGENT_RETRY_SECS",
        seconds(),
        default=0.0,
        example="900",
        help="A claude call that prints nothing but retry notices for this long is stopped. 0: never.",
    )
    first_output_s: float = setting(
        "ENRICH_AGENT_FIRST_OUTPUT_SECS",
        seconds(),
        default=0.0,
        help="An opencode call that prints nothing at all for this long is stopped. 0: never.",
    )
    max_steps: int = setting(
        "ENRICH_AGENT_MAX_STEPS",
        whole(),
        default=400,
        help="An opencode call with more steps counts as going in circles. 0: no limit.",
    )
    max_output_bytes: int = setting(
        "ENRICH_AGENT_MAX_OUTPUT",
        whole(1024, 1 << 40),
        default=1 << 30,
        help="Bytes that one call may print.",
    )
    max_rss_mb: int = setting(
        "ENRICH_MAX_RSS_MB",
        whole(),
        default=3500,
        help="Memory of all agents of a job together, in MiB. 0: no limit.",
    )
    user_home: bool = setting(
        "ENRICH_AGENT_HOME",
        lambda raw: choice("private", "user")(raw) == "user",
        default=False,
        shown_default="`private`",
        help="`user`: agents use the HOME of this user, with its login. For a developer's machine.",
    )
    agent_env: tuple[str, ...] = setting(
        "ENRICH_AGENT_ENV",
        _variables,
        default=(),
        shown_default="unset",
        help="Names of further variables that agents get. Names that look like secrets are refused.",
    )
    max_cost_millicents: int = setting(
        "ENRICH_MAX_COST_PER_LAW",
        _dollars,
        default=0,
        help="Dollars that all enrichments of one law may cost; the next window is then refused. 0: no limit.",
    )
    related_per_job: int = setting(
        "RELATED_HARVEST_MAX_PER_JOB",
        whole(),
        default=20,
        help="Related laws that one enrichment may have harvested. 0: no limit.",
    )
    related_per_law: int = setting(
        "RELATED_HARVEST_MAX_PER_LAW",
        whole(),
        default=100,
        help="Related laws that all enrichments of one law may have harvested. 0: no limit.",
    )
