"""A formula in MathML as one line of text: every token in its order, with the signs that a fraction or a root needs."""

from typing import Final

from lxml import etree

from protocols.bwb.walk import Task, run
from protocols.bwb.xml import tag_of

_BETWEEN: Final = {"mfrac": "/", "msup": "^", "msub": "_", "munder": "_", "mover": "^", "mroot": "^1/"}
_SIMPLE: Final = frozenset({"mi", "mn", "mo", "mtext", "ms"})


def formula_line(math: etree._Element) -> str:
    """``<mfrac><mi>a</mi><mn>2</mn></mfrac>`` becomes ``a / 2``; operands of more than one token get brackets."""
    return " ".join(run(_line(math)).split())


def _line(element: etree._Element) -> Task[str]:
    parts: list[str] = []
    if element.text and not element.text.isspace():
        parts.append(element.text.strip())
    for child in element:
        part: str = yield _line(child)
        if part:
            needs_brackets = element.tag in _BETWEEN and child.tag not in _SIMPLE and " " in part
            parts.append(f"({part})" if needs_brackets else part)
        if child.tail and not child.tail.isspace():
            parts.append(child.tail.strip())
    if element.tag == "msubsup" and len(parts) == 3:
        return f"{parts[0]} _ {parts[1]} ^ {parts[2]}"
    text = f" {_BETWEEN.get(tag_of(element), '')} ".join(parts)
    return f"√({text})" if element.tag == "msqrt" and text else text
