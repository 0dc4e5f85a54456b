"""A whole sanitised body as Markdown, for pages whose main part cannot be told from the rest.

Nothing is left out and nothing is guessed. Characters that mean something in Markdown are escaped, so that the text of
a page cannot become markup, and no HTML passes through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lxml import html

_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_BLOCKS: Final = (
    *("address", "article", "aside", "blockquote", "body", "center", "details", "dd", "div", "dl", "dt", "fieldset"),
    *("figcaption", "figure", "footer", "form", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section"),
    *("summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul", "caption", *_HEADINGS),
)
_BLOCK_SET: Final = frozenset(_BLOCKS)
_MARKS: Final = {"b": "**", "strong": "**", "i": "*", "em": "*"}
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<|])")
_AT_START: Final = re.compile(r"^(\d{0,9})([#>+=~.)-])")
_LIST: Final = re.compile(r"- |\d+\. ")
_BLANKS: Final = re.compile(r"[ \t\r\n\f\xa0]+")


def render(body: html.HtmlElement) -> str:
    """Markdown of everything in ``body``. Raises ``RecursionError`` for trees nested beyond reason."""
    return "\n\n".join(_blocks(body))


def _blocks(element: html.HtmlElement) -> Iterator[str]:
    """The blocks inside ``element``: its block children, and paragraphs of what stands between them."""
    run = [_escaped(element.text)]
    for child in element:
        if not isinstance(child.tag, str):
            pass
        elif child.tag in _BLOCK_SET or next(child.iter(*_BLOCKS), None) is not None:
            yield from _paragraph(run)
            yield from _block(child)
            run = []
        else:
            run.append(_inline(child))
        run.append(_escaped(child.tail))
    yield from _paragraph(run)


def _block(element: html.HtmlElement) -> Iterator[str]:
    tag = element.tag
    if tag in _HEADINGS:
        text = _one_line(_inner(element))
        if text:
            yield f"{'#' * _HEADINGS[tag]} {text}"
    elif tag in ("ul", "ol"):
        items = "\n".join(_items(element, ordered=tag == "ol"))
        if items:
            yield items
    elif tag == "pre":
        yield from _code(element.text_content())
    elif tag == "blockquote":
        quoted = "\n\n".join(_blocks(element))
        if quoted:
            yield "\n".join(f"> {line}".rstrip() for line in quoted.split("\n"))
    elif tag == "table":
        yield from _table(element)
    elif tag == "hr":
        yield "---"
    else:
        yield from _blocks(element)


def _paragraph(run: list[str]) -> Iterator[str]:
    lines = (_BLANKS.sub(" ", line).strip() for line in "".join(run).split("\v"))
    text = "\n".join(_AT_START.sub(_plain_start, line) for line in lines if line)
    if text:
        yield text


def _plain_start(match: re.Match[str]) -> str:
    """``1.`` and ``#`` begin something in Markdown; ``.5`` and ``2024-01`` do not."""
    number, sign = match.groups()
    begins = (sign in ".)") == bool(number)
    return f"{number}\\{sign}" if begins else match[0]


def _inner(element: html.HtmlElement) -> str:
    parts = [_escaped(element.text)]
    for child in element:
        if isinstance(child.tag, str):
            parts.append(_inline(child))
        parts.append(_escaped(child.tail))
    return "".join(parts)


def _inline(element: html.HtmlElement) -> str:
    """Text with marks; a vertical tab stands for a line break until the paragraph is put together."""
    tag = element.tag
    if tag == "br":
        return "\v"
    if tag == "img":
        alt, source = _one_line(_escaped(element.get("alt"))), element.get("src")
        return f"![{alt}]({_target(source)})" if source else alt
    if tag in ("code", "kbd", "samp", "tt"):
        return _code_span(element.text_content())
    inner = _inner(element)
    if tag == "a" and element.get("href") and inner.strip():
        return _around(inner, "[", f"]({_target(element.get('href') or '')})")
    if tag in _MARKS and inner.strip():
        return _around(inner, _MARKS[tag], _MARKS[tag])
    return f" {inner} " if tag in _BLOCK_SET else inner  # blocks inside a cell of a table


def _around(inner: str, before: str, after: str) -> str:
    """Marks stand against the words: blanks inside them move out."""
    text = _one_line(inner)
    start = " " if inner[:1].isspace() else ""
    end = " " if inner[-1:].isspace() else ""
    return f"{start}{before}{text}{after}{end}"


def _items(element: html.HtmlElement, *, ordered: bool) -> Iterator[str]:
    number = 0
    for child in element:
        if not isinstance(child.tag, str):
            continue
        number += 1
        marker = f"{number}. " if ordered else "- "
        text = ""
        for block in _blocks(child) if child.tag == "li" else _block(child):
            between = "\n" if _LIST.match(block) else "\n\n"
            text += f"{between}{block}" if text else block
        if text:
            yield marker + re.sub(r"\n(?=.)", "\n" + " " * len(marker), text)


def _code(text: str) -> Iterator[str]:
    code = text.strip("\n")
    if code.strip():
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", code)), default=0))
        yield f"{fence}\n{code}\n{fence}"


def _code_span(text: str) -> str:
    code = _one_line(text)
    if not code:
        return ""
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", code)), default=0))
    pad = " " if len(ticks) > 1 else ""
    return f"{ticks}{pad}{code}{pad}{ticks}"


def _table(table: html.HtmlElement) -> Iterator[str]:
    """A table of GitHub's dialect; a table of one column, or one around another, is only layout."""
    rows = [[cell for cell in row if cell.tag in ("td", "th")] for row in table.iter("tr")]
    rows = [row for row in rows if row]
    width = max((len(row) for row in rows), default=0)
    if width < 2 or next(iter(table.xpath(".//table")), None) is not None:
        yield from _blocks(table)
        return
    for caption in table.iter("caption"):
        yield from _blocks(caption)
    lines = [[_one_line(_inner(cell)) for cell in row] + [""] * (width - len(row)) for row in rows]
    lines.insert(1, ["---"] * width)
    yield "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _escaped(text: str | None) -> str:
    return _SPECIAL.sub(r"\\\1", text) if text else ""


def _one_line(text: str) -> str:
    return _BLANKS.sub(" ", text.replace("\v", " ")).strip()


def _target(address: str) -> str:
    """A link target that ends where it should."""
    return address.replace(" ", "%20").replace("(", "%28").replace(")", "%29").replace("<", "%3C").replace(">", "%3E")
