"""From the text of an HTML page to the part of it that a reader sees, without anything that acts."""

from __future__ import annotations

import functools
import re
from typing import Final
from urllib.parse import urljoin, urlsplit

from lxml import etree, html

from protocols.webpage.words import has_content

_ACTIVE: Final = (
    *(
        "script",
        "style",
        "noscript",
        "template",
        "svg",
        "math",
        "iframe",
        "frame",
        "frameset",
        "object",
        "embed",
        "applet",
    ),
    *("canvas", "audio", "video", "dialog", "button", "select", "option", "textarea", "input", "link"),
)
_SUSPECT: Final = etree.XPath("//*[@hidden or @style or @aria-hidden or @role] | //nav | //header | //footer | //aside")
"""Finds in C what a loop over all elements would look at in Python."""
_FRAME: Final = frozenset({"header", "footer", "aside"})
_MAIN: Final = frozenset({"main", "article"})
_HIDING: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LINKED: Final = frozenset({"http", "https", "mailto", "tel"})


def parse(text: str) -> html.HtmlElement | None:
    """The tree of a page; None where there is none. Fetches nothing; markup nested deeper than 255 is cut off."""
    parser = html.HTMLParser(
        encoding="utf-8", recover=True, no_network=True, huge_tree=False, remove_comments=True, remove_pis=True
    )
    try:
        return html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError):
        return None


def sanitise(tree: html.HtmlElement, url: str) -> html.HtmlElement:
    """Change ``tree`` in place and return its body: what is visible, with absolute links of harmless schemes.

    Navigation goes, and header, footer and aside unless they belong to the main part.
    """
    etree.strip_elements(tree, *_ACTIVE, with_tail=False)
    for element in _SUSPECT(tree):
        if element.getparent() is not None and (_is_hidden(element) or _is_frame(element)):
            element.drop_tree()
    base = _base(tree, url)
    for element in tree.iter("a", "img", "area"):
        _link(element, "src" if element.tag == "img" else "href", base)
    body = tree.find(".//body")
    return tree if body is None else body


def visible_text(body: html.HtmlElement) -> str:
    """All text of a sanitised body, blanks collapsed."""
    return " ".join(" ".join(body.itertext()).split())


def has_data_table(body: html.HtmlElement) -> bool:
    """Whether there is a table with at least two rows of two filled cells: others only serve the layout."""
    return any(_is_data(table) for table in body.iter("table"))


_PLAIN_TARGET: Final = re.compile(r"https?://[\w.~/?&=%+:,;!@$*'()#-]+", re.ASCII)
_PLAIN_PATH: Final = re.compile(r"(?:/[\w~%+,;=-][\w.~%+,;=-]*)+/?(?:\?[\w.~/?&=%+:,;-]*)?(?:#[\w.~-]*)?", re.ASCII)


def link_target(value: str, base: str) -> str | None:
    """The absolute form of a link, or None where following it would do something else than visit a page."""
    if _PLAIN_TARGET.fullmatch(value):
        return value
    if _PLAIN_PATH.fullmatch(value):
        return _root(base) + value
    try:
        target = urljoin(base, value.strip())
        scheme = urlsplit(target).scheme
    except ValueError:
        return None
    return target if scheme in _LINKED else None


@functools.lru_cache(maxsize=16)
def _root(base: str) -> str:
    """What stands before the path; links of one page all have the same."""
    return urljoin(base, "/").removesuffix("/")


def _is_data(table: html.HtmlElement) -> bool:
    full = 0
    for row in table.iter("tr"):
        filled = sum(has_content(cell.text_content()) for cell in row if cell.tag in ("td", "th"))
        full += filled >= 2
        if full == 2:
            return True
    return False


def _is_hidden(element: html.HtmlElement) -> bool:
    return (
        element.get("hidden") is not None
        or element.get("aria-hidden", "").strip().lower() == "true"
        or _HIDING.search(element.get("style", "")) is not None
    )


def _is_frame(element: html.HtmlElement) -> bool:
    if element.tag == "nav" or element.get("role") == "navigation":
        return True
    if element.tag not in _FRAME:
        return False
    return not any(above.tag in _MAIN or above.get("role") == "main" for above in element.iterancestors())


def _base(tree: html.HtmlElement, url: str) -> str:
    element = tree.find(".//base[@href]")
    return url if element is None else link_target(element.get("href", ""), url) or url


def _link(element: html.HtmlElement, attribute: str, base: str) -> None:
    value = element.get(attribute)
    if value is None:
        return
    target = link_target(value, base)
    if target is None:
        del element.attrib[attribute]
    else:
        element.set(attribute, target)
