"""Agreement between entries and between laws: ``override``, ``unit``, ``promise``, ``declares``, ``reference``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from protocols.gates.bindings import names_used_in
from protocols.gates.findings import Finding
from protocols.gates.reading import LawIndex, LawReading, Unreadable, article_of, plain
from protocols.gates.targets import Absent, listed, look_up
from protocols.law_ids import slugify
from protocols.lawtree import Entry, Tree, gaps_of, list_of, mappings_in, strings_in, text_of

_CLAIMED_USE = re.compile(
    r"\b(?:gebruikt|gebruik|toegepast|nodig|benodigd|invoer|input|used|needed|read)\b[^.;]{0,40}?"
    r"\b(?:artikel|art\.?|article)\s+(?P<number>\d+[a-z]*(?:[.:]\d+[a-z]*)*)(?!\s+(?:van\s+(?:de|het)|of\s+the)\b)",
    re.IGNORECASE,
)
_BEFORE_NAME = re.compile(
    r"^(?:(?:de\s+)?(?:artikel(?:en)?|hoofdstuk|afdeling|paragraaf|bijlage)\b.*?)(?:\bvan\s+(?:de|het)\s+|$)",
    re.IGNORECASE,
)
_BWB_ID = re.compile(r"BWBR[0-9]{7}")
_LINK_DEFINITION = re.compile(r"^\[(?P<label>[^\]\n]{1,80})\]:[ \t]*(?P<address>\S+)", re.MULTILINE)
_LINK = re.compile(r"\[(?P<words>[^\]\[]+)\](?:\[(?P<label>[^\]\[]{1,80})\]|\((?P<address>[^()\s]{1,500})\))")


def overrides(reading: LawReading) -> Iterator[Finding]:
    """An override of something that does not exist has no effect, and nobody notices."""
    for entry in reading.modelled:
        for item in entry.part("overrides"):
            law, article, output = (text_of(item.get(key)) for key in ("law", "article", "output"))
            if not (law and article and output):
                continue
            found = look_up(reading, entry, law, "an override")
            if isinstance(found, Absent):
                yield found.finding
            elif problem := _override_problem(found, law, article, output):
                yield Finding("override", f"{problem}, so the override has no effect", article_of(entry))


def _override_problem(found: LawIndex, law: str, article: str, output: str) -> str:
    giver = [other.number for other in found.givers.get(output, [])]
    if article in giver:
        return ""
    where = f"; {output} is given by {listed(giver)}: name that entry" if giver else ""
    numbers = [other.number for other in found.under.get(article, [])]
    if article in numbers:
        return f"{law} has an entry {article}, and it gives no output {output}{where}"
    cut = f", only its parts {listed(numbers)}" if numbers else ""
    return f"{law} has no entry {article}{cut}{where}"


def units(reading: LawReading) -> Iterator[Finding]:
    """A bound input and the output it takes both carry a unit, and not the same."""
    for entry in reading.modelled:
        for bound in entry.fields("input"):
            output = text_of(bound.source.get("output"))
            law = text_of(bound.source.get("regulation")) or reading.law_id
            found = reading.other(law) if output and bound.unit else None
            if found is None or isinstance(found, Unreadable):
                continue
            target = reading.index_of(found).declared.get(output)
            if target is not None and target.unit and target.unit != bound.unit:
                yield Finding(
                    "unit",
                    f"input {bound.name} has unit {bound.unit}, and {output} of {law} has unit {target.unit}: a unit only "
                    f"labels, nothing converts. Give the input unit {target.unit} and convert in an action where needed",
                    article_of(entry),
                )


def promises(reading: LawReading) -> Iterator[Finding]:
    """An output's description says which article uses it, and that article does not."""
    read: dict[int, Collection[str]] = {}
    for entry in reading.modelled:
        for output in entry.fields("output"):
            for number in dict.fromkeys(claim["number"] for claim in _CLAIMED_USE.finditer(output.description)):
                users = [other for other in reading.under(number) if other is not entry]
                for user in users:
                    if user.index not in read:
                        read[user.index] = _names_read_in(user)
                if users and not any(output.name in read[user.index] for user in users):
                    yield Finding(
                        "promise",
                        f"the description of output {output.name} says that article {number} uses it, and that "
                        "article never reads it: connect it there, or correct the description",
                        article_of(entry),
                    )


