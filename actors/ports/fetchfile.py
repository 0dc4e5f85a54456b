"""Reading a file of a mirror folder as if it had been downloaded: same limits, same failures."""

from __future__ import annotations

import stat
from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from protocols.downloads import DownloadFailed, HostNotAllowed, NotServed, TooLarge


def read_file(url: str, folders: Collection[Path], limit_bytes: int) -> bytes:
    """The content of the ``file:`` address ``url``, which must lie in one of ``folders``, links resolved. Blocks."""
    path = Path(url2pathname(urlsplit(url).path))
    try:
        real = path.resolve(strict=True)
        if not any(real.is_relative_to(folder.resolve()) for folder in folders):
            raise HostNotAllowed(f"{path}: it leads out of the mirror folder", url=url)
        about = real.stat()
        if not stat.S_ISREG(about.st_mode):
            raise NotServed(f"{path}: not a regular file", url=url, status=404)
        with real.open("rb") as file:
            content = file.read(limit_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        missing = next((folder for folder in folders if path.is_relative_to(folder) and not folder.is_dir()), None)
        if missing is not None:
            raise DownloadFailed(f"{missing}: the mirror folder does not exist", url=url) from None
        raise NotServed(f"{path}: the mirror has no such file", url=url, status=404) from None
    except (OSError, RuntimeError) as error:
        raise DownloadFailed(f"{path}: {error}", url=url) from error
    if len(content) > limit_bytes:
        raise TooLarge(f"{path}: {about.st_size} bytes, the limit is {limit_bytes}", url=url)
    return content
