"""One page in, Markdown and metadata out: trafilatura's choice of the main part, repaired where it loses what matters."""

from __future__ import annotations

from typing import Final

from attrs import field, frozen
from lxml import html

from protocols.webpage.about import markdown_title, metadata_of
from protocols.webpage.charset import decode
from protocols.webpage.markdown import render
from protocols.webpage.tree import has_data_table, parse, sanitise, visible_text
from protocols.webpage.words import has_amounts, has_content, has_table, one_line, tidy

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = frozenset({"text/plain", "text/markdown", "text/x-markdown"})
_LEAST_SHARE: Final = 0.25
"""Of the visible text; a main part that keeps less was not the main part."""
_SHELL_SHARE: Final = 0.01


@frozen(kw_only=True)
class PageLimits:
    """See ``ExtractSettings``, which these come from."""

    max_text_bytes: int
    shell_html_bytes: int
    min_content_chars: int


@frozen
class RawPage:
    """What was fetched. ``url`` is where the page was found in the end; links are relative to it."""

    url: str
    content_type: str
    body: bytes = field(repr=False)


@frozen
class Extracted:
    """``problem`` is empty when ``content`` (Markdown) is usable; ``metadata`` always has ``title`` then.

    ``shell``: much HTML and almost no text, as of a page that a browser would still have to draw.
    """

    content: str = field(default="", repr=False)
    metadata: dict[str, str] = field(factory=dict)
    problem: str = ""
    shell: bool = False


def extract(page: RawPage, limits: PageLimits) -> Extracted:
    """Deterministic: the same bytes give the same text. May take long, or more memory than there is: see the port."""
    media_type = page.content_type.partition(";")[0].strip().lower()
    if not media_type and b"<html" in page.body[:1024].lower():
        media_type = "text/html"
    if media_type in _HTML:
        return _from_html(page, limits)
    if media_type in _TEXT:
        text = tidy(decode(page.body, page.content_type, look_inside=False))
        title = one_line(page.url) if media_type == "text/plain" else markdown_title(text, page.url)
        return _checked(text, {"title": title}, limits, shell=False)
    return Extracted(problem=f"unsupported content type {one_line(media_type, 60) or 'unknown'}")


def _from_html(page: RawPage, limits: PageLimits) -> Extracted:
    text = decode(page.body, page.content_type, look_inside=True)
    tree = parse(text)
    if tree is None:
        return Extracted(problem="No content extracted")
    metadata = metadata_of(tree, page.url)
    body = sanitise(tree, page.url)
    visible = visible_text(body)
    shell = len(page.body) >= limits.shell_html_bytes and len(visible) < _SHELL_SHARE * len(text)
    if len(text) > limits.max_text_bytes < len(html.tostring(tree, encoding="unicode")):
        return Extracted(
            problem=f"a page of more than {limits.max_text_bytes} bytes is too large to extract", shell=shell
        )
    chosen = _main_part(tree)
    if _loses(chosen, body, visible):
        chosen = render(body)
    return _checked(tidy(chosen), metadata, limits, shell=shell)


def _main_part(tree: html.HtmlElement) -> str:
    """Without the URL: links are absolute already, and trafilatura would spend a tenth of its time on them."""
    from trafilatura import extract as trafilatura_extract  # 36 MB: only in the processes that extract

    found = trafilatura_extract(
        tree,
        output_format="markdown",
        include_comments=False,
        include_formatting=True,
        include_images=True,
        include_links=True,
        include_tables=True,
    )
    return found or ""


def _loses(chosen: str, body: html.HtmlElement, visible: str) -> bool:
    """Whether the chosen part keeps too little, or none of the amounts, or none of the tables."""
    return (
        len(chosen) < _LEAST_SHARE * len(visible)
        or (not has_amounts(chosen) and has_amounts(visible))
        or (not has_table(chosen) and has_data_table(body))
    )


def _checked(content: str, metadata: dict[str, str], limits: PageLimits, *, shell: bool) -> Extracted:
    if not has_content(content, limits.min_content_chars):
        return Extracted(problem="No content extracted", shell=shell)
    if len(content.encode()) > limits.max_text_bytes:
        return Extracted(problem=f"more than {limits.max_text_bytes} bytes of text", shell=shell)
    return Extracted(content, metadata, shell=shell)
