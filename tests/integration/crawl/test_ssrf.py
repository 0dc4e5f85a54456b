"""Hostile URLs, hostile names and hostile redirects (WB-03): nothing but the public internet is ever reached.

The proof is twofold: a canary listens on every loopback address, and every socket that is made at all is counted, so that
addresses at which nobody could listen in a test are covered too.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from actors.ports.crawler import Crawler, open_crawler
from actors.ports.crawlsettings import CrawlSettings
from protocols.crawl import CrawlOutcome, CrawlStatus
from protocols.webpolicy import WebRules
from tests.kit.website import (
    LOOPBACK,
    Canary,
    Names,
    SocketWatch,
    article,
    canary,
    crawl_settings,
    page,
    redirect,
    website,
)

HOSTILE = [
    # schemes and things that are no web address
    *("file:///etc/passwd", "ftp://127.0.0.1:{port}/", "gopher://127.0.0.1:{port}/_x", "dict://127.0.0.1:{port}/"),
    *("unix:///var/run/docker.sock", "jar:http://127.0.0.1:{port}!/", "javascript:fetch('http://127.0.0.1:{port}')"),
    *(
        "data:text/html,x",
        "//127.0.0.1:{port}/",
        "127.0.0.1:{port}",
        "http:127.0.0.1:{port}",
        "http:///127.0.0.1:{port}",
    ),
    # names of this machine and of the inside network
    *(
        "http://localhost:{port}/",
        "http://LOCALHOST.:{port}/",
        "http://a.localhost:{port}/",
        "http://localhost.localdomain:{port}/",
    ),
    *("http://metadata.google.internal/computeMetadata/v1/", "http://printer.local:{port}/", "http://intranet:{port}/"),
    # loopback and private, written plainly
    *(
        "http://127.0.0.1:{port}/",
        "http://127.0.0.2:{port}/",
        "http://127.255.255.254:{port}/",
        "http://0.0.0.0:{port}/",
    ),
    *(
        "http://10.0.0.1:{port}/",
        "http://172.16.0.1:{port}/",
        "http://192.168.1.1:{port}/",
        "http://100.64.0.1:{port}/",
    ),
    *("http://169.254.169.254/latest/meta-data/", "http://169.254.0.1:{port}/", "http://168.63.129.16/metadata"),
    *(
        "http://100.100.100.200/latest/",
        "http://192.0.0.192/opc/v2/",
        "http://224.0.0.1:{port}/",
        "http://255.255.255.255:{port}/",
    ),
    *("http://198.18.0.1:{port}/", "http://192.88.99.1:{port}/", "http://240.0.0.1:{port}/"),
    # loopback in disguise
    *("http://2130706433:{port}/", "http://0x7f000001:{port}/", "http://017700000001:{port}/", "http://127.1:{port}/"),
    *("http://127.0.1:{port}/", "http://0177.0.0.1:{port}/", "http://0x7f.0.0.1:{port}/", "http://127.0.0.01:{port}/"),
    *(
        "http://127.0.0.1.:{port}/",
        "http://１２７.0.0.1:{port}/",
        "http://127。0。0。1:{port}/",
        "http://①②⑦.0.0.1:{port}/",
    ),
    *(
        "http://%31%32%37.0.0.1:{port}/",
        "http://127.0.0.1%00.example.com:{port}/",
        "http://127.0.0.1\t.example.com:{port}/",
    ),
    # IPv6
    *("http://[::1]:{port}/", "http://[0:0:0:0:0:0:0:1]:{port}/", "http://[::]:{port}/", "http://[::1%25lo]:{port}/"),
    *("http://[::ffff:127.0.0.1]:{port}/", "http://[::ffff:7f00:1]:{port}/", "http://[::127.0.0.1]:{port}/"),
    *("http://[64:ff9b::7f00:1]:{port}/", "http://[64:ff9b:1::7f00:1]:{port}/", "http://[2002:7f00:1::]:{port}/"),
    *(
        "http://[2001:0:7f00:1::]:{port}/",
        "http://[fe80::1]:{port}/",
        "http://[fec0::1]:{port}/",
        "http://[fd00:ec2::254]/",
    ),
    *("http://[ff02::1]:{port}/", "http://[::ffff:169.254.169.254]/", "http://[::ffff:0:127.0.0.1]:{port}/"),
    # credentials and confused readers
    *("http://user@127.0.0.1:{port}/", "http://example.com@127.0.0.1:{port}/", "http://127.0.0.1:{port}@example.com/"),
    *(
        "http://example.com\\@127.0.0.1:{port}/",
        "http://127.0.0.1:{port}\\@example.com/",
        "http://example.com#@127.0.0.1:{port}/",
    ),
    *(
        "http://127.0.0.1:{port}:80/",
        "http://[::1]@127.0.0.1:{port}/",
        "http://127.0.0.1 :{port}/",
        "http://exa\r\nmple.com/",
    ),
    # ports of other services
    *("http://example.com:22/", "http://example.com:6379/", "https://example.com:11211/"),
    # names that lead inside (see ``inside_names``)
    *(
        "http://loopback.example:{port}/",
        "http://private.example:{port}/",
        "http://metadata.example/",
        "http://six.example:{port}/",
    ),
    *(
        "http://mapped.example:{port}/",
        "http://nat64.example:{port}/",
        "http://sixtofour.example:{port}/",
        "http://zero.example:{port}/",
    ),
    *(
        "http://mixed.example:{port}/",
        "http://scoped.example:{port}/",
        "http://nonsense.example:{port}/",
        "http://none.example:{port}/",
    ),
    "https://loopback.example:{port}/",
]


def inside_names() -> Names:
    names = Names()
    for host, answers in {
        "loopback": [LOOPBACK],
        "private": ["10.1.2.3"],
        "metadata": ["169.254.169.254"],
        "six": ["::1"],
        "mapped": ["::ffff:127.0.0.1"],
        "nat64": ["64:ff9b::7f00:1"],
        "sixtofour": ["2002:7f00:1::1"],
        "zero": ["0.0.0.0"],
        "mixed": ["8.8.8.8", LOOPBACK],
        "scoped": ["fe80::1%lo"],
        "nonsense": ["/var/run/docker.sock"],
        "none": [],
    }.items():
        names.point(f"{host}.example", answers)
    names.point("example.com", [LOOPBACK])
    return names


@asynccontextmanager
async def guarded(bird: Canary, names: Names) -> AsyncIterator[Crawler]:
    """A crawler as in production, but for the canary's port and the resolver."""
    settings = CrawlSettings(rules=WebRules(ports={80, 443, bird.port}), host_delay_s=0.0, retry_pauses_s=())
    async with open_crawler(settings, resolve=names.resolve) as crawler:
        yield crawler


