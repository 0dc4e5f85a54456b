"""What a page says of itself. Read before the tree is cleaned; dates and languages are never guessed from the text."""

from __future__ import annotations

import re
from typing import Final

from lxml import html

from protocols.webpage.tree import link_target
from protocols.webpage.words import one_line

_FROM_META: Final = {
    "description": ("description", "og:description", "dcterms.description", "dc.description"),
    "author": ("author", "article:author", "dcterms.creator", "dc.creator"),
    "date": (
        *("article:published_time", "dcterms.issued", "dcterms.date", "dc.date", "date", "datepublished"),
        *("article:modified_time", "dcterms.modified", "last-modified"),
    ),
}
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}")
_HEADING: Final = re.compile(r"^#\s+(.+?)\s*#*\s*$", re.MULTILINE)


def metadata_of(tree: html.HtmlElement, url: str) -> dict[str, str]:
    """``title`` always (``og:title``, ``title``, ``h1``, URL); description, author, date, language, canonical if given."""
    meta = _meta(tree)
    found = {key: next((meta[name] for name in names if name in meta), "") for key, names in _FROM_META.items()}
    found["title"] = meta.get("og:title") or _text(tree, "title") or _text(tree, "h1") or one_line(url)
    language = (tree.get("lang") or tree.get("{http://www.w3.org/XML/1998/namespace}lang") or "").strip()
    found["language"] = language if _LANGUAGE.fullmatch(language) else ""
    found["canonical"] = _canonical(tree, url)
    return {key: value for key, value in found.items() if value}


def markdown_title(text: str, url: str) -> str:
    """The first heading of a Markdown file, else the URL."""
    heading = _HEADING.search(text)
    return one_line(heading[1] if heading else "") or one_line(url)


def _meta(tree: html.HtmlElement) -> dict[str, str]:
    """Names of ``meta`` elements in lower case; the first one that says something counts."""
    found: dict[str, str] = {}
    for element in tree.iter("meta"):
        name = (element.get("property") or element.get("name") or element.get("itemprop") or "").strip().lower()
        value = one_line(element.get("content") or "")
        if name and value:
            found.setdefault(name, value)
    return found


def _text(tree: html.HtmlElement, tag: str) -> str:
    texts = (one_line(element.text_content()) for element in tree.iter(tag))
    return next((text for text in texts if text), "")


def _canonical(tree: html.HtmlElement, url: str) -> str:
    for element in tree.iter("link"):
        if "canonical" in (element.get("rel") or "").lower().split():
            target = link_target(element.get("href") or "", url) or ""
            return target if target.startswith(("http://", "https://")) and len(target) <= 500 else ""
    return ""
