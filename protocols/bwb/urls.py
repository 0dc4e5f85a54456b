"""Where the files of a law stand in the public repositories (``harvester.md`` 3).

A base is a URL without a trailing slash, ``https://host`` or ``file:///folder``; every address below it has the same
shape, so a mirror is a folder in this layout. Ids and labels must have been checked before: they go in as they are.
"""

from typing import Final

from protocols.law_ids import CvdrId

BWB_REPOSITORY: Final = "https://repository.officiele-overheidspublicaties.nl"
CVDR_REPOSITORY: Final = "https://repository.officiele-overheidspublicaties.nl"
SRU_SEARCH: Final = "https://zoekservice.overheid.nl/sru/Search"


def manifest_url(base: str, bwb_id: str) -> str:
    """The list of all consolidated texts of a work."""
    return f"{base}/bwb/{bwb_id}/manifest.xml"


def wti_url(base: str, bwb_id: str) -> str:
    """The metadata of a work; the suffix is upper case."""
    return f"{base}/bwb/{bwb_id}/{bwb_id}.WTI"


def toestand_url(base: str, bwb_id: str, label: str) -> str:
    """One consolidated text. ``label`` is the manifest's own, ``{date}_{n}``: not every text ends in ``_0`` (D35)."""
    return f"{base}/bwb/{bwb_id}/{label}/xml/{bwb_id}_{label}.xml"


def cvdr_manifest_url(base: str, work: str) -> str:
    """The list of versions of a decentral regulation; ``work`` is the id without version."""
    return f"{base}/cvdr/{work}/manifest.xml"


def cvdr_text_url(base: str, cvdr_id: CvdrId) -> str:
    """The text of one version. ``cvdr_id`` must carry the version."""
    if cvdr_id.version is None:
        raise ValueError(f"{cvdr_id} names no version")
    return f"{base}/cvdr/{cvdr_id.work}/{cvdr_id.version}/xml/{cvdr_id}.xml"


def rebased(url: str, *, public: str, base: str) -> str:
    """``url`` below ``base`` when it stands below ``public``, else unchanged.

    Search records name the public repository; who harvests from a mirror must not be led back to it.
    """
    return base + url.removeprefix(public) if url.startswith(public + "/") else url
