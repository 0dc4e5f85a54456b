"""Citations: from the attributes of ``extref`` and ``intref`` to links and reference records (``harvester.md`` 11)."""

import re
from typing import Final
from urllib.parse import unquote

from lxml import etree

from protocols.bwb.elements import REFERENCES
from protocols.law import Reference
from protocols.law_ids import is_bwb_id

_BWB_ID = re.compile(r"BWBR[0-9]{7}(?![0-9])")
_LOOSE_KEY = {
    key: re.compile(key + r"=([^&]*)") for key in ("artikel", "lid", "onderdeel", "hoofdstuk", "paragraaf", "afdeling")
}
_UNKNOWN: Final = "onbekend"
_EXACT_KEYS: Final = {
    "artikel": "artikel",
    "wijzig-artikel": "artikel",
    "lid": "lid",
    "onderdeel": "onderdeel",
    "o": "onderdeel",
    "hoofdstuk": "hoofdstuk",
    "paragraaf": "paragraaf",
    "afdeling": "afdeling",
}


def loose_citation(element: etree._Element) -> tuple[str, dict[str, str]] | None:
    """BWB id and fields as the older converter finds them: anywhere in ``doc``, values as written.

    An id of another length than seven digits counts as none, because the law schema refuses it.
    """
    doc = element.get("doc", "")
    found = _BWB_ID.search(doc)
    if found is None:
        return None
    if "&" not in doc:
        return found[0], {}
    fields = {key: match[1] for key, pattern in _LOOSE_KEY.items() if (match := pattern.search(doc))}
    return found[0], fields


def exact_citation(element: etree._Element) -> tuple[str, dict[str, str]] | None:
    """BWB id and fields of a jci citation, 1.0 to 1.3: whole keys, escapes undone, ``o=`` is an onderdeel.

    ``jci1.3:c:BWBR0005537&artikel=8%3A1&lid=2&o=a&o=1`` gives artikel ``8:1``, lid ``2``, onderdeel ``a.1``. Where
    ``doc`` says only "unknown", the attribute ``bwb-id`` names the law.
    """
    doc = element.get("doc", "")
    found = _BWB_ID.search(doc)
    if found is None:
        named = element.get("bwb-id", "") if doc == _UNKNOWN else ""
        return (named, {}) if is_bwb_id(named) else None
    fields: dict[str, str] = {}
    for part in doc.split("&")[1:]:
        key, equals, value = part.partition("=")
        field = _EXACT_KEYS.get(key)
        if not equals or field is None or not value:
            continue
        text = unquote(value) if "%" in value else value
        if field not in fields:
            fields[field] = text
        elif key == "o":
            fields[field] = f"{fields[field]}.{text}"
    return found[0], fields


class Collector:
    """Numbers the references of one entry ``ref1``, ``ref2``, ... in reading order; equal ones are not merged."""

    def __init__(self) -> None:
        self.references: list[Reference] = []

    def add(self, bwb_id: str, fields: dict[str, str]) -> str:
        """Record a citation and return its id."""
        name = f"ref{len(self.references) + 1}"
        self.references.append(Reference(id=name, bwb_id=bwb_id, **fields))
        return name


def cited_ids(root: etree._Element) -> set[str]:
    """Every law that a citation below ``root``, which has no bookkeeping any more, names by ``doc`` or ``bwb-id``."""
    ids: set[str] = set()
    for element in root.iter(*REFERENCES):
        for value in (element.get("doc", ""), element.get("bwb-id", "")):
            if found := _BWB_ID.search(value):
                ids.add(found[0])
    return ids
