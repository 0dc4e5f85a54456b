"""Text of others on somebody's terminal: names of laws, errors, what agents print. All of it is hostile.

A terminal obeys what is written to it: it moves the cursor, changes its title, answers with keystrokes. What could make it
do so is shown as a replacement character instead; so are marks that turn the direction of writing.
"""

from __future__ import annotations

import re
from typing import Final

_OBEYED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but for line ends and tabs, marks of direction, and halves of characters."""


def harmless(text: str) -> str:
    """``text`` as it may be shown."""
    return _OBEYED.sub("\ufffd", text)
