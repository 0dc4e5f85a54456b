"""The heading (``kop``) of an article, a division or an annex: its number and its title."""

from typing import Final

import attrs
from lxml import etree

from protocols.bwb.elements import ARTICLES
from protocols.bwb.inline import Entry, NoteLabels, one_line
from protocols.bwb.xml import tag_of

_SAID_BY_KIND: Final = {
    "artikel": ("artikel", "art.", "art"),
    "wijzig-artikel": ("artikel", "art.", "art"),
    "paragraaf": ("paragraaf", "§"),
    "sub-paragraaf": ("paragraaf", "sub-paragraaf", "subparagraaf", "§"),
    "subparagraaf": ("paragraaf", "sub-paragraaf", "subparagraaf", "§"),
    "titeldeel": ("titel", "titeldeel"),
}
"""Labels that say no more than the kind of division, so that they are not repeated in its title."""


@attrs.frozen
class Heading:
    """``number`` as written, on one line; ``title`` with the label before it where the label is an unusual one."""

    number: str | None
    title: str | None


def heading_of(labels: NoteLabels, element: etree._Element) -> Heading:
    """Number and title of ``element``; both ``None`` without a heading.

    An unusual label stands in for the missing number of an article ("Enig artikel").
    """
    kop = element.find("kop")
    if kop is None:
        return Heading(None, None)
    entry = Entry(labels, plain=True)
    label = number = ""
    titles = [" ".join((kop.text or "").split())]
    for child in kop:
        words = one_line(entry, child)
        if child.tag == "label" and not label:
            label = words
        elif child.tag == "nr" and not number:
            number = words
        else:
            titles.append(words)
        if child.tail and not child.tail.isspace():
            titles.append(" ".join(child.tail.split()))
    unusual = label if label.casefold() not in _SAID_BY_KIND.get(tag_of(element), (element.tag,)) else ""
    if unusual and not number and element.tag in ARTICLES:
        number, unusual = unusual, ""
    title = " - ".join(filter(None, titles))
    if unusual:
        title = f"{unusual}: {title}" if title else unusual
    return Heading(number or None, title or None)
