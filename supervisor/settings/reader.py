"""From environment variables to frozen attrs classes: strict, all faults at once, and no secret in any text.

A setting is an attrs field made by :func:`setting`. Its metadata feeds the reader, the reference page and
``.env.example``, so a name, its default and its meaning stand in one place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import attrs

from supervisor import exitcodes

T = TypeVar("T")
N = TypeVar("N", int, float)
Parse = Callable[[str], Any]

_META = "setting"


@attrs.frozen
class Spec:
    """What is known of one setting beside its type. ``fallbacks`` are older names, read in order when ``name`` is unset."""

    name: str
    parse: Parse
    help: str
    fallbacks: tuple[str, ...] = ()
    secret: bool = False
    shown_default: str | None = None
    example: str | None = None
    """Set in ``.env.example``, where the other settings stand as comments with their default."""
    on_garbage: Any = None
    """Where given, garbage is a warning and this value, not a fault."""


class SettingsFault(Exception):
    """The environment cannot be used. ``faults`` has one line for each thing that is wrong, free of secrets."""

    exit_code = exitcodes.USAGE

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@attrs.define
class Findings:
    """What reading found: ``faults`` stop the start, ``warnings`` are logged."""

    faults: list[str] = attrs.field(factory=list)
    warnings: list[str] = attrs.field(factory=list)

    def raise_faults(self) -> None:
        """Raise :class:`SettingsFault` when there is any fault."""
        if self.faults:
            raise SettingsFault(self.faults)


def setting(
    name: str,
    parse: Parse,
    *,
    help: str,  # noqa: A002 - the word that click and argparse use
    default: Any,
    fallbacks: tuple[str, ...] = (),
    secret: bool = False,
    shown_default: str | None = None,
    example: str | None = None,
    on_garbage: Any = None,
) -> Any:
    """A field that is read from ``name``. ``default`` may be any value; it is not parsed."""
    spec = Spec(name, parse, help, fallbacks, secret, shown_default, example, on_garbage)
    return attrs.field(kw_only=True, default=default, repr=not secret, metadata={_META: spec})


def specs(cls: type[Any]) -> list[tuple[attrs.Attribute[Any], Spec]]:
    """The settings of an area, in the order of its class."""
    return [(field, field.metadata[_META]) for field in attrs.fields(cls) if _META in field.metadata]


def read(cls: type[T], environ: Mapping[str, str], findings: Findings) -> T:
    """An instance of ``cls``. A faulty value becomes a line in ``findings`` and counts as unset, so that all are found.

    An empty string counts as unset. Values are taken as they are: blanks around a number are garbage.
    """
    values: dict[str, Any] = {}
    for field, spec in specs(cls):
        name = next((name for name in (spec.name, *spec.fallbacks) if environ.get(name)), None)
        if name is None:
            continue
        raw = environ[name]
        shown = "***" if spec.secret else repr(without_password(raw)[:200])
        try:
            values[field.name] = spec.parse(raw)
        except ValueError as error:
            if spec.on_garbage is None:
                findings.faults.append(f"{name}={shown}: {error}")
            else:
                findings.warnings.append(f"{name}={shown}: {error}; {spec.on_garbage!r} is used")
                values[field.name] = spec.on_garbage
    return cls(**values)


def without_password(raw: str) -> str:
    """``raw`` with the user part of any address in it masked: people paste tokens into addresses."""
    return re.sub(r"//[^/@\s]*@", "//***@", raw)


# What a value may look like. Each raises ValueError with a sentence that follows "NAME='raw': ".


def whole(least: int = 0, most: int = 2**31 - 1) -> Parse:
    """A base-10 number without sign, blanks or underscores: int() takes more than people mean."""

    def parse(raw: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", raw, re.ASCII):
            raise ValueError("expected a whole number such as 5")
        return _bounded(int(raw), least, most)

    return parse


def seconds(least: float = 0, most: float = 31_536_000) -> Parse:
    """A duration in seconds; fractions are allowed (D20). At most a year, so that deadlines stay finite."""

    def parse(raw: str) -> float:
        if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", raw, re.ASCII):
            raise ValueError("expected seconds such as 30 or 0.5")
        return _bounded(float(raw), least, most)

    return parse


def _bounded(value: N, least: float, most: float) -> N:
    if value < least:
        raise ValueError(f"the least is {least:g}")
    if value > most:
        raise ValueError(f"the most is {most:g}")
    return value


def flag(raw: str) -> bool:
    """``1 true yes on`` or ``0 false no off``, in any case."""
    word = raw.strip().lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"0", "false", "no", "off"}:
        return False
    raise ValueError("expected 1, true, yes, on or 0, false, no, off")


def choice(*words: str) -> Parse:
    """One of ``words``, in any case, with blanks around it forgiven."""

    def parse(raw: str) -> str:
        word = raw.strip().lower()
        if word not in words:
            raise ValueError(f"expected one of {', '.join(words)}")
        return word

    return parse


def log_level(raw: str) -> str:
    """``debug``, ``info``, ``warning`` or ``error``, also as the unnamed part of a filter (``info,sqlx=warn``)."""
    levels = {
        "trace": "debug",
        "debug": "debug",
        "info": "info",
        "warn": "warning",
        "warning": "warning",
        "error": "error",
    }
    unnamed = [part.strip().lower() for part in raw.split(",") if "=" not in part]
    if not unnamed or unnamed[-1] not in levels:
        raise ValueError("expected debug, info, warning or error")
    return levels[unnamed[-1]]


def text(raw: str) -> str:
    """Any text in one line."""
    if re.search(r"[\x00-\x1f\x7f]", raw):
        raise ValueError("expected text without control characters")
    return raw


def path(raw: str) -> Path:
    """A path as given; ``~`` is not expanded, since no shell stands between a platform and this program."""
    return Path(text(raw))


def relative_path(raw: str) -> str:
    """A path below another one: no leading slash, no ``..``."""
    parts = text(raw).split("/")
    if raw.startswith("/") or ".." in parts:
        raise ValueError("expected a relative path without '..'")
    return "/".join(part for part in parts if part not in {"", "."})


def http_url(raw: str) -> str:
    """The address of a service, as given. No user part: it would stand in logs; keys have settings of their own."""
    try:
        parts = urlsplit(text(raw).strip())
        _ = parts.port
    except ValueError:
        raise ValueError("expected an address such as https://host/path") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("expected an address such as https://host/path")
    if "@" in parts.netloc:
        raise ValueError("a user name or password in the address is not supported: it would stand in logs")
    return raw.strip()


def postgres_url(raw: str) -> str:
    """A ``postgres://`` or ``postgresql://`` address."""
    try:
        parts = urlsplit(text(raw))
        _ = parts.port
    except ValueError:
        raise ValueError("expected postgresql://user:password@host:port/database") from None
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ValueError("expected postgresql://user:password@host:port/database")
    return raw
