"""The input of ``git fast-import``: commits as one stream of bytes.

Every text has its length before it, so that no law name and no content can be taken for a command.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from protocols.corpus import FileChange

REF = "refs/regelrecht/made"
"""Where the newest commit that was made here is kept from the garbage collector."""


@frozen
class NewCommit:
    message: str
    changes: tuple[FileChange, ...]


def import_stream(author: str, when_s: int, parent: str | None, commits: Sequence[NewCommit]) -> bytes:
    """A chain of commits on ``parent`` (None: a first one), answered with one id a line.

    ``author``: ``name <address>``. ``when_s``: seconds since 1970.
    """
    out = bytearray(b"feature done\n")
    for mark, commit in enumerate(commits, 1):
        out += (
            f"commit {REF}\nmark :{mark}\nauthor {author} {when_s} +0000\ncommitter {author} {when_s} +0000\n".encode()
        )
        out += _data(commit.message.encode())
        if mark > 1:
            out += b"from :%d\n" % (mark - 1)
        elif parent is not None:
            out += f"from {parent}\n".encode()
        for change in commit.changes:
            if change.content is None:
                out += f"D {change.path}\n".encode()
            else:
                out += f"M 100644 inline {change.path}\n".encode() + _data(change.content)
    out += b"".join(b"get-mark :%d\n" % mark for mark in range(1, len(commits) + 1))
    return bytes(out + b"done\n")


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)
