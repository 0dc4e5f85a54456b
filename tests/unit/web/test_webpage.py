"""Bytes of a page to Markdown and metadata: charsets, hostile markup, the main part and its repair."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.webpage.charset import decode
from protocols.webpage.extract import Extracted, PageLimits, RawPage, extract
from protocols.webpage.markdown import render
from protocols.webpage.tree import parse, sanitise, visible_text
from protocols.webpage.words import has_amounts, has_content, one_line, tidy
from tests.kit.website import article

URL = "https://example.com/uitleg/toeslag"
LIMITS = PageLimits(max_text_bytes=2_000_000, shell_html_bytes=400_000, min_content_chars=1)


STORY = "".join(
    f"<p>Een lang verhaal over {thing} zonder een enkel getal, dat de aandacht van ieder programma trekt.</p>"
    for thing in ("huizen", "wegen", "bomen", "dijken", "scholen", "markten", "bruggen", "molens", "sluizen", "pleinen")
)


def extracted(body: str | bytes, content_type: str = "text/html; charset=utf-8", **limits: int) -> Extracted:
    content = body.encode() if isinstance(body, str) else body
    values = {"max_text_bytes": 2_000_000, "shell_html_bytes": 400_000, "min_content_chars": 1, **limits}
    return extract(RawPage(URL, content_type, content), PageLimits(**values))


def markdown(body: str) -> str:
    """What our own rendering makes of a body."""
    tree = parse(f"<html><body>{body}</body></html>")
    assert tree is not None
    return render(sanitise(tree, URL))


# -- charset ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("é€".encode(), "text/html"),
        ("é€".encode(), "text/html; charset=UTF-8"),
        ("é€".encode("cp1252"), "text/html; charset=iso-8859-1"),  # the web means the Windows code page
        ("é€".encode("cp1252"), 'text/html; Charset="windows-1252"'),
        (codecs.BOM_UTF8 + "é€".encode(), "text/html; charset=iso-8859-1"),
        (codecs.BOM_UTF16_LE + "é€".encode("utf-16-le"), "text/html; charset=utf-8"),
        (codecs.BOM_UTF16_BE + "é€".encode("utf-16-be"), "text/html"),
        (b"<meta charset=windows-1252>" + "é€".encode("cp1252"), "text/html"),
        (b'<meta http-equiv=x content="text/html; charset=iso-8859-15">' + "é€".encode("iso8859-15"), "text/html"),
        (b'<?xml version="1.0" encoding="windows-1252"?>' + "é€".encode("cp1252"), "application/xhtml+xml"),
        (b"<meta charset=utf-16>" + "é€".encode(), "text/html"),
        (b"<meta charset=rot13>" + "é€".encode(), "text/html"),
        ("é€".encode(), "text/html; charset=base64"),
        ("é€".encode(), "text/html; charset=no-such-thing"),
    ],
)
def test_the_charset_comes_from_mark_header_meta_or_is_utf_8(body: bytes, content_type: str) -> None:
    assert decode(body, content_type, look_inside=True).endswith("é€")


def test_the_header_wins_over_the_page_and_damage_is_replaced() -> None:
    assert decode(b"<meta charset=windows-1252>\xc3\xa9", "text/html; charset=utf-8", look_inside=True).endswith("é")
    assert decode(b"a\xffb", "text/html; charset=utf-8", look_inside=True) == "a\ufffdb"
    assert decode(b"<meta charset=windows-1252>\xe9", "text/plain", look_inside=False).endswith("\ufffd")


# -- what a reader sees -----------------------------------------------------------------------------------------------


def test_what_acts_hides_or_leads_around_the_site_is_not_seen() -> None:
    body = (
        "<nav>menu</nav><div role='navigation'>menu</div><header>kop</header><aside>zij</aside><footer>voet</footer>"
        "<script>alert('x')</script><style>p{}</style><noscript>geen</noscript><template>t</template><svg><text>s</text></svg>"
        "<iframe>f</iframe><p hidden>weg</p><p style='DISPLAY : none'>weg</p><p style='visibility:hidden'>weg</p>"
        "<p aria-hidden='true'>weg</p><!-- opmerking --><?pi x?>"
        "<main><header>binnenkop</header><p>zichtbaar</p><aside>binnenzij</aside><footer>binnenvoet</footer></main>staart"
    )
    tree = parse(f"<html><body>{body}</body></html>")
    assert tree is not None
    assert visible_text(sanitise(tree, URL)) == "binnenkop zichtbaar binnenzij binnenvoet staart"


def test_links_become_absolute_and_those_that_act_are_only_text() -> None:
    body = (
        '<p><a href="../bijlage">een</a> <a href="//cdn.example.org/x">twee</a> <a href="javascript:alert(1)">drie</a> '
        '<a href=" DATA:text/html,x">vier</a> <a href="mailto:a@b.nl">vijf</a> <a href="http://[::1">zes</a></p>'
    )
    assert markdown(body) == (
        "[een](https://example.com/bijlage) [twee](https://cdn.example.org/x) drie vier [vijf](mailto:a@b.nl) zes"
    )
    based = parse("<html><head><base href='https://other.example/dir/'></head><body><a href='x'>x</a></body></html>")
    assert based is not None
    assert render(sanitise(based, URL)) == "[x](https://other.example/dir/x)"


# -- our own Markdown -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<h1>Kop</h1><h3> Onder <b>vet</b></h3>", "# Kop\n\n### Onder **vet**"),
        ("<p>een <em>twee </em>drie<br>vier</p>los", "een *twee* drie\nvier\n\nlos"),
        ("<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>", "- a\n  - b\n- c"),
        ("<ol><li>a</li><li><p>b</p><p>c</p></li></ol>", "1. a\n2. b\n\n   c"),
        ("<blockquote><p>a</p><p>b</p></blockquote>", "> a\n>\n> b"),
        ("<pre>x = 1\n  y < 2</pre>", "```\nx = 1\n  y < 2\n```"),
        ("<pre>```</pre><p><code>a`b</code></p>", "````\n```\n````\n\n`` a`b ``"),
        ("<img src=a.png alt='Een [plaat]'>", "![Een \\[plaat\\]](https://example.com/uitleg/a.png)"),
        ("<img src='data:image/png;base64,x' alt=weg>", "weg"),
        ("<hr><p>a</p>", "---\n\na"),
        (
            "<table><caption>T</caption><tr><th>J</th><th>B</th></tr><tr><td>1</td><td>€ 2|3<br>x</td></tr><tr><td>4</td></tr></table>",
            "T\n\n| J | B |\n| --- | --- |\n| 1 | € 2\\|3 x |\n| 4 |  |",
        ),
        ("<table><tr><td><p>alleen</p></td></tr><tr><td>opmaak</td></tr></table>", "alleen\n\nopmaak"),
        ("<div><div>a<p>b</p>c</div></div>", "a\n\nb\n\nc"),
        ("<p>*a* _b_ `c` [d](e) &lt;script&gt; \\</p>", "\\*a\\* \\_b\\_ \\`c\\` \\[d\\](e) \\<script> \\\\"),
        (
            "<p># a</p><p>1. b</p><p>- c</p><p>&gt; d</p><p>2024-01-02</p>",
            "\\# a\n\n1\\. b\n\n\\- c\n\n\\> d\n\n2024-01-02",
        ),
        ("<p>  veel \n\n blanks\xa0hier </p>", "veel blanks hier"),
        ("<a href=/x><div>blok</div></a>", "blok"),
    ],
)
def test_markdown_of_a_body(body: str, expected: str) -> None:
    assert markdown(body) == expected


@given(st.text(alphabet="<>/ab&;\"'=!-# \n[](*`|_\\", max_size=200))
def test_no_markup_of_a_page_comes_through_whatever_its_html(body: str) -> None:
    text = markdown(body)
    outside_code = "".join(text.replace("\\\\", "").split("`")[::2])
    assert "<" not in outside_code.replace("\\<", "")


# -- metadata ---------------------------------------------------------------------------------------------------------


def test_a_page_says_what_it_is_and_nothing_is_guessed() -> None:
    head = (
        "<title>Titel\n van de pagina</title><meta property='og:title' content='Open titel'><meta name=Description content='Kort.'>"
        "<meta name='DCTERMS.creator' content='Ministerie'><meta property='article:published_time' content='2024-05-01'>"
        "<link rel='canonical' href='/echt'>"
    )
    found = extracted(
        f"<html lang='nl-NL'><head>{head}</head><body><main><p>Op 3 maart 1999 was er tekst.</p></main></body></html>"
    )
    assert found.metadata == {
        "title": "Open titel",
        "description": "Kort.",
        "author": "Ministerie",
        "date": "2024-05-01",
        "language": "nl-NL",
        "canonical": "https://example.com/echt",
    }


@pytest.mark.parametrize(
    ("head", "body", "title"),
    [
        ("<title>T</title>", "<h1>H</h1>", "T"),
        ("<title> </title>", "<h1>H <b>x</b></h1>", "H x"),
        ("", "<p>x</p>", URL),
        (f"<title>{'x' * 900}\x07</title>", "<p>x</p>", "x" * 500),
    ],
)
def test_the_title_is_the_first_that_is_there_within_its_limit(head: str, body: str, title: str) -> None:
    assert extracted(f"<html><head>{head}</head><body>{body}</body></html>").metadata["title"] == title


# -- the whole way ----------------------------------------------------------------------------------------------------


def test_the_main_part_of_an_article_becomes_markdown() -> None:
    found = extracted(article())
    assert found.problem == ""
    assert found.content.startswith("# Zorgtoeslag\n\nDe toeslag bedraagt € 1.234,56 per jaar. Dit is alinea 1")
    assert "Home" not in found.content
    assert "Over deze site" not in found.content


def test_the_same_bytes_give_the_same_text() -> None:
    assert extracted(article()) == extracted(article())


def test_repeated_paragraphs_are_all_kept() -> None:
    body = "<p>Dit artikel is vervallen en blijft vervallen, telkens weer opnieuw.</p>" * 8
    assert extracted(f"<html><body><main>{body}</main></body></html>").content.count("vervallen en blijft") == 8


def test_a_part_without_the_amounts_of_the_page_is_not_the_main_part() -> None:
    fees = "<div class='sidebar'><span>Tarief: € 12,50</span></div>"
    found = extracted(f"<html><body><article>{STORY}</article>{fees}</body></html>")
    assert "€ 12,50" in found.content
    assert found.content.count("lang verhaal") == 10


def test_a_part_without_the_tables_of_the_page_is_not_the_main_part() -> None:
    table = "<div class='related'><table><tr><th>Jaar</th><th>Norm</th></tr><tr><td>2024</td><td>twaalf</td></tr></table></div>"
    found = extracted(f"<html><body><article>{STORY}</article>{table}</body></html>")
    assert "| 2024 | twaalf |" in found.content


@pytest.mark.parametrize(
    "body",
    [
        "",
        "   ",
        "<html></html>",
        "<html><body></body></html>",
        "<html><body><script>var a = 'veel tekst'</script></body></html>",
        "<html><body><nav>alleen menu</nav></body></html>",
        "<html><body><p>— · —</p></body></html>",
        "\x00\x00",
    ],
)
def test_a_page_without_content_says_so(body: str) -> None:
    assert extracted(body) == Extracted(problem="No content extracted")


def test_the_least_content_can_be_raised() -> None:
    page = "<html><body><main><p>kort</p></main></body></html>"
    assert extracted(page).content == "kort"
    assert extracted(page, min_content_chars=5).problem == "No content extracted"


@pytest.mark.parametrize("media_type", ["application/pdf", "image/png", "application/json", "text/css", ""])
def test_other_types_are_not_content(media_type: str) -> None:
    assert extracted(b"%PDF-1.7 iets", media_type).problem == f"unsupported content type {media_type or 'unknown'}"


def test_a_page_without_a_type_is_known_by_its_first_bytes() -> None:
    assert extracted(article(), "").metadata["title"] == "Zorgtoeslag"


def test_plain_text_and_markdown_pass_through_without_control_characters() -> None:
    text = "# Kop\r\n\r\n\r\n\r\nregel\x00 <b>een</b>\rtwee\x1b[31m"
    assert extracted(text, "text/markdown").content == "# Kop\n\nregel <b>een</b>\ntwee[31m"
    assert extracted(text, "text/markdown").metadata == {"title": "Kop"}
    assert extracted(text, "text/plain; charset=utf-8").metadata == {"title": URL}


def test_a_page_that_a_browser_must_draw_first_is_recognised() -> None:
    script = f"<script>{'x' * 500_000}</script>"
    assert extracted(f"<html><body><div>Laden</div>{script}</body></html>").shell
    assert not extracted("<html><body><div>Laden</div></body></html>").shell
    assert not extracted(f"<html><body><p>{'woord ' * 2000}</p>{script}</body></html>").shell


def test_what_is_too_large_to_extract_is_refused_and_scripts_do_not_count() -> None:
    assert extracted(f"<script>{'x' * 3_000_000}</script>{article()}").problem == ""
    assert "too large" in extracted(f"<html><body>{'<p>woord en woord</p>' * 150_000}</body></html>").problem
    assert "more than" in extracted("woord " * 400_000, "text/plain").problem


def test_entities_are_not_expanded_and_no_file_is_read() -> None:
    bomb = (
        '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "haha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>'
        "<html><body><p>tekst &b; &f;</p></body></html>"
    )
    content = extracted(bomb, "application/xhtml+xml").content
    assert "tekst" in content
    assert "haha" not in content
    assert "root:" not in content


def test_deep_nesting_is_cut_off_and_does_not_break() -> None:
    assert extracted("<html><body>" + "<div>" * 30_000 + "diep").problem == "No content extracted"
    assert "ondiep" in extracted("<html><body><p>ondiep</p>" + "<b>" * 30_000 + "diep").content


@given(st.binary(max_size=300))
def test_any_bytes_are_content_or_a_problem(body: bytes) -> None:
    found = extract(RawPage(URL, "text/html", body), LIMITS)
    assert bool(found.content) != bool(found.problem)
    assert "\x00" not in found.content


# -- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["€ 12", "€12,50", "12 euro", "EUR 1.000", "12,- euro", "$5", "1.234,56 €", "€ -3"])
def test_amounts_are_recognised(text: str) -> None:
    assert has_amounts(f"kost {text} per jaar")


@pytest.mark.parametrize("text", ["artikel 12", "europa 12", "2024", "12 europeanen", "€"])
def test_other_numbers_are_no_amounts(text: str) -> None:
    assert not has_amounts(text)


def test_tidy_and_one_line_leave_nothing_that_a_database_or_a_terminal_minds() -> None:
    assert tidy("a\x00b\ud800\n \n\t\n\nc\u2028d ") == "ab\n\nc\nd"
    assert one_line("a\x1b[2J\n b\u2029c", 7) == "a [2J b"
    assert has_content("_a1 é€ — 三", 4)
    assert not has_content("_a1 é€ — 三", 5)
