"""Each module is one contestant: it runs in a process of its own and prints one JSON object.

Nothing here imports both sides of a comparison. In particular no peer imports ``trio_asyncio``, which patches asyncio.
"""

from __future__ import annotations

import json


def tell(**figures: float) -> None:
    """Print the result: durations in seconds (``_s``), sizes in bytes."""
    print(json.dumps(figures), flush=True)
