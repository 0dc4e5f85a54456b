"""``python -m tests.faults``: many rounds of faults, then real harvests with trouble, and the figures.

A round is known by its seed. When one fails it is told, and ``make faults N=10 SEED=<that> HARVESTS=0`` plays it again.
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from tests.faults.ground import Ground, ground
from tests.faults.harvests import TROUBLES, harvest
from tests.faults.injuries import KINDS
from tests.faults.plan import plan_of
from tests.faults.report import Figures, line_of, line_of_harvests
from tests.faults.round import play
from tests.kit.postgres import temporary_folder

PER_ROUND = 10
_NOT_KEPT = shutil.ignore_patterns("disk", ".s.*", "mirror", "probe-clone-*")


@click.command(help=__doc__)
@click.option("--faults", default=50, show_default=True, help="How many in all; ten make a round.")
@click.option("--seed", type=int, default=None, help="Of the first round; the next ones count on from it.")
@click.option("--harvests", default=0, show_default=True, help="So many laws are harvested afterwards, twice.")
@click.option("--only", multiple=True, type=click.Choice(list(KINDS)), help="No other kinds of faults than these.")
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), help="Keep logs and ledgers of failed rounds here."
)
def main(faults: int, seed: int | None, harvests: int, only: Sequence[str], keep: Path | None) -> None:
    first = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    console = Console(width=120)
    figures = Figures()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # nothing that was started may be left behind
    with ground() as where, temporary_folder() as folder:
        _rounds(where, folder, figures, first, faults, only or list(KINDS), keep)
        well = _harvests(where, folder, harvests) if harvests else True
    figures.show(console)
    if not well or figures.lost or figures.doubled or figures.overlapping or figures.other:
        sys.exit(1)


def _rounds(
    where: Ground, folder: Path, figures: Figures, first: int, faults: int, kinds: Sequence[str], keep: Path | None
) -> None:
    rounds = -(-faults // PER_ROUND)
    for number in range(rounds):
        plan = plan_of(first + number, min(PER_ROUND, faults - number * PER_ROUND), kinds)
        outcome = play(where, plan, folder / "round")
        figures.add(outcome)
        click.echo(line_of(outcome, number + 1, rounds))
        for problem in outcome.verdict.problems:
            click.echo(f"  {problem}")
        if outcome.verdict.problems:
            click.echo(f"  again: make faults N={len(plan.faults)} SEED={plan.seed} HARVESTS=0")
            if keep is not None:
                shutil.copytree(folder / "round", keep / f"round-{plan.seed}", dirs_exist_ok=True, ignore=_NOT_KEPT)
        shutil.rmtree(folder / "round", ignore_errors=True)


def _harvests(where: Ground, folder: Path, laws: int) -> bool:
    well = True
    for troubles in ([], list(TROUBLES)):
        harvested = harvest(where, folder / "harvests", laws, troubles)
        click.echo(line_of_harvests(harvested, ", ".join(troubles) or "no trouble"))
        for problem in (*harvested.verdict.problems, *harvested.complaints):
            click.echo(f"  {problem}")
            well = False
        if not troubles and harvested.most_attempts != 1:
            click.echo("  a harvest was done twice without any trouble")
            well = False
        shutil.rmtree(folder / "harvests", ignore_errors=True)
    return well


if __name__ == "__main__":
    main()
