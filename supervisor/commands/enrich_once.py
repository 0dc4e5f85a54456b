"""``enrich-once``: enrich a law in a folder, on this machine, without a database."""

from __future__ import annotations

import sys
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from supervisor import exitcodes
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from actors.jobs.enrich.once import LocalLaw
    from actors.jobs.enrich.settings import EnrichSettings
    from actors.ports.guardian import Guardian
    from protocols.articleplan import ArticlePlan, PlannedLaw
    from protocols.sessions import SessionReuse
    from supervisor.commands.enrichreport import Tally

MODES = ("window", "repair", "off")


def _modes(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    modes = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    if not set(modes) <= set(MODES):
        raise click.BadParameter(f"give one or more of {', '.join(MODES)}, separated by commas.")
    return modes


def _rounds(context: click.Context, parameter: click.Parameter, text: str) -> Any:
    from protocols.gates.feedback import parse_rounds

    rounds, warning = parse_rounds(text)
    if warning is not None:
        raise click.BadParameter("give a number of rounds, or gate=number in a comma list: 2,schema=1.")
    return rounds


@click.command(
    epilog="""\b
Examples:
  regelrecht-supervisor enrich-once --corpus . --law x/law.yaml --dry-run
  regelrecht-supervisor enrich-once --corpus . --law x/law.yaml --windows 2
  regelrecht-supervisor enrich-once --corpus . --law x/law.yaml \\
      --session-reuse window,repair,off
  regelrecht-supervisor enrich-once --corpus . --law x/law.yaml \\
      --article 2 --article 8 --depth 1
"""
)
@click.option(
    "--corpus",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="The folder that --law is relative to.",
)
@click.option("--law", required=True, metavar="PATH", help="The law's file, in a folder of its own below the corpus.")
@click.option(
    "--provider", type=click.Choice(["claude", "opencode"]), default="claude", show_default=True, help="Whose agent."
)
@click.option("--model", help="Model to ask for; the default is that of the provider's settings.")
@click.option("--effort", help="Effort to ask of claude.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.IntRange(1, 86_400),
    default=900,
    show_default=True,
    metavar="SECONDS",
    help="Most that a call gets.",
)
@click.option(
    "--articles",
    type=click.IntRange(0, 100_000),
    default=15,
    show_default=True,
    metavar="N",
    help="Entries of one window; 0: the whole law.",
)
@click.option(
    "--windows",
    type=click.IntRange(0, 100_000),
    default=1,
    show_default=True,
    metavar="N",
    help="Windows to work off; 0: all that are left.",
)
@click.option(
    "--article",
    "numbers",
    multiple=True,
    metavar="N",
    help="Instead of the next window this article with all entries under it; may be repeated. The cursor stands still.",
)
@click.option(
    "--depth",
    type=click.IntRange(0, 1000),
    metavar="D",
    help="With --article: what the articles cite too, in the same law and up to D laws away; the deepest law first.",
)
@click.option(
    "--max-plan-articles",
    type=click.IntRange(1, 100_000),
    default=200,
    show_default=True,
    metavar="N",
    help="Refuse to begin when --depth leads to more articles.",
)
@click.option(
    "--slices",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    metavar="N",
    help="Agents at once in one window.",
)
@click.option("--rounds", default="1", show_default=True, callback=_rounds, help="Feedback rounds of each gate.")
@click.option(
    "--session-reuse",
    "modes",
    default="window",
    show_default=True,
    callback=_modes,
    metavar="MODES",
    help="Which calls of a window share a session: window, repair or off. Of several, each is tried on the same law and "
    "compared; the result of the first is kept.",
)
@click.option(
    "--steps",
    type=click.Choice(["all", "window", "reconcile"]),
    default="all",
    show_default=True,
    help="Windows, the closing pass, or both.",
)
@click.option("--dry-run", is_flag=True, help="Show command lines, prompts, slices, times and findings; call nothing.")
def command(
    modes: tuple[str, ...],
    windows: int,
    numbers: tuple[str, ...],
    depth: int | None,
    max_plan_articles: int,
    dry_run: bool,
    **options: Any,
) -> None:
    """Enrich a law in a folder with an agent of your own, as an enrich job would.

    Needs neither database nor git. The agent works in a copy, with your login and configuration; the law, its cursor and
    its report are written when a window is done, and the next run goes on from there. Exits 1 when a run fails or schema
    errors are left, 2 when nothing was begun.
    """
    import trio

    from actors.ports.folderlock import temporary_folder
    from actors.ports.guardian import Guardian
    from protocols.failures import InvalidInput, SupervisorError
    from protocols.sessions import SessionReuse
    from supervisor.commands.session import quiet_logs

    if depth is not None and not numbers:
        raise click.UsageError("--depth says how far to follow what --article cites: give at least one --article.")
    if depth is not None and len(modes) > 1:
        raise click.UsageError("--session-reuse compares modes on one law: leave --depth out, or give one mode.")
    if numbers and options["steps"] == "reconcile":
        raise click.UsageError("--steps reconcile is for the whole law: leave --article out.")
    quiet_logs()
    with temporary_folder("enrich-once-") as work, Guardian() as guardian:
        settings = settings_of(work, **options)
        run = Run(settings, options["law"], options["provider"], guardian, windows or sys.maxsize)
        try:
            if numbers:
                run.choose(numbers, depth, max_plan_articles)
            if dry_run:
                trio.run(run.show)
            elif not trio.run(run.all, [SessionReuse(mode) for mode in modes]):
                sys.exit(exitcodes.ESCALATED)
        except SupervisorError as failure:
            if run.begun:
                raise
            raise InvalidInput(failure.message) from failure  # whatever it is: nothing was begun


def settings_of(
    work: Path,
    *,
    corpus: Path,
    provider: str,
    model: str | None,
    effort: str | None,
    timeout_s: int,
    articles: int,
    slices: int,
    rounds: Any,
    steps: str,
    **_: Any,
) -> EnrichSettings:
    """As for a supervisor with these limits and no others. A call gets ``timeout_s``, whatever it is for."""
    import os

    from actors.jobs.enrich.settings import EnrichSettings
    from actors.ports.fetchsettings import FetchSettings
    from protocols.enrichsteps import RECONCILE, WINDOW
    from protocols.related import RelatedLimits
    from protocols.shares import RESERVE_S, TRANSLATE_SHARES
    from supervisor.settings import areas, load_area
    from supervisor.settings.agents import Agents

    environ = dict(os.environ)
    if model:
        environ[f"{provider.upper()}_MODEL"] = model
    if effort:
        environ["LLM_EFFORT"] = effort
    agents = load_area(Agents, os.environ)
    return EnrichSettings(
        fetch=FetchSettings(),
        corpus=None,
        folder=corpus.resolve(),
        work_root=work,
        environ=environ,
        output_base=load_area(areas.Corpus, os.environ).output_base,
        default_provider=provider,
        window_limit=articles,
        window_concurrency=slices,
        rounds=rounds,
        steps=frozenset({WINDOW, RECONCILE} if steps == "all" else {steps}),
        job_timeout_s=RESERVE_S + timeout_s * (TRANSLATE_SHARES + rounds.possible),
        llm_timeout_s=timeout_s,
        related=RelatedLimits(max_depth=0),
        skills_dir=agents.skills_dir,
        schema_dir=agents.schema_dir,
        code_commit=agents.code_commit,
        user_home=True,
        agent_env=agents.agent_env,
    )


class Run:
    """One use of the command."""

    def __init__(self, settings: EnrichSettings, path: str, provider: str, guardian: Guardian, windows: int) -> None:
        self.settings = settings
        self.path = path
        self.provider = provider
        self.guardian = guardian
        self.windows = windows
        self.plan: ArticlePlan | None = None
        self.begun = False
        """An agent was called, or is about to be."""

    def choose(self, numbers: Sequence[str], depth: int | None, most: int) -> None:
        """Work on articles and what they cite instead of windows. InvalidInput for a plan that cannot be made."""
        from actors.jobs.enrich.articles import plan_in_folder
        from protocols.enrichpayload import law_path
        from supervisor.commands import enrichreport

        path = law_path(self.path)
        self.law()  # a law that is not there, or skills that are not, before anything is planned
        base = self.settings.output_base
        self.plan = plan_in_folder(self.settings.folder, base, path, tuple(numbers), depth=depth, most=most)
        say("\n".join(enrichreport.plan_lines(self.plan)))

    def laws(self) -> Iterator[tuple[str, PlannedLaw | None]]:
        """Path by path what to work on; None: its windows."""
        if self.plan is None:
            yield self.path, None
        else:
            yield from ((planned.path, planned) for planned in self.plan.laws)

    def law(self, path: str | None = None, mode: SessionReuse | None = None, beside: Path | None = None) -> LocalLaw:
        from attrs import evolve

        from actors.jobs.enrich.once import LocalLaw
        from supervisor.commands.enrichreport import progress_line

        settings = self.settings if mode is None else evolve(self.settings, session_reuse=mode)
        return LocalLaw.at(
            settings, path or self.path, self.provider, guardian=self.guardian, tell=progress_line, beside=beside
        )

    def turns(self, law: LocalLaw, planned: PlannedLaw | None) -> Iterator[LocalLaw]:
        """``law`` once for each window of it; chosen entries are cut into windows of the usual size."""
        from attrs import evolve

        if planned is None:
            yield from repeat(law, self.windows)
            return
        size = self.settings.window_limit or len(planned.positions)
        for start in range(0, len(planned.positions), size):
            yield evolve(law, chosen=planned.positions[start : start + size])

    async def show(self) -> None:
        """The dry run."""
        from supervisor.commands import enrichreport

        for path, planned in self.laws():
            law = self.law(path)
            if planned is None:
                previews = await law.preview(self.windows)
            else:
                say(f"\n{path}")
                previews = [one for turn in self.turns(law, planned) for one in await turn.preview(1)]
            lines = enrichreport.preview_lines(previews, self.settings.shares, await law.findings())
            say("\n".join(lines))

    async def all(self, modes: Sequence[SessionReuse]) -> bool:
        """Law after law, each mode on it as it is; the first one last, so that its result is what stays. Whether all went
        well."""
        import tempfile

        from protocols.failures import InvalidInput
        from supervisor.commands import enrichreport

        if (lack := self.law().lane.missing_program) is not None:
            raise InvalidInput(lack)
        well = True
        for path, planned in self.laws():
            tallies = []
            for mode in reversed(modes):
                if mode is modes[0]:
                    tallies.append(await self.one(self.law(path, mode), mode, planned))
                else:
                    with tempfile.TemporaryDirectory(dir=self.settings.work_root) as beside:
                        tallies.append(await self.one(self.law(path, mode, Path(beside)), mode, planned))
            if len(modes) > 1:
                say("\nmodes")
                enrichreport.compare(list(reversed(tallies)))
            well &= all(tally.well for tally in tallies)
        return well

    async def one(self, law: LocalLaw, mode: SessionReuse, planned: PlannedLaw | None) -> Tally:
        """Windows of one mode, until there is none left or one fails."""
        from protocols.failures import SupervisorError
        from supervisor.commands import enrichreport

        tally = enrichreport.Tally(mode.value)
        say(f"{law.payload.yaml_path}, {self.provider}, session reuse {mode.value}")
        enrichreport.print_findings("before", await law.findings())
        for turn in self.turns(law, planned):
            window = await turn.next_window()
            if window.empty and window.total and not tally.products and "window" in self.settings.steps:
                say("The law is done: its cursor is at the end. Remove .enrichment.yaml to begin anew.")
                break
            if window.empty and tally.products:
                break
            self.begun = True
            try:
                product = await turn.enrich()
            except SupervisorError as failure:
                say(f"Error: {failure.message}", err=True)
                tally.failed = True
                break
            tally.products.append(product)
            enrichreport.print_window(window, product)
        found = await law.findings()
        enrichreport.print_findings("after", found)
        tally.findings = found
        return tally