def _names_read_in(entry: Entry) -> set[str]:
    return set(names_used_in(entry)) | {text_of(bound.source.get("output")) for bound in entry.fields("input")}


def declarations(reading: LawReading) -> Iterator[Finding]:
    """``declares`` (v0.6.0 on): a property of the header that the entry says the text settles."""
    for entry in reading.modelled:
        for name, value in _declared_properties((entry.model or {}).get("declares")):
            if name not in reading.tree:
                why = f"declares {name}, which the header of the file does not have"
            elif value is not None and reading.tree[name] != value:
                why = f"declares {name} as {str(value)[:100]!r}, and the header says {str(reading.tree[name])[:100]!r}"
            else:
                continue
            yield Finding("declares", f"{why}: quote the text exactly, or take the declaration out", article_of(entry))


def _declared_properties(value: Any) -> Iterator[tuple[str, Any]]:
    """As a mapping of properties, as a list of ``{property, value}`` or of names: the published shape is not settled."""
    if isinstance(value, dict):
        yield from value.items()
    for item in mappings_in(value):
        if name := text_of(item.get("property")) or text_of(item.get("name")):
            yield name, item.get("value")
    for item in list_of(value):
        if isinstance(item, str):
            yield item, None


def references(reading: LawReading) -> Iterator[Finding]:
    """The text cites another law, and nothing in the model takes it up."""
    for entry in reading.modelled:
        if not entry.model:
            continue
        cited = dict.fromkeys(_BWB_ID.findall(entry.text))
        cited.update(dict.fromkeys(text_of(item.get("bwb_id")) for item in mappings_in(entry.raw.get("references"))))
        for bwb_id in cited:
            if bwb_id and bwb_id != reading.bwb_id and not _answered(reading, entry, bwb_id):
                words = " / ".join(_words_of(entry, bwb_id)) or bwb_id
                yield Finding(
                    "reference",
                    f"the text refers to another law ({words}, {bwb_id}) and the model does not: bind an input to it "
                    f"(source.regulation), use overrides or implements, record an open term with it as legal_basis, or "
                    f"say under {reading.gap_key} why it is left out",
                    article_of(entry),
                )


def _answered(reading: LawReading, entry: Entry, bwb_id: str) -> bool:
    cited = [slugify(words, bwb_id) for words in _words_of(entry, bwb_id)]
    named = [text_of(bound.source.get("regulation")) for bound in entry.fields("input")]
    named += [text_of(item.get("law")) for key in ("overrides", "implements", "requires") for item in entry.part(key)]
    if any(_is_law(reading, law, bwb_id, cited) for law in named if law):
        return True
    recorded = [*entry.part("open_terms"), *(gap.raw for gap in gaps_of(entry))]
    texts = [plain(text) for item in recorded for text in strings_in(item)]
    names = [name for words in _words_of(entry, bwb_id) if (name := _law_name(words))]
    return any(bwb_id in text or any(name in text.casefold() for name in names) for text in texts)


def _law_name(words: str) -> str:
    """The name of the law in the words of a link, lower case: without "artikel 2.1, derde lid, van de"."""
    return _BEFORE_NAME.sub("", plain(words)).casefold()


def _is_law(reading: LawReading, law: str, bwb_id: str, cited: list[str]) -> bool:
    """Whether ``law`` is the one with this BWB id: by id, by its file, else by its name in the words of the link."""
    if law == bwb_id:
        return True
    found = reading.other(law)
    if isinstance(found, dict) and found.get("bwb_id"):
        return text_of(found["bwb_id"]) == bwb_id
    return any(law in words for words in cited)


def _words_of(entry: Entry, bwb_id: str) -> list[str]:
    """The words that link to the law in the entry's text."""
    addresses = {found["label"]: found["address"] for found in _LINK_DEFINITION.finditer(entry.text)}
    reference_ids: Tree = {
        text_of(item.get("id")): text_of(item.get("bwb_id")) for item in mappings_in(entry.raw.get("references"))
    }
    return [
        " ".join(found["words"].split())
        for found in _LINK.finditer(entry.text)
        if bwb_id in (found["address"] or addresses.get(found["label"], "") or reference_ids.get(found["label"], ""))
    ]
