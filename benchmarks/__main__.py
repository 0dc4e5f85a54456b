"""``make bench``: all comparisons in one run, and their table. Names as arguments choose some of them."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping

import click

from benchmarks import claims, crawl, drains, laws, pickup, streams, tablehealth
from benchmarks.report import Row, table
from benchmarks.stage import Stage, stage

ON_DATABASE: Mapping[str, Callable[[Stage], list[Row]]] = {
    "claims": claims.run,
    "drains": drains.run,
    "pickup": pickup.run,
    "tables": tablehealth.run,
}
ALONE: Mapping[str, Callable[[], list[Row]]] = {"laws": laws.run, "streams": streams.run, "crawl": crawl.run}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([*ON_DATABASE, *ALONE]))
def main(names: tuple[str, ...]) -> None:
    """Run benchmarks and print ours against the best peer, in rounds that alternate."""
    chosen = names or (*ON_DATABASE, *ALONE)
    rows = [row for name in chosen if name in ALONE for row in _told(name, ALONE[name])]
    if any(name in ON_DATABASE for name in chosen):
        with stage() as ground:
            for name in chosen:
                if name in ON_DATABASE:
                    rows += _told(name, lambda name=name: ON_DATABASE[name](ground))  # type: ignore[misc]
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    click.echo(f"\n{os.cpu_count()} cores, Python {platform.python_version()}, load average {load}")
    click.echo(table(rows))


def _told(name: str, run: Callable[[], list[Row]]) -> list[Row]:
    click.echo(f"{name} ...", err=True)
    rows = run()
    click.echo(table(rows), err=True)  # what is known is told, whatever happens to those that follow
    return rows


if __name__ == "__main__":
    sys.exit(main())
