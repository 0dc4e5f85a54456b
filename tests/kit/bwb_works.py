"""Invented laws as the repository would serve them: manifests, metadata, texts, search pages, and folders of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import attrs

from tests.kit import shared


@attrs.frozen
class Toestand:
    """One expression of a manifest. ``sized``: state the size and hash of ``text``, as the real repository does."""

    label: str
    end: str = "9999-12-31"
    text: bytes = b""
    start: str = ""
    deleted: bool = False
    seen: tuple[str, str] | None = None
    sized: bool = True

    @property
    def first_day(self) -> str:
        return self.start or self.label.partition("_")[0]


def manifest_xml(
    bwb_id: str,
    toestanden: Iterable[Toestand] = (),
    *,
    latest: str | None = None,
    in_force: str = "",
    withdrawn: str = "",
    wrapped: bool = False,
) -> bytes:
    """A manifest; ``latest`` is the label in ``_latestItem``, ``""`` leaves the pointer out, ``None`` takes the last."""
    texts = list(toestanden)
    label = (texts[-1].label if texts else "") if latest is None else latest
    pointer = f' _latestItem="{label}/xml/{bwb_id}_{label}.xml"' if label else ""
    dates = _element("datum_inwerkingtreding", in_force) + _element("datum_intrekking", withdrawn)
    body = f"<metadata><wti_locatie>{bwb_id}.WTI</wti_locatie>{dates}</metadata>"
    body += "".join(_expression(bwb_id, text) for text in texts)
    work = f'<work label="{bwb_id}"{pointer}>{body}</work>'
    return (
        '<?xml version="1.0" encoding="utf-8"?>' + (f"<repository>{work}</repository>" if wrapped else work)
    ).encode()


def _expression(bwb_id: str, text: Toestand) -> str:
    metadata = _element("datum_inwerkingtreding", text.first_day) + _element("einddatum", text.end)
    if text.seen:
        metadata += _element("zichtdatum_start", text.seen[0]) + _element("zichtdatum_eind", text.seen[1])
    facts = ""
    if text.text and text.sized:
        facts = _element("size", str(len(text.text))) + _element("hashcode", hashlib.sha512(text.text).hexdigest())
    item = f'<item label="{bwb_id}_{text.label}.xml" _deleted="{str(text.deleted).lower()}"/>'
    xml = f'<manifestation label="xml"><metadata>{facts}</metadata>{item}</manifestation>'
    printed = '<manifestation label="html"><item label="x.html" _deleted="true"/></manifestation>'
    return f'<expression label="{text.label}"><metadata>{metadata}</metadata>{printed}{xml}</expression>'


def _element(name: str, text: str) -> str:
    return f"<{name}>{escape(text)}</{name}>" if text else ""


def wti_xml(bwb_id: str, title: str, *, kind: str = "wet", published: str = "2024-01-15") -> bytes:
    change = _element("publicatiedatum", published)
    return (
        f'<wetstechnische-informatie bwb-id="{bwb_id}"><algemene-informatie>'
        f'<citeertitel status="officieel">{escape(title)} </citeertitel>{_element("soort-regeling", kind)}'
        f"</algemene-informatie><wijzigingen><regeling><datum><details>{change}</details></datum></regeling></wijzigingen>"
        "</wetstechnische-informatie>"
    ).encode()


def toestand_xml(
    bwb_id: str, day: str, articles: Mapping[str, str], *, kind: str = "wet", cites: Iterable[str] = ()
) -> bytes:
    """A text with one ``al`` per article; ``cites`` are BWB ids that the last article refers to."""
    links = "".join(f' en <extref doc="jci1.3:c:{other}&amp;artikel=1">de wet {other}</extref>' for other in cites)
    last = list(articles)[-1] if articles else None
    body = "".join(
        f"<artikel label={quoteattr(f'Artikel {number}')}><kop><label>Artikel</label><nr>{escape(number)}</nr></kop>"
        f"<al>{escape(text)}{links if number == last else ''}</al></artikel>"
        for number, text in articles.items()
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><toestand bwb-id="{bwb_id}" inwerkingtreding="{day}">'
        f'<wetgeving soort="{kind}"><wet-besluit><wettekst>{body}</wettekst></wet-besluit></wetgeving></toestand>'
    ).encode()


def sru_page(records: Iterable[tuple[str, str, str]], *, total: int, following: int | None = None) -> bytes:
    """A search page; a record is ``(identifier, title, type)``."""
    rows = "".join(
        "<record><recordData><gzd><originalData><meta><owmskern>"
        f'<d:identifier xmlns:d="urn:d">{escape(identifier)}</d:identifier><title> {escape(title)}\n</title>'
        f"{_element('type', kind)}</owmskern></meta></originalData></gzd></recordData></record>"
        for identifier, title, kind in records
    )
    next_position = _element("nextRecordPosition", str(following)) if following else ""
    return (
        '<searchRetrieveResponse xmlns="http://www.loc.gov/zing/srw/"><version>1.2</version>'
        f"<numberOfRecords>{total}</numberOfRecords><records>{rows}</records>{next_position}</searchRetrieveResponse>"
    ).encode()


def sru_diagnostic(message: str) -> bytes:
    return (
        '<?xml version="1.0"?><diagnostics><diagnostic xmlns="http://www.loc.gov/zing/srw/diagnostic/">'
        f"<uri>info:srw/diagnostic/1/10</uri><message>{escape(message)}</message></diagnostic></diagnostics>"
    ).encode()


@attrs.frozen
class Work:
    """A law with all its texts, as files of the repository."""

    bwb_id: str
    toestanden: tuple[Toestand, ...]
    wti: bytes
    manifest: bytes

    @property
    def files(self) -> dict[str, bytes]:
        """Path (``/bwb/...``) to content; deleted texts have no file."""
        folder = f"/bwb/{self.bwb_id}"
        files = {f"{folder}/manifest.xml": self.manifest, f"{folder}/{self.bwb_id}.WTI": self.wti}
        for text in self.toestanden:
            if not text.deleted:
                files[f"{folder}/{text.label}/xml/{self.bwb_id}_{text.label}.xml"] = text.text
        return files


def invented_work(
    bwb_id: str, title: str, *, days: tuple[str, ...] = ("2024-03-01",), cites: Iterable[str] = (), kind: str = "wet"
) -> Work:
    """A law with one text per day of ``days``, each ending the day before the next begins."""
    cited = tuple(cites)
    articles = {day: {"1": f"Deze wet heet {title}.", "2": f"Zij geldt zoals op {day} bepaald"} for day in days}
    texts = [
        Toestand(f"{day}_0", end, toestand_xml(bwb_id, day, articles[day], cites=cited))
        for day, end in _with_ends(days)
    ]
    return Work(bwb_id, tuple(texts), wti_xml(bwb_id, title, kind=kind), manifest_xml(bwb_id, texts))


def _with_ends(days: Iterable[str]) -> list[tuple[str, str]]:
    """Each day with the one before the next: the period of a text."""
    starts = list(days)
    ends = [date.fromordinal(date.fromisoformat(day).toordinal() - 1).isoformat() for day in starts[1:]]
    return list(zip(starts, [*ends, "9999-12-31"], strict=True)) if starts else []


def lay_out(folder: Path, works: Iterable[Work]) -> None:
    """Write works into ``folder`` in the layout of the repository."""
    for work in works:
        for path, content in work.files.items():
            target = folder / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def real_work(bwb_id: str) -> Work:
    """A real law of the reference material; skips the calling test where that is absent.

    A manifest is made up where none was found; the metadata likewise, with the id for a title.
    """
    folder = shared.path(f"data/bwb/{bwb_id}")
    files = {file.stem.split("_")[1]: file for file in sorted(folder.glob(f"{bwb_id}_????-??-??_0.xml"))}
    texts = [Toestand(f"{day}_0", end, files[day].read_bytes()) for day, end in _with_ends(files)]
    wti = folder / f"{bwb_id}.WTI.xml"
    manifest = folder / "manifest.xml"
    return Work(
        bwb_id,
        tuple(texts),
        wti.read_bytes() if wti.exists() else wti_xml(bwb_id, bwb_id),
        manifest.read_bytes() if manifest.exists() else manifest_xml(bwb_id, texts),
    )
