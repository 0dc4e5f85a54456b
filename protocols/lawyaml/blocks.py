"""How one text of a law stands in the file: on one line, folded or literal.

Folded (``>-``) is used only where every newline of the filled text is cosmetic, so that loading gives the normalised
text back (BW-08, D34). Everything else that needs lines is literal (``|-``); there a reader takes a single newline inside
a paragraph for a space.
"""

import re
from typing import Final

from protocols.lawyaml.scalars import double_quoted, has_unprintable, one_line
from protocols.lawyaml.wrap import fill

_WRAP_ABOVE_BYTES: Final = 80
_GLUED_COMMA = re.compile(r",(?<=[A-Za-z],)(?=[A-Za-z])")
_LABELLED_LINE = re.compile(r"^\[[^\]\n]*\]: ", re.MULTILINE)
_EDGE_WHITESPACE = re.compile(r"^[^\S\n]|[^\S\n]$", re.MULTILINE)


def normalise(text: str) -> str:
    """``text`` with a space after each comma between two ASCII letters; this is the text that the file holds."""
    return _GLUED_COMMA.sub(", ", text)


def text_value(text: str, indent: str) -> str:
    """What follows ``key: `` for a text; ``indent`` goes before each further line. No newline at the end."""
    text = normalise(text)
    if has_unprintable(text) or text.endswith("\n"):
        return double_quoted(text)
    filled = _filled(text) if _is_filled(text) else text
    if "\n" not in filled:
        return one_line(filled)
    if " \n" in filled:
        return double_quoted(text)
    if _folds(text, filled):
        return ">-\n" + _indented(filled.replace("\n\n", "\n\n\n"), indent)
    header = "|2-\n" if filled[0] in " \n" else "|-\n"
    return header + _indented(filled, indent)


def _is_filled(text: str) -> bool:
    return len(text) > _WRAP_ABOVE_BYTES or len(text.encode()) > _WRAP_ABOVE_BYTES or ("[" in text and "](" in text)


def _filled(text: str) -> str:
    """``text`` at the line width, its reference definitions unfilled at the end."""
    if "[ref" not in text:
        return _filled_paragraphs(text)
    content, definitions = _split_definitions(text)
    if not definitions:
        return _filled_paragraphs(text)
    if not content.strip("\n"):
        return definitions
    # The older writer leaves the blank line before the definitions at the end of the content and adds another one.
    # Two blank lines, however many there were: writing what was read changes nothing.
    tail = "\n" if content.endswith("\n") else ""
    return f"{_filled_paragraphs(content.rstrip(chr(10)))}{tail}\n\n{definitions}"


def _filled_paragraphs(content: str) -> str:
    return "\n\n".join([fill(paragraph) for paragraph in content.split("\n\n")])


def _split_definitions(text: str) -> tuple[str, str]:
    """The content, and every definition line wherever it stood, blank lines between two of the last ones kept."""
    lines = text.split("\n")
    first = len(lines)
    for position in range(len(lines) - 1, -1, -1):
        if _is_definition(lines[position]):
            first = position
        elif lines[position] or first == len(lines):
            break
    content = [line for line in lines[:first] if not _is_definition(line)]
    moved = [line for line in lines[:first] if _is_definition(line)]
    return "\n".join(content), "\n".join(line.rstrip(" ") for line in moved + lines[first:])


def _is_definition(line: str) -> bool:
    return line.startswith("[ref") and "]: " in line


def _folds(text: str, filled: str) -> bool:
    """Whether folding gives ``text`` back: only blank lines between paragraphs, nothing indented, no definitions."""
    return (
        "\n\n\n" not in text
        and text.count("\n") == 2 * text.count("\n\n")
        and text[0] != "\n"
        and text[0] != " "
        and "\n " not in text
        and not ("]: " in text and _LABELLED_LINE.search(text))
        and (filled.isascii() or not _EDGE_WHITESPACE.search(filled))
    )


def _indented(text: str, indent: str) -> str:
    lines = text.replace("\n", "\n" + indent)
    blank = f"\n{indent}\n"
    while blank in lines:
        lines = lines.replace(blank, "\n\n")
    return indent + lines if text[0] != "\n" else lines
