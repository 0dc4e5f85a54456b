"""A converted law: what the converters of BWB and CVDR make and the YAML writer writes.

Texts here are final but not yet wrapped: normalising, line filling and quoting belong to :mod:`protocols.lawyaml`.
The keys that the published law schema (v0.5.6) closes are exactly those of :class:`Article`, :class:`Reference` and
:class:`Preamble`; what else a law holds stands in keys of its own at the top level (D32).
"""

import enum
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Final

import attrs

from protocols.law_ids import anchor_url, slugify

SCHEMA_VERSION: Final = "v0.5.6"
SCHEMA_URL: Final = (
    f"https://raw.githubusercontent.com/MinBZK/regelrecht/refs/tags/schema-{SCHEMA_VERSION}"
    f"/schema/{SCHEMA_VERSION}/schema.json"
)


class Layer(enum.Enum):
    """The kind of regulation (``regulatory_layer``), in the order of the law schema's list."""

    GRONDWET = "GRONDWET"
    WET = "WET"
    AMVB = "AMVB"
    MINISTERIELE_REGELING = "MINISTERIELE_REGELING"
    BELEIDSREGEL = "BELEIDSREGEL"
    KONINKLIJK_BESLUIT = "KONINKLIJK_BESLUIT"
    EU_VERORDENING = "EU_VERORDENING"
    EU_RICHTLIJN = "EU_RICHTLIJN"
    VERDRAG = "VERDRAG"
    UITVOERINGSBELEID = "UITVOERINGSBELEID"
    GEMEENTELIJKE_VERORDENING = "GEMEENTELIJKE_VERORDENING"
    PROVINCIALE_VERORDENING = "PROVINCIALE_VERORDENING"
    WATERSCHAPS_VERORDENING = "WATERSCHAPS_VERORDENING"

    @property
    def directory(self) -> str:
        """The directory of this layer below the output base."""
        return self.value.lower()

    @property
    def area_key(self) -> str | None:
        """The law key that holds the CBS code of the area, for the three local layers."""
        return _AREA_KEYS.get(self)


_AREA_KEYS: Final = {
    Layer.GEMEENTELIJKE_VERORDENING: "gemeente_code",
    Layer.PROVINCIALE_VERORDENING: "provincie_code",
    Layer.WATERSCHAPS_VERORDENING: "waterschap_code",
}


@attrs.frozen
class Reference:
    """One citation of a law in an entry's text, joined to the text by ``id`` (``ref1``, ``ref2``, ...).

    Values are as the citation writes them. ``target`` is the link of the definition where the page has a better anchor
    than the fields can say (an annex, for example); it is not written as a key of its own.
    """

    id: str
    bwb_id: str
    artikel: str | None = None
    lid: str | None = None
    onderdeel: str | None = None
    hoofdstuk: str | None = None
    paragraaf: str | None = None
    afdeling: str | None = None
    target: str | None = None

    @property
    def url(self) -> str:
        """The public page of what is cited, without a date."""
        return self.target or anchor_url(
            self.bwb_id,
            article=self.artikel,
            chapter=self.hoofdstuk,
            division=self.afdeling,
            section=self.paragraaf,
        )


def with_definitions(text: str, references: Iterable[Reference]) -> str:
    """``text`` followed by a blank line and one ``[refN]: url`` line per reference; without references unchanged."""
    definitions = "\n".join(f"[{reference.id}]: {reference.url}" for reference in references)
    return f"{text}\n\n{definitions}" if definitions else text


@attrs.frozen
class Article:
    """One entry of ``articles``. ``text`` holds the reference definitions already (:func:`with_definitions`)."""

    number: str
    text: str
    url: str
    references: tuple[Reference, ...] = ()


@attrs.frozen
class Preamble:
    """The aanhef. The schema has no place for ``references`` here: they feed follow-ups and are not written."""

    text: str
    url: str | None = None
    references: tuple[Reference, ...] = ()


@attrs.frozen
class Annex:
    """A bijlage as an entry of its own (D32). ``text`` holds the reference definitions already."""

    number: str
    title: str
    text: str
    references: tuple[Reference, ...] = ()


@attrs.frozen
class ArticleEntry:
    """An article's line in the structure: the number of its entry, its heading, and why it holds no rule.

    ``status`` is the XML's own word (``vervallen``, ``nog niet in werking``) or ``None`` for an article in force.
    """

    number: str
    title: str | None = None
    status: str | None = None


@attrs.frozen
class Division:
    """A boek, deel, hoofdstuk, afdeling, paragraaf, ... with what stands below it, in document order."""

    type: str
    number: str | None = None
    title: str | None = None
    articles: tuple[ArticleEntry, ...] = ()
    children: tuple["Division", ...] = ()


@attrs.frozen
class Law:
    """One consolidated text of one law.

    ``bwb_id`` or ``cvdr_id`` is set. ``cvdr_id`` is the versioned id. ``title`` makes the slug and the name in logs and
    status files; ``official_title`` is written as ``officiele_titel``, ``name`` (the short title that stands in the text)
    as itself, when given. ``area_code`` is the CBS code (GM0344, PV26, WS0155) and is written under
    :attr:`Layer.area_key`. ``name``, ``structure``, ``annexes`` and ``closing`` are filled by the ``full`` style alone.
    ``valid_to`` is the last day of a law that ended, never of a text that was succeeded.
    ``warnings`` are sentences for people: metadata first, then articles in document order.
    """

    title: str
    layer: Layer
    publication_date: date
    valid_from: date
    url: str
    articles: tuple[Article, ...]
    valid_to: date | None = None
    bwb_id: str | None = None
    cvdr_id: str | None = None
    celex_nummer: str | None = None
    tractatenblad_id: str | None = None
    official_title: str | None = None
    name: str | None = None
    organisation: str | None = None
    area_code: str | None = None
    preamble: Preamble | None = None
    structure: tuple[Division, ...] = ()
    annexes: tuple[Annex, ...] = ()
    closing: str | None = None
    warnings: tuple[str, ...] = ()
    slug: str = attrs.field(init=False)

    @slug.default
    def _slug_of_title(self) -> str:
        return slugify(self.title, self.law_id)

    def __attrs_post_init__(self) -> None:
        if not self.law_id:
            raise ValueError("a law needs a bwb_id or a cvdr_id")

    @property
    def law_id(self) -> str:
        """The id that names the law: the BWB id, else the versioned CVDR id."""
        return self.bwb_id or self.cvdr_id or ""

    @property
    def references(self) -> Iterator[Reference]:
        """Every reference of preamble, articles and annexes, in that order."""
        if self.preamble is not None:
            yield from self.preamble.references
        for article in self.articles:
            yield from article.references
        for annex in self.annexes:
            yield from annex.references

    @property
    def referenced_bwb_ids(self) -> tuple[str, ...]:
        """The other laws that this one cites: unique, sorted, without its own id."""
        return tuple(sorted({reference.bwb_id for reference in self.references} - {self.law_id}))
