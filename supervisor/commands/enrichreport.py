"""What ``enrich-once`` prints: a window's work, rounds and costs, a comparison of modes, and a preview."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field

from supervisor.commands.session import print_table
from supervisor.terminaltext import say

if TYPE_CHECKING:
    from actors.jobs.enrich.flows import Product
    from actors.jobs.enrich.once import SlicePreview, WindowPreview
    from protocols.articleplan import ArticlePlan
    from protocols.failures import JsonObject
    from protocols.gates.findings import Reading
    from protocols.shares import Shares
    from protocols.windows import Window

SCHEMA_GATE = "schema"
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


@define
class Tally:
    """What one mode of session reuse came to."""

    mode: str
    products: list[Product] = field(init=False, factory=list)
    findings: Mapping[str, Reading] = field(init=False, factory=dict)
    failed: bool = field(init=False, default=False)

    @property
    def calls(self) -> list[JsonObject]:
        return [call for product in self.products for call in product.result["agent_calls"]]

    @property
    def well(self) -> bool:
        """No run failed and no schema error is left."""
        return not self.failed and not len(self.findings[SCHEMA_GATE])


def progress_line(document: JsonObject) -> None:
    """One line on stderr for the progress of a running window."""
    worker = document["worker"]
    last = worker["recent_tools"][-1] if worker["recent_tools"] else "no tool call yet"
    done = f"{worker['articles_with_machine_readable']} of {worker['articles_total']} entries"
    say(f"  {worker['call'] or 'gates'}: {done}, {worker['turns']} turns, {last}", err=True)


def print_findings(when: str, readings: Mapping[str, Reading]) -> None:
    """How many findings each gate has, in the law as a whole."""
    counts = ", ".join(f"{gate} {len(reading)}" for gate, reading in readings.items())
    say(f"findings {when}: {counts}")


def print_window(window: Window, product: Product) -> None:
    """What a finished window came to: entries, feedback, costs."""
    result = product.result
    say(f"\n{_shown(window)}")
    say(
        f"  {result['articles_with_machine_readable']} of {result['articles_total']} entries have a section, "
        f"{result['coverage_score']:.0%} of the missing ones by this run; "
        f"{len(result['untranslatables']) + len(result['markings'])} gaps, "
        f"{result['discarded_edits']} edits not taken over"
    )
    say(f"  files: {', '.join(product.files)}")
    rounds = list(_rounds(result["feedback"]))
    if rounds:
        say("\nfeedback")
        print_table(("gate", "round", "findings", "gaps", "file changed", "stopped"), rounds)
    say(f"\ncost, session reuse {result['session_reuse']}")
    calls = result["agent_calls"]
    rows = [
        (
            call["step"],
            "resumed" if call["resumed"] else "cold",
            call["model"] or "-",
            *_figures(call["usage"]),
        )
        for call in calls
    ]
    total = ("window", f"calls: {len(calls)}", "", *_figures(result.get("usage")))
    print_table(("step", "session", "model", "input", "output", "cache read", "cache write", "cost"), [*rows, total])


def _shown(window: Window) -> str:
    if window.chosen is None:
        return f"entries {window.start + 1} to {window.end} of {window.total}"
    return f"{len(window.chosen)} chosen entries of {window.total}"


def plan_lines(plan: ArticlePlan) -> Iterator[str]:
    """What an enrichment by article works on, in its order, and what it does not follow."""
    yield "plan"
    for law in plan.laws:
        yield f"  {law.path}: article {', '.join(law.articles)} ({len(law.positions)} entries)"
    yield from (f"  not followed: {citation}" for citation in plan.left_out)


def _rounds(feedback: Sequence[JsonObject]) -> Iterator[tuple[str, ...]]:
    for gate in feedback:
        for one in gate["rounds"]:
            yield (
                gate["gate"],
                str(one["round"]),
                f"{one['findings_before']} -> {one['findings_after']}",
                f"{_known(one['markings_before'])} -> {_known(one['markings_after'])}",
                "yes" if one["file_changed"] else "no",
                one["stopped"] or "",
            )


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)


def _figures(usage: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Four token counts and the cost; dashes where a call told nothing."""
    if usage is None:
        return ("-",) * 5
    return (*(str(usage[name]) for name in TOKENS), f"${usage['cost_millicents'] / 100_000:.4f}")


def compare(tallies: Sequence[Tally]) -> None:
    """One row a mode, over all its windows."""
    rows = []
    for tally in tallies:
        known = [call["usage"] for call in tally.calls if call["usage"] is not None]
        total = {name: sum(usage[name] for usage in known) for name in (*TOKENS, "cost_millicents")} if known else None
        resumed = sum(call["resumed"] for call in tally.calls)
        soft = sum(len(reading) for gate, reading in tally.findings.items() if not gate.startswith(SCHEMA_GATE))
        left = (str(len(tally.findings[SCHEMA_GATE])), str(soft), "failed" if tally.failed else "")
        rows.append((tally.mode, str(len(tally.calls)), str(resumed), *_figures(total), *left))
    headings = ("mode", "calls", "resumed", "input", "output", "cache read", "cache write", "cost")
    print_table((*headings, "schema errors", "other findings", ""), rows)


# --- dry run ------------------------------------------------------------------------------------------------------------


def preview_lines(previews: Sequence[WindowPreview], shares: Shares, findings: Mapping[str, Reading]) -> Iterator[str]:
    """Everything that a run would begin with."""
    yield f"times: a translation gets {shares.translate_s:g} s, a feedback round {shares.feedback_s:g} s"
    yield f"       of {shares.job_timeout_s:g} s for a window, cut into {shares.parts} shares of {shares.share_s:g} s"
    if not previews:
        yield "No window is left: the cursor of this law is at its end."
    for preview in previews:
        window = preview.window
        yield f"\nwindow: {_shown(window)}"
        for number, part in enumerate(preview.slices):
            yield from _slice_lines(number, len(preview.slices), part)
    yield "\nfindings in the law as it is"
    for gate, reading in findings.items():
        yield f"  {gate}: {len(reading)}"
        yield from (f"    - {finding}" for finding in reading.answerable)
        yield from (f"    - (only recorded) {finding}" for finding in reading.recorded)


def _slice_lines(number: int, count: int, part: SlicePreview) -> Iterator[str]:
    import shlex

    yield f"\n  agent {number + 1} of {count}: entries {', '.join(part.numbers)}"
    yield f"  command: {shlex.join('PROMPT' if word == part.prompt else word for word in part.argv)}"
    if part.on_stdin:
        yield "  (the prompt goes to standard input)"
    yield "  environment: " + " ".join(f"{name}={shlex.quote(value)}" for name, value in part.env.items())
    yield "  prompt:"
    yield from (f"    {line}" for line in part.prompt.splitlines())
