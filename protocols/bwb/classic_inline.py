"""Text of an element in the styles ``article`` and ``leaf``: exactly what the older converter keeps and drops.

``harvester.md`` 10.2 and 10.3. Where it loses text it loses it here too: these styles are for byte equality; ``full``
(:mod:`protocols.bwb.inline`) is the one to read.
"""

from collections.abc import Callable
from typing import Final

from lxml import etree

from protocols.bwb.elements import BULLETS, METADATA
from protocols.bwb.references import Collector, loose_citation
from protocols.bwb.walk import Task, run
from protocols.bwb.xml import own_text, tag_of

_SKIPPED: Final = METADATA | {
    "adres",
    "formule",
    "formule-klein",
    "giosduurbwb",
    "illustratie",
    "informatieproduct",
    "kop",
    "noot",
    "plaatje",
    "redactie",
    "slotformulering",
    "slotondertekening",
    "tussenkop",
    "wat",
}
_WITH_TAILS: Final = frozenset({"al", "considerans.al", "sup", "sub", "nootref"})

Rule = Callable[["ClassicText", etree._Element], "Task[str] | str"]


class ClassicText:
    """Extracts the text of elements of one entry; collects its references and the warnings about dropped elements."""

    def __init__(self) -> None:
        self.references = Collector()
        self.warnings: list[str] = []
        self._silent = 0

    def inline(self, element: etree._Element) -> str:
        """The text of ``element`` as one string."""
        step = self._top(element)
        return step if isinstance(step, str) else run(step)

    def list_text(self, element: etree._Element) -> str:
        """The text of a list that is kept in one piece: dash lines when unmarked, else ``marker text`` in a row."""
        self._silent += 1
        text = run(_unmarked(self, element) if is_unmarked(element) else _marked(self, element))
        self._silent -= 1
        return text

    def _top(self, element: etree._Element) -> Task[str] | str:
        """An element handed to extraction itself: what has no rule keeps its words, without a warning."""
        rule = _RULES.get(tag_of(element))
        if rule is not None:
            return rule(self, element)
        return "" if element.tag in _SKIPPED else _simple(self, element)

    def child(self, element: etree._Element, parent: etree._Element) -> Task[str] | str:
        """A descendant of an element with a rule: what has none is dropped, with a warning."""
        rule = _RULES.get(tag_of(element))
        if rule is not None:
            return rule(self, element)
        if element.tag not in _SKIPPED and not self._silent:
            name = f"<{tag_of(element)}>"
            self.warnings.append(f"Error parsing {name}: No handler for element {name} in <{tag_of(parent)}>")
        return ""


def is_unmarked(element: etree._Element) -> bool:
    """Whether a ``lijst`` has no markers of its own, by its type or because all its markers are bullets."""
    if element.get("type") == "ongemarkeerd":
        return True
    items = element.findall("li")
    return bool(items) and all(own_text(item.find("li.nr")) in BULLETS for item in items)


def tail_text(element: etree._Element) -> str:
    """The text after ``element``: white space alone counts as one space if it holds one, else as nothing."""
    tail = element.tail
    if not tail:
        return ""
    if tail.isspace():
        return " " if " " in tail else ""
    return tail


def _with_tails(text: ClassicText, element: etree._Element) -> Task[str] | str:
    return _children_with_tails(text, element) if len(element) else (element.text or "").strip()


def _children_with_tails(text: ClassicText, element: etree._Element) -> Task[str]:
    parts = [element.text or ""]
    for child in element:
        parts.append((yield text.child(child, element)))
        parts.append(tail_text(child))
    return "".join(parts).strip()


def _emphasis(text: ClassicText, element: etree._Element) -> Task[str]:
    mark = "**" if element.get("type") == "vet" else "*"
    inner: str = yield _with_tails(text, element)
    return f"{mark}{inner}{mark}"


def _link(text: ClassicText, element: etree._Element) -> str:
    words = element.text or ""
    citation = loose_citation(element)
    if citation is not None:
        return f"[{words}][{text.references.add(*citation)}]"
    doc = element.get("doc", "")
    return f"[{words}]({doc})" if doc else words


def _first_text(_text: ClassicText, element: etree._Element) -> str:
    return own_text(element)


def _item_number(_text: ClassicText, element: etree._Element) -> str:
    return own_text(element).removesuffix(".")


def _joined(separator: str, *, only: str = "", but: str = "") -> Rule:
    """The rule "the texts of the children, joined": of those named ``only``, of all ``but`` one name."""

    def rule(text: ClassicText, element: etree._Element) -> Task[str]:
        parts: list[str] = []
        for child in element:
            if child.tag != but and (not only or child.tag == only):
                words: str = yield text.child(child, element)
                if words:
                    parts.append(words)
        return separator.join(parts).strip()

    return rule


def _simple(text: ClassicText, element: etree._Element) -> Task[str]:
    """The fallback for elements without a rule: all words, tails raw, not trimmed."""
    parts = [element.text or ""]
    for child in element:
        parts.append((yield text._top(child)))
        parts.append(child.tail or "")
    return "".join(parts)


def _unmarked(text: ClassicText, element: etree._Element) -> Task[str]:
    items: list[str] = []
    for item in element.iterchildren("li"):
        body: str = yield _item_body(text, item)
        if body:
            items.append(f"- {body}")
    return "\n".join(items)


def _marked(text: ClassicText, element: etree._Element) -> Task[str]:
    items: list[str] = []
    for item in element.iterchildren("li"):
        body: str = yield _item_body(text, item)
        if body:
            items.append(f"{own_text(item.find('li.nr'))} {body}")
    return " ".join(items)


def _item_body(text: ClassicText, item: etree._Element) -> Task[str]:
    """Paragraphs and nested lists of an item. Here only the attribute says whether a nested list is unmarked."""
    parts: list[str] = []
    for child in item:
        if child.tag == "al":
            parts.append((yield _with_tails(text, child)))
        elif child.tag == "lijst":
            nested = _unmarked if child.get("type") == "ongemarkeerd" else _marked
            parts.append((yield nested(text, child)))
    return " ".join(filter(None, parts))


_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_WITH_TAILS, _with_tails),
    "nadruk": _emphasis,
    "extref": _link,
    "intref": _link,
    "lidnr": _first_text,
    "wij": _first_text,
    "li.nr": _item_number,
    "lid": _joined(" ", but="lidnr"),
    "li": _joined(" ", but="li.nr"),
    "lijst": _joined("\n", only="li"),
    "considerans": _joined("\n\n"),
    "aanhef": _joined("\n\n"),
    "afkondiging": _joined("\n\n", only="al"),
}


def plain_text(element: etree._Element) -> str:
    """All words below ``element`` without any mark; each child is trimmed before it is joined."""
    return run(_plain(element))


def _plain(element: etree._Element) -> Task[str]:
    parts = [element.text or ""]
    for child in element:
        parts.append((yield _plain(child)) if len(child) else (child.text or "").strip())
        parts.append(child.tail or "")
    return "".join(parts).strip()
