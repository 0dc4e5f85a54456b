"""Reading XML from strangers (D36, BW-12, BW-13): the only place of this package that makes a parser.

No network, no DTD, no entities; comments and processing instructions are dropped, so that text around them stays
whole. Default limits of the parser first; one retry without them, only after a scan found the document below our own.
"""

import re
from typing import Final
from xml.parsers import expat

from lxml import etree

from protocols.bwb.errors import MalformedLaw, RefusedLaw

MAX_BYTES: Final = 100 * 1024 * 1024
MAX_DEPTH: Final = 1000

_HTML = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)


def parse_xml(data: bytes, *, what: str) -> etree._Element:
    """The root element of ``data``.

    ``what`` names the document in messages, for example ``toestand of BWBR0018451``. Raises :class:`MalformedLaw` for
    what is no complete XML and :class:`RefusedLaw` for what we do not read: entities, more than 100 MiB, more than
    1000 levels.
    """
    if len(data) > MAX_BYTES:
        raise RefusedLaw("too_large", f"{what}: {len(data)} bytes, the limit is {MAX_BYTES}")
    if not data[:64].strip() and not data.strip():
        raise MalformedLaw("empty", f"{what}: the document is empty")
    if _HTML.match(data[:4096]):
        raise MalformedLaw("html", f"{what}: the server sent an HTML page instead of XML")
    root = _parse(data, what)
    _refuse_entities(root, what)
    return root


def _parser(*, huge: bool) -> etree.XMLParser[etree._Element]:
    return etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        remove_comments=True,
        remove_pis=True,
        huge_tree=huge,
    )


def _parse(data: bytes, what: str) -> etree._Element:
    try:
        return etree.fromstring(data, _parser(huge=False))
    except etree.XMLSyntaxError as error:
        if "XML_PARSE_HUGE" not in str(error):
            raise _syntax_error(what, error) from None
    _check_limits(data, what)
    try:
        return etree.fromstring(data, _parser(huge=True))
    except etree.XMLSyntaxError as error:
        raise _syntax_error(what, error) from None


def _syntax_error(what: str, error: etree.XMLSyntaxError) -> MalformedLaw | RefusedLaw:
    message = "".join(char if char.isprintable() else " " for char in error.msg or "unreadable").strip()
    if "ntity" in message and ("mplification" in message or "loop" in message):
        return RefusedLaw("entities", f"{what}: the document declares entities that expand without end")
    line = error.lineno or 0
    return MalformedLaw("syntax", f"{what}: no complete XML, the file may be cut off (line {line}: {message[:200]})")


class _Beyond(Exception):
    """Raised out of the scan to end it."""


def _check_limits(data: bytes, what: str) -> None:
    """Scan a document that the default limits refused; raise unless it is only long or only moderately deep."""
    depth = 0

    def opened(_name: str, _attributes: object) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise _Beyond

    def closed(_name: str) -> None:
        nonlocal depth
        depth -= 1

    def declared(*_declaration: object) -> None:
        raise RefusedLaw("entities", f"{what}: the document declares entities, which law texts never need")

    scan = expat.ParserCreate()
    scan.StartElementHandler = opened
    scan.EndElementHandler = closed
    scan.EntityDeclHandler = declared
    try:
        scan.Parse(data, True)
    except _Beyond:
        raise RefusedLaw("too_deep", f"{what}: elements are nested more than {MAX_DEPTH} deep") from None
    except expat.ExpatError as error:
        raise MalformedLaw("syntax", f"{what}: no complete XML, the file may be cut off ({error})") from None


def _refuse_entities(root: etree._Element, what: str) -> None:
    """A reference in text stays in the tree as a node, one in an attribute is expanded: refuse the declaration too."""
    subset = root.getroottree().docinfo.internalDTD
    if subset is None:
        return
    if any(True for _ in subset.iterentities()):
        raise RefusedLaw("entities", f"{what}: the document declares entities, which law texts never need")
    if next(root.iter(etree.Entity), None) is not None:
        raise RefusedLaw("entities", f"{what}: the document uses entities of a DTD, which are not read")


def drop_namespaces(root: etree._Element) -> None:
    """Make every tag below ``root`` its plain local name, for rules that go by local name alone."""
    for element in root.iter(etree.Element):
        tag = tag_of(element)
        if tag[0] == "{":
            element.tag = tag.rpartition("}")[2]


def tag_of(element: etree._Element) -> str:
    """The tag of an element, which the types of lxml allow to be more than a string."""
    return str(element.tag)


def own_text(element: etree._Element | None) -> str:
    """The text before the first child, trimmed; an absent element has none."""
    return (element.text or "").strip() if element is not None else ""
