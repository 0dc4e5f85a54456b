"""The reference page of the settings and ``.env.example``, written from the settings themselves.

``python -m supervisor.settings.pages`` (``make docs``) writes both; a test fails when they are not current.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from supervisor.settings import AREAS
from supervisor.settings.reader import Spec, specs
from supervisor.terminaltext import say

ROOT = Path(__file__).parents[2]


def settings_page() -> str:
    """``docs/settings.md``."""
    lines = [
        "# Settings",
        "",
        "Written by `make docs` from `supervisor/settings/areas.py`; edit that, not this page.",
        "",
        "Settings come from the environment and are read once, at the start. A value that cannot be read stops the start",
        "with exit code 2 and a line for everything that is wrong. Numbers are plain: no sign, no blanks, no `1_000`.",
        "Durations are seconds and may have a fraction. An empty value counts as unset. Secrets are never shown.",
    ]
    for cls in AREAS:
        lines += ["", f"## {cls.__name__}", "", (cls.__doc__ or "").strip(), ""]
        lines += ["| name | default | meaning |", "|---|---|---|"]
        for attribute, spec in specs(cls):
            lines.append(f"| `{spec.name}` | {_cell(_default(attribute.default, spec))} | {_cell(spec.help)} |")
    return "\n".join(lines) + "\n"


def env_example() -> str:
    """``.env.example``: every setting, those at their default as a comment."""
    lines = [
        "# Settings of regelrecht-supervisor for local development; docs/settings.md explains them all.",
        "#   cp .env.example .env && set -a && . ./.env && set +a",
    ]
    for cls in AREAS:
        lines += ["", f"# {(cls.__doc__ or '').strip()}"]
        for attribute, spec in specs(cls):
            if spec.example is not None:
                lines.append(f"{spec.name}={spec.example}")
            elif attribute.default is None or spec.shown_default is not None:
                lines.append(f"# {spec.name}=")
            else:
                lines.append(f"# {spec.name}={_plain(attribute.default)}")
    return "\n".join(lines) + "\n"


PAGES = {"docs/settings.md": settings_page, ".env.example": env_example}


def _default(value: Any, spec: Spec) -> str:
    if spec.shown_default is not None:
        return spec.shown_default
    return "unset" if value is None else f"`{_plain(value)}`"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


@click.command(help="Write docs/settings.md and .env.example again from the settings.")
def main() -> None:
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), encoding="utf-8")
        say(f"wrote {name}")


if __name__ == "__main__":
    main()
