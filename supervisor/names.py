"""The guard of our top-level names (D21).

``supervisor``, ``actors``, ``schema`` and ``protocols`` are plain names, and public packages with two of them exist.
Installed beside ours they win in some folders and overwrite files in others, silently. So each start makes sure that
the four names are ours, and says what to do when they are not.
"""

from __future__ import annotations

import os
import sys
from importlib import util
from pathlib import Path

NAMES = ("supervisor", "actors", "schema", "protocols")
DISTRIBUTION = "regelrecht-supervisor"


def problem() -> str | None:
    """A sentence for the operator when a name is not ours, else None. Costs about a millisecond; imports nothing."""
    ours = Path(__file__).parents[1]
    for name in NAMES:
        spec = util.find_spec(name)
        origin = Path(spec.origin) if spec is not None and spec.origin is not None else None
        if origin is None or origin.parents[1] != ours:
            return (
                f"the package {name!r} does not come from {DISTRIBUTION} (found {origin}, expected it in {ours}); "
                f"install {DISTRIBUTION} into an environment of its own"
            )
    foreign = foreign_distributions()
    if foreign:
        return (
            f"other packages that use our names are installed here: {', '.join(foreign)}; "
            f"install {DISTRIBUTION} into an environment of its own"
        )
    return None


def foreign_distributions() -> list[str]:
    """Installed distributions named like one of our packages, such as ``supervisor-4.3.0``.

    Looks at folder names only: ``importlib.metadata`` would cost more than all the rest of ``--help``.
    """
    found = set()
    for entry in sys.path:
        if not os.path.isdir(entry):
            continue
        for name in os.listdir(entry):
            stem, suffix = os.path.splitext(name)
            if suffix in {".dist-info", ".egg-info"} and stem.split("-")[0].lower() in NAMES:
                found.add(stem)
    return sorted(found)
