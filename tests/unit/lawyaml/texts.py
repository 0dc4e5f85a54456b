"""What a text means to a reader of the file, and texts of every nasty kind to try it with."""

from __future__ import annotations

import re

from hypothesis import strategies as st

NASTY = [
    "24e1", "1e5", "NO", "no", "on", "y", "N", "1:1", "3:4", "12:30", "190:20:30", "012", "0o14", "0x1F", "0b11", "1_000", "~", "=", "<<",
    "2026-01-01", "2026-1-1", "2026-01-01T10:00:00Z", "2026-01-01 10:00:00", "null", "Null", "TRUE", "true", "Off",
    "1.5", ".5", "5.", "+1", "-1", "-", "--", "---", "...", "-.inf", ".inf", ".NaN", "+.INF", "1.2.3", "2.10", "6.02e23", "1e+3", "1E-3",
    "", " ", "  a", "a  ", "a:", "a: b", ":a", "a #b", "#a", "a#b", "*1*", "&a", "!a", "!!str a", "%TAG", "@a", "`a`", "? a", "| a", "> a",
    "[a]", "{a: b}", "a, b", "'a'", "a'b", "'", '"', '"a"', 'a "b" c', "\\n", "a\\b", "\t", "a\tb", "a\nb", "\n", "a\n", "\na", " a\nb",
    "a \nb", "a\n b", "a\n\n\nb", "\ufeff", "a\ufeffb", "\u0085", "\u2028", "\u2029", "\x00", "\x07", "\x7f", "\x9f", "\r", "a\r\nb", "\ufffe",
    "\u00a0", "a\u00a0", "\u00a0a", "é€°½–", "\U0001f600", "e\u0301", "\u200b", "8:36c", "B1:1", "5_bis", "_1", "4a", "2.1.b.1°", "y n",
    "key: |", "- a\n- b", "# a\n# b", "a: b\nc: d", "--- a\n--- b", "%a\n%b", "\u00a0a\n\nb", "a\n\n\u00a0b",
]  # fmt: skip

_SPECIAL_WORDS = [
    "de", "een", "belanghebbende", "artikel", "1,", "(zie", "lid)", "a.", "b:", "#3", "-", "–", "—", "'s", '"ja"',
    "€", "2,50", "50%", "Staten-Generaal", "en/of", "x" * 118, "y" * 60, "[artikel 2 van de wet][ref1]",
    "[Richtlijn 1](32001L0055)", "[", "](", "]", "…", "1°.", "§", "*cursief*", "é" * 30, "\u4e2d\u6587" * 8,
    "e\u0301e\u0301", "\u00a0", "„aan", "haal”", "a\u00adb",
]  # fmt: skip
_WORDS = st.sampled_from(_SPECIAL_WORDS)


def prose() -> st.SearchStrategy[str]:
    """Paragraphs as law has them: words with single spaces, blank lines between."""
    paragraph = st.lists(_WORDS, min_size=1, max_size=90).map(" ".join)
    return st.lists(paragraph, min_size=1, max_size=4).map("\n\n".join)


def any_text() -> st.SearchStrategy[str]:
    """Anything a string can hold, nastiness likelier than by chance."""
    pieces = st.one_of(st.sampled_from([*NASTY, " ", "\n", "\n\n"]), _WORDS, st.text(max_size=12))
    return st.one_of(
        st.sampled_from(NASTY),
        st.text(st.characters(exclude_categories=["Cs"])),
        st.lists(pieces, max_size=40).map("".join).map(_encodable),
        prose(),
    )


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def as_read(text: str) -> str:
    """``text`` as a reader of a literal block takes it: a newline inside a paragraph is a space, line ends are bare."""
    bare = re.sub(r" +(?=\n|\Z)", "", text)
    return re.sub(r"(?<!\n)\n(?!\n)", " ", bare)
