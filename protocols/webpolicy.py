"""Which web addresses may be visited: the URL itself, and the network address behind its name.

Both halves are needed. A URL is judged before anything is asked of the network; the network address is judged where the
connection is made, because only there is it known (WB-03: a name may answer differently the second time).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

import idna
from attrs import field, frozen

from protocols.failures import InvalidInput

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL_BYTES: Final = 2_000
"""Of the normalised form (D71)."""
DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DOTTED_QUAD: Final = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}")
_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_INSIDE_NAMES: Final = frozenset(
    {
        "localhost",
        "localdomain",
        "local",
        "internal",
        "intranet",
        "private",
        "corp",
        "home",
        "lan",
        "home.arpa",
        "onion",
    }
)
"""Names of networks that are not the public web; with everything below them."""


class UrlRefused(InvalidInput):
    """This URL is not visited. The text says why, without repeating the URL: it may carry a secret."""

    kind = "url_refused"


class AddressRefused(UrlRefused):
    """The name leads to a network address that is not public."""

    kind = "address_refused"


def _networks(texts: Iterable[str | Network]) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


def _ports(numbers: Iterable[int]) -> frozenset[int]:
    return frozenset(numbers)


def _v4(*texts: str) -> tuple[IPv4Network, ...]:
    return tuple(IPv4Network(text) for text in texts)


def _v6(*texts: str) -> tuple[IPv6Network, ...]:
    return tuple(IPv6Network(text) for text in texts)


# ``is_global`` of the standard library is not enough: on 3.11 it holds for multicast, NAT64, 6to4, site-local and the
# 6to4 relays. So the registries of special addresses are written out here.
_SPECIAL_V4: Final = _v4(
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",
    "100.64.0.0/10",  # carrier-grade NAT
    "127.0.0.0/8",
    "169.254.0.0/16",  # link-local, and the metadata service of most clouds
    "172.16.0.0/12",
    "192.0.0.0/24",  # protocol assignments, and another metadata service
    "192.0.2.0/24",  # documentation
    "192.31.196.0/24",  # AS112
    "192.52.193.0/24",  # AMT
    "192.88.99.0/24",  # 6to4 relays
    "192.168.0.0/16",
    "192.175.48.0/24",  # AS112
    "198.18.0.0/15",  # benchmarks of network devices
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and broadcast
)
_METADATA: Final = _v4("169.254.169.254/32", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32")
"""Services inside a cloud that hand out credentials; one has an address that looks public."""
_UNICAST_V6: Final = IPv6Network("2000::/3")
"""The only part of IPv6 that is the public internet; loopback, mapped, NAT64, ULA, link-local and the rest lie outside."""
_SPECIAL_V6: Final = _v6(
    "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4: an IPv4 address in disguise (D71)
    "2620:4f:8000::/48",  # AS112
    "3fff::/20",  # documentation
)
_MAPPED: Final = IPv6Network("::ffff:0:0/96")


@frozen(kw_only=True)
class WebRules:
    """What differs between installations.

    ``deny`` adds networks that are refused; it wins over ``allow``, which opens networks that otherwise are refused and
    is meant for tests. Networks may be given as text.
    """

    ports: frozenset[int] = field(default=frozenset({80, 443}), converter=_ports)
    deny: tuple[Network, ...] = field(default=(), converter=_networks)
    allow: tuple[Network, ...] = field(default=(), converter=_networks)


@frozen
class WebUrl:
    """A URL in its one normal form: ASCII, host in lower case, no default port, no fragment, path at least ``/``."""

    text: str
    scheme: str
    host: str
    """Without brackets, without a dot at the end."""
    port: int

    @property
    def origin(self) -> str:
        """``scheme://host:port``, the port always written: the key for robots rules."""
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}"

    def at(self, path: str) -> WebUrl:
        """Another path of the same origin, without a query."""
        return WebUrl(
            urlunsplit((self.scheme, urlsplit(self.text).netloc, path, "", "")), self.scheme, self.host, self.port
        )

    @property
    def literal(self) -> Address | None:
        """The network address where the host is one, else None."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None


def ascii_url(raw: str) -> str:
    """The normal form of ``raw``, whatever its host and port; what target lists are made of.

    Raises ``UrlRefused`` for what holds everywhere: scheme, user name, length, a host that is no name.
    """
    return _read(raw).text


def parse_url(raw: str, rules: WebRules) -> WebUrl:
    """``raw`` normalised and judged by everything but the network. Raises ``UrlRefused``.

    A host that is itself a network address is judged by :func:`check_address` right here.
    """
    url = _read(raw)
    if url.port not in rules.ports:
        raise UrlRefused(f"port {url.port} is not allowed; allowed: {', '.join(map(str, sorted(rules.ports)))}")
    literal = url.literal
    if literal is not None:
        check_address(literal, rules)
    elif any(url.host == name or url.host.endswith(f".{name}") for name in _INSIDE_NAMES):
        raise UrlRefused("the host is a name of the inside network, not of the public web")
    elif "." not in url.host:
        raise UrlRefused("a host of a single word is a name of the inside network: give the full name")
    return url


def check_address(address: Address | str, rules: WebRules) -> Address:
    """The address to connect to; raises ``AddressRefused`` when it is not on the public internet."""
    found = _address(address) if isinstance(address, str) else address
    if isinstance(found, IPv6Address) and found in _MAPPED:
        found = IPv4Address(found.packed[-4:])
    if any(found in network for network in rules.deny):
        raise AddressRefused("the address is on the list of denied networks")
    if any(found in network for network in rules.allow):
        return found
    if isinstance(found, IPv4Address):
        if any(found in network for network in _METADATA):
            raise AddressRefused("the address is a metadata service of a cloud")
        public = not any(found in network for network in _SPECIAL_V4)
    else:
        public = found in _UNICAST_V6 and not any(found in network for network in _SPECIAL_V6)
    if not public or not found.is_global:
        raise AddressRefused("the address is not on the public internet")
    return found


def _address(text: str) -> Address:
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        raise AddressRefused("the name did not lead to a network address") from None


def _read(raw: str) -> WebUrl:
    stripped = raw.strip()
    if not stripped:
        raise UrlRefused("the URL is empty")
    if len(stripped) > MAX_URL_BYTES:
        raise UrlRefused(f"the URL is longer than {MAX_URL_BYTES} bytes")
    if _CONTROLS.search(stripped):
        raise UrlRefused("the URL holds control characters")
    try:
        parts = urlsplit(stripped)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise UrlRefused("the URL cannot be read") from None
    scheme = parts.scheme.lower()
    if scheme not in DEFAULT_PORTS:
        raise UrlRefused("only http:// and https:// URLs are visited")
    if "@" in parts.netloc or "\\" in parts.netloc:
        raise UrlRefused("a user name or password in the URL is not supported")
    if port == 0:
        raise UrlRefused("port 0 is not a port")
    host = _host(host, bracketed=parts.netloc.startswith("["))
    port = port or DEFAULT_PORTS[scheme]
    netloc = _bracketed(host) if port == DEFAULT_PORTS[scheme] else f"{_bracketed(host)}:{port}"
    path = _without_dots(quote(parts.path or "/", safe=_PATH_SAFE))
    text = urlunsplit((scheme, netloc, path, quote(parts.query, safe=_QUERY_SAFE), ""))
    if len(text) > MAX_URL_BYTES:
        raise UrlRefused(f"the URL is longer than {MAX_URL_BYTES} bytes")
    return WebUrl(text, scheme, host, port)


_PATH_SAFE: Final = "%/:=&~+!$,;'@()*[]-._"
_QUERY_SAFE: Final = _PATH_SAFE + "?"


def _host(written: str, *, bracketed: bool) -> str:
    """The host as it is connected to; raises for what different programs read differently."""
    if bracketed:
        try:
            address = IPv6Address(written)
        except ValueError:
            raise UrlRefused("the host in brackets is not an IPv6 address") from None
        if address.scope_id is not None:
            raise UrlRefused("an IPv6 address with a zone means an interface of this machine")
        return str(address)
    host = _ascii_host(written).removesuffix(".")
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise UrlRefused("the host is not a name of the domain name system")
    # Resolvers read 2130706433, 0x7f.1 and 0177.0.0.1 as addresses; a host that ends in a number is one, or a trick.
    if _NUMBER.fullmatch(labels[-1]) and not (_DOTTED_QUAD.fullmatch(host) and _is_v4(host)):
        raise UrlRefused("an address must be written as four plain decimal numbers")
    return host


def _ascii_host(written: str) -> str:
    if written.isascii():
        return written.lower()
    try:
        return idna.encode(written, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError):
        raise UrlRefused("the host is not an international domain name") from None


def _is_v4(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _without_dots(path: str) -> str:
    """``/a/../b`` is ``/b``: what is asked of the robots rules must be what is asked of the server (RFC 3986, 5.2.4)."""
    kept: list[str] = []
    segments = path.removeprefix("/").split("/")
    for segment in segments:
        plain = segment.lower().replace("%2e", ".")
        if plain == "..":
            del kept[-1:]
        elif plain != ".":
            kept.append(segment)
    if segments[-1].lower().replace("%2e", ".") in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)