def test_the_list_is_long_enough() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= 60


@pytest.mark.time_limit(60)
async def test_no_hostile_url_makes_a_connection() -> None:
    watch = SocketWatch()
    async with canary() as bird, guarded(bird, inside_names()) as crawler:
        trio.socket.set_custom_socket_factory(watch)
        for hostile in HOSTILE:
            url = hostile.replace("{port}", str(bird.port))
            outcome = await crawler.crawl_url(url)
            assert outcome.status is CrawlStatus.FAILED, url
            assert outcome.result is None, url
            assert watch.made == 0, url
        assert bird.visits == 0


async def test_the_watch_and_the_canary_would_notice_a_visit() -> None:
    watch = SocketWatch()
    async with canary() as bird:
        trio.socket.set_custom_socket_factory(watch)
        settings = crawl_settings(bird.port, retry_pauses_s=())
        async with open_crawler(settings, resolve=Names().resolve) as crawler:
            await crawler.crawl_url(f"http://127.0.0.1:{bird.port}/")
        assert bird.visits > 0
        assert watch.made > 0


@pytest.mark.parametrize(
    "target",
    [
        *("http://127.0.0.2:{port}/", "http://169.254.169.254/latest/", "http://[::1]:{port}/", "http://10.0.0.1/"),
        *("//127.0.0.2:{port}/", "http://2130706434:{port}/", "http://localhost:{port}/", "file:///etc/passwd"),
        *("http://user:pw@127.0.0.2:{port}/", "http://inside.example:{port}/", "http://[64:ff9b::7f00:2]:{port}/"),
        *("https://127.0.0.2:{port}/", "gopher://127.0.0.2:{port}/"),
    ],
)
async def test_wb_03_a_redirect_to_an_inside_address_is_refused(target: str) -> None:
    names = Names()
    names.point("inside.example", ["127.0.0.2"])
    async with website() as site:
        watch = SocketWatch()
        to = target.replace("{port}", str(site.port))
        site.serve("/start", redirect(to))
        listeners = await trio.open_tcp_listeners(site.port, host="127.0.0.2")
        visits = 0

        async def sing(stream: trio.SocketStream) -> None:
            nonlocal visits
            visits += 1
            await trio.aclose_forcefully(stream)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, sing, listeners)
            settings = crawl_settings(site.port, rules={"allow": (f"{LOOPBACK}/32",)}, retry_pauses_s=())
            async with open_crawler(settings, resolve=names.resolve) as crawler:
                trio.socket.set_custom_socket_factory(watch)
                outcome = await crawler.crawl_url(f"{site.url}/start")
            nursery.cancel_scope.cancel()
        assert (outcome.status, outcome.block_type) == (CrawlStatus.FAILED, "policy")
        assert site.pages == ["/start"]
        assert visits == 0
        assert watch.made <= 2  # both to the site: its rules, its page


