"""The harvest job: one law from its repository into the corpus (``queue.md`` 3, ``harvester.md`` 16).

``job`` is the handler, ``produce`` orders the conversion of documents, ``compare`` finds out what is different from last time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from actors.jobs import Means
from actors.jobs.base import JobHandler
from actors.jobs.harvest.job import Harvest, HarvestSettings
from actors.ports.corpus import open_corpus
from actors.ports.fetch import open_fetcher
from actors.ports.foldercorpus import FolderCorpus
from actors.ports.lawsource import LawRepository


@asynccontextmanager
async def open_harvest(means: Means) -> AsyncIterator[JobHandler]:
    """The handler with its HTTP client and its corpus, shared by all harvests of this supervisor."""
    settings = means.get(HarvestSettings)
    async with open_fetcher(settings.fetch) as fetcher:
        repository = LawRepository(fetcher)
        if settings.corpus is None:
            yield Harvest(settings, repository, FolderCorpus(settings.folder), means.meter, means.guardian)
            return
        async with open_corpus(settings.corpus, means.guardian) as corpus:
            yield Harvest(settings, repository, corpus, means.meter, means.guardian)
