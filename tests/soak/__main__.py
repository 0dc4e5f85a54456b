"""``python -m tests.soak --minutes 20``: a long run of faults, and whether anything grew."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tests.faults.ground import ground
from tests.kit.postgres import temporary_folder
from tests.soak.plot import svg
from tests.soak.run import Soaked, soak
from tests.soak.samples import QUANTITIES, trends


@click.command(help=__doc__)
@click.option("--minutes", default=20.0, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Write a plot here, as SVG.")
def main(minutes: float, seed: int, plot: Path | None) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # nothing that was started may be left behind
    with ground() as where, temporary_folder() as folder:
        soaked = soak(where, folder / "soak", minutes, seed)
    if plot is not None:
        plot.write_text(svg(soaked.samples, soaked.faults), encoding="utf-8")
    sys.exit(0 if _tell(soaked) else 1)


def _tell(soaked: Soaked) -> bool:
    """Print the figures; whether all is well."""
    console, verdict = Console(width=120), soaked.verdict
    table = Table("quantity", "at rest before", "2nd quarter", "last quarter", "highest", "at rest after", "flat")
    found = trends(soaked.samples)
    before, after = soaked.rest
    for trend in found:
        read = QUANTITIES[trend.name].read
        cells = (read(before), trend.second_quarter, trend.last_quarter, trend.highest, read(after))
        table.add_row(trend.name, *(f"{cell or 0:.0f}" for cell in cells), "yes" if trend.flat else "NO")
    console.print(table)
    console.print(
        f"{len(soaked.samples)} samples, {soaked.inflicted.total()} faults of {len(soaked.inflicted)} kinds, "
        f"{verdict.jobs} jobs, {verdict.executions} executions, {verdict.taken} claims came back, lost {len(verdict.lost)}, "
        f"doubled {len(verdict.doubled)}, overlapping {len(verdict.overlapping)}, other {len(verdict.other)}"
    )
    for problem in verdict.problems:
        click.echo(f"  {problem}")
    if soaked.restarted:
        click.echo("  the watched supervisor ended and was started again")
    return not verdict.problems and not soaked.restarted and all(trend.flat for trend in found)


if __name__ == "__main__":
    main()