async def crawl_rebinding(*answers: list[str]) -> tuple[CrawlOutcome, CrawlOutcome, list[str], int]:
    """Two crawls of a site whose every connection is closed, so that the name is looked up again and again."""
    names = Names()
    async with website() as site, canary() as bird:
        names.point("rebind.example", *answers)
        for path in ("/robots.txt", "/a", "/b"):
            site.serve(path, page(article() if path != "/robots.txt" else "", headers={"connection": "close"}))
        settings = crawl_settings(site.port, bird.port, rules={"allow": (f"{LOOPBACK}/32",)}, retry_pauses_s=())
        async with open_crawler(settings, resolve=names.resolve) as crawler:
            first = await crawler.crawl_url(f"http://rebind.example:{site.port}/a")
            second = await crawler.crawl_url(f"http://rebind.example:{site.port}/b")
        return first, second, site.pages, bird.visits


async def test_wb_03_a_name_that_turns_inside_between_two_connections_is_refused() -> None:
    """Public for the rules and the first page, inside for the second."""
    first, second, pages, visits = await crawl_rebinding([LOOPBACK], [LOOPBACK], ["127.0.0.2"])
    assert first.status is CrawlStatus.SUCCESS
    assert (second.status, second.block_type) == (CrawlStatus.FAILED, "policy")
    assert pages == ["/a"]
    assert visits == 0


async def test_wb_03_a_connection_needs_one_look_up_only() -> None:
    """Whoever checks first and connects by name afterwards asks twice, and the second answer is the trap."""
    names = Names()
    async with website() as site:
        names.point("once.example", [LOOPBACK], ["127.0.0.2"])
        site.serve("/a", page(article()))
        settings = crawl_settings(site.port, rules={"allow": (f"{LOOPBACK}/32",)}, obey_robots=False)
        async with open_crawler(settings, resolve=names.resolve) as crawler:
            assert (await crawler.crawl_url(f"http://once.example:{site.port}/a")).status is CrawlStatus.SUCCESS
    assert names.asked == ["once.example"]


async def test_one_inside_address_among_the_answers_refuses_the_name() -> None:
    first, _, pages, visits = await crawl_rebinding([LOOPBACK, "10.0.0.1"])
    assert (first.status, first.block_type) == (CrawlStatus.FAILED, "policy")
    assert pages == []
    assert visits == 0


def certificate(folder: Path, host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server that is ``host``, and of a client that trusts it alone."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / "cert.pem", folder / "key.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(pem, secret)
    return server, ssl.create_default_context(cafile=str(pem))


async def test_the_certificate_is_checked_for_the_name_and_not_for_the_address(tmp_path: Path) -> None:
    server, trust = certificate(tmp_path, "veilig.example")
    asked: list[str | None] = []
    server.sni_callback = lambda _, name, __: asked.append(name)
    names = Names()
    for host in ("veilig.example", "ander.example"):
        names.point(host, [LOOPBACK])
    async with website(tls=server) as site:
        site.serve("/a", page(article()))
        settings = crawl_settings(site.port, retry_pauses_s=())
        async with open_crawler(settings, resolve=names.resolve, tls=trust) as crawler:
            good = await crawler.crawl_url(f"https://veilig.example:{site.port}/a")
            bad = await crawler.crawl_url(f"https://ander.example:{site.port}/a")
    assert good.status is CrawlStatus.SUCCESS
    assert bad.status is CrawlStatus.FAILED
    assert "certificate" in (bad.error or "")
    assert set(asked) == {"veilig.example", "ander.example"}
