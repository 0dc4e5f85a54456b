"""The two parts of an enrichment that can be run apart (``ENRICH_STEPS``)."""

from __future__ import annotations

from typing import Final

WINDOW: Final = "window"
RECONCILE: Final = "reconcile"
