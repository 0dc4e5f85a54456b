"""Which addresses are visited: by the URL, and by the network address behind it."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.webpolicy import (
    MAX_URL_BYTES,
    AddressRefused,
    UrlRefused,
    WebRules,
    ascii_url,
    check_address,
    parse_url,
)

RULES = WebRules()

PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "2a00:1450:400e:80c::200e"]

SPECIAL = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.254", "127.0.0.1", "127.255.0.1"),
    *("169.254.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.7"),
    *("192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.1.1", "192.175.48.1", "198.18.0.1", "198.19.255.1"),
    *("198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("168.63.129.16", "100.100.100.200"),  # metadata services that look public, or nearly
    *("::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1"),
    *("64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2002:808:808::1"),  # D71
    *("100::1", "2001::1", "2001:0:53aa:64c::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "3fff::1"),
    *("2620:4f:8000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fdff::1", "fe80::1", "fec0::1", "ff02::1", "ff0e::1"),
    *("4000::1", "8000::1", "fe80::1%eth0"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_reached(address: str) -> None:
    assert str(check_address(address, RULES)) == address


@pytest.mark.parametrize("address", SPECIAL)
def test_every_special_range_is_refused(address: str) -> None:
    with pytest.raises(AddressRefused):
        check_address(address, RULES)


def test_a_mapped_address_is_judged_and_dialled_as_what_it_maps() -> None:
    assert check_address("::ffff:8.8.8.8", RULES) == ip_address("8.8.8.8")
    loopback = WebRules(allow=("127.0.0.0/8",))
    assert check_address("::ffff:127.0.0.1", loopback) == ip_address("127.0.0.1")


def test_denied_networks_win_over_allowed_ones_and_over_the_public_internet() -> None:
    rules = WebRules(deny=("8.8.8.0/24", "127.0.0.2/32"), allow=("127.0.0.0/8", "8.8.8.8/32"))
    check_address("127.0.0.1", rules)
    for address in ("8.8.8.8", "127.0.0.2"):
        with pytest.raises(AddressRefused, match="denied"):
            check_address(address, rules)


@given(st.ip_addresses())
def test_nothing_that_the_standard_library_calls_private_is_ever_reached(address: object) -> None:
    try:
        reached = check_address(str(address), RULES)
    except AddressRefused:
        return
    assert reached.is_global
    assert not any((reached.is_private, reached.is_loopback, reached.is_link_local, reached.is_multicast))


@pytest.mark.parametrize(
    ("raw", "normal"),
    [
        ("HTTP://EXAMPLE.com", "http://example.com/"),
        ("  https://example.com:443/a#part ", "https://example.com/a"),
        ("http://example.com:443/", "http://example.com:443/"),
        ("http://example.com./x", "http://example.com/x"),
        ("http://bücher.example/ü?q=é b", "http://xn--bcher-kva.example/%C3%BC?q=%C3%A9%20b"),
        ("http://example.com/a/../b/./c/..", "http://example.com/b/"),
        ("http://example.com/%2e%2E/a", "http://example.com/a"),
        ("http://example.com//a//b", "http://example.com//a//b"),
        ("http://example.com?x=/../y", "http://example.com/?x=/../y"),
        ("http://[2A00:1450:0:0::1]:80/", "http://[2a00:1450::1]/"),
        ("http://example.com/%41%zz", "http://example.com/%41%zz"),
        ("http://foo_bar.example.com/", "http://foo_bar.example.com/"),
    ],
)
def test_a_url_has_one_normal_form(raw: str, normal: str) -> None:
    assert ascii_url(raw) == normal
    assert ascii_url(normal) == normal


@pytest.mark.parametrize(
    "raw",
    [
        *("", " ", "example.com", "/path", "//example.com/", "http:example.com", "http://", "http:///x"),
        *(
            "ftp://example.com/",
            "file:///etc/passwd",
            "gopher://example.com/",
            "javascript:alert(1)",
            "data:text/html,x",
        ),
        *(
            "http://user@example.com/",
            "http://user:pw@example.com/",
            "http://example.com\\@127.0.0.1/",
            "http://@example.com/",
        ),
        *("http://exa mple.com/", "http://example.com:99999/", "http://example.com:0/", "http://example.com:8a/"),
        *(
            "http://exam\nple.com/",
            "http://example.com/\x00",
            "http://example.com/\ud800",
            "http://example.com/a\u2028b",
        ),
        *("http://-example.com/", "http://ex..ample.com/", f"http://{'a' * 64}.com/", "http://%65xample.com/"),
        *("http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/"),
        *("http://127.0.0.01/", "http://1.2.3.4.5/", "http://256.1.1.1/", "http://example.123/", "http://１２７.1/"),
        *("http://[::1/", "http://[::1%25lo]/", "http://[v1.x]/", "http://[127.0.0.1]/", "http://[::ffff:0x7f.1]/"),
        f"http://example.com/{'a' * MAX_URL_BYTES}",
        f"http://example.com/{'é' * 400}",  # too long once it is ASCII
    ],
)
def test_what_can_be_refused_by_reading_it_is(raw: str) -> None:
    with pytest.raises(UrlRefused) as caught:
        ascii_url(raw)
    assert "pw" not in caught.value.message


@pytest.mark.parametrize(
    "raw",
    [
        *(
            "http://localhost/",
            "http://localhost./",
            "http://a.localhost/",
            "http://intranet/",
            "http://printer.local/",
        ),
        *("http://metadata.google.internal/", "http://x.home.arpa/", "http://db.corp/", "http://ⓛocalhost/"),
        *(
            "http://127.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:7f00:1]/",
            "http://169.254.169.254/latest",
            "http://10.1.2.3/",
        ),
        *("http://example.com:22/", "http://example.com:8080/", "https://example.com:25/"),
    ],
)
def test_inside_names_literal_addresses_and_other_ports_are_refused_before_the_network(raw: str) -> None:
    assert ascii_url(raw)
    with pytest.raises(UrlRefused):
        parse_url(raw, RULES)


def test_a_public_literal_address_and_a_configured_port_are_visited() -> None:
    url = parse_url("http://8.8.8.8:8080/x", WebRules(ports={80, 8080}))
    assert (url.host, url.port, url.origin) == ("8.8.8.8", 8080, "http://8.8.8.8:8080")
    assert parse_url("https://[2606:4700::1]/", RULES).origin == "https://[2606:4700::1]:443"


def test_the_robots_address_keeps_the_origin_and_nothing_else() -> None:
    url = parse_url("http://example.com:8080/a/b?token=1", WebRules(ports={8080}))
    assert url.at("/robots.txt").text == "http://example.com:8080/robots.txt"


@given(st.text(max_size=80))
def test_any_text_is_a_normal_url_or_refused(raw: str) -> None:
    for candidate in (raw, f"http://{raw}", f"http://example.com/{raw}"):
        try:
            normal = ascii_url(candidate)
        except UrlRefused:
            continue
        assert normal.isascii()
        assert len(normal) <= MAX_URL_BYTES
        assert "#" not in normal
        assert ascii_url(normal) == normal


def test_networks_that_are_none_are_refused_where_they_are_configured() -> None:
    with pytest.raises(ValueError, match="300"):
        WebRules(deny=("300.0.0.0/8",))
