"""Against files of the older writer: the same texts give the same bytes.

The texts are taken out of the file, unfilled, and filled again; nothing but line filling and layout can differ.
"""

import re
from datetime import date

import pytest

from protocols.law import Article, Law, Layer, Preamble, Reference
from protocols.lawyaml import dump_law, load_law
from protocols.lawyaml.wrap import fill
from tests.kit import shared
from tests.kit.law_schema import assert_schema_valid
from tests.kit.yaml_readers import read_both


def unfilled(text: str) -> str:
    """A literal text before it was filled: single newlines, except between definitions, were spaces."""
    content, blank, definitions = text.partition("\n\n\n[ref1]: ")
    content = re.sub(r"(?<!\n)\n(?!\n|- )", " ", content)
    return f"{content}\n\n[ref1]: {definitions}" if blank else content


def rebuilt(source: str, title: str) -> Law:
    read = load_law(source)
    return Law(
        title=title,
        layer=Layer(read["regulatory_layer"]),
        publication_date=date.fromisoformat(read["publication_date"]),
        valid_from=date.fromisoformat(read["valid_from"]),
        valid_to=date.fromisoformat(read["valid_to"]) if "valid_to" in read else None,
        url=read["url"],
        bwb_id=read["bwb_id"],
        preamble=Preamble(**read["preamble"]) if "preamble" in read else None,
        articles=tuple(
            Article(a["number"], unfilled(a["text"]), a["url"], tuple(Reference(**r) for r in a.get("references", ())))
            for a in read["articles"]
        ),
    )


@pytest.mark.claim("S0-030")
def test_a_whole_law_in_leaf_style_has_the_bytes_of_the_older_writer() -> None:
    golden = shared.path("data/bwb/BWBR0018451/expected/2025-01-01.leaf.yaml").read_text(encoding="utf-8")
    assert dump_law(rebuilt(golden, "Wet op de zorgtoeslag ")) == golden
    assert_schema_valid(golden)
    assert read_both(golden) == load_law(golden)


def test_the_worked_example_of_article_style_has_its_bytes() -> None:
    chapter = shared.path("spec/harvester.md").read_text(encoding="utf-8").partition("## 17.")[2]
    expected = chapter.partition("```yaml\n")[2].partition("```")[0]
    assert dump_law(rebuilt(expected, "Bakfietswet 2024 ")) == expected


def test_a_law_without_articles_has_the_layout_of_the_older_writer() -> None:
    name = "data/bwb/corpus_samples/aanwijzing_toezichthoudende_ambtenaren_1997-03-02.yaml"
    golden = shared.path(name).read_text(encoding="utf-8")
    ours = dump_law(rebuilt(golden, "Aanwijzing toezichthoudende ambtenaren"))
    assert ours == re.sub(r"v0\.7\.1", "v0.5.6", golden)


def test_paragraphs_of_another_law_break_where_the_older_writer_broke_them() -> None:
    law = load_law(shared.path("data/bwb/corpus_samples/BWBR0047628_2022-12-15.yaml").read_bytes())
    paragraphs = [
        paragraph.strip("\n")
        for entry in (law["preamble"], *law["articles"])
        for block in entry["text"].split("\n\n")
        # its hand-indented definition lists were filled before they were indented
        for paragraph in re.split(r"\n(?=\[ref[0-9]+\]: )|(?:^|\n)(?=  - )", block)
        if "\n" in paragraph.strip("\n") and not paragraph.startswith("  - ")
    ]
    assert len(paragraphs) > 80
    assert [fill(paragraph.replace("\n", " ")) for paragraph in paragraphs] == paragraphs


@pytest.mark.parametrize("name", ["BWBR0018451", "BWBR0018472"])
def test_curated_corpus_files_are_read(name: str) -> None:
    law = load_law(shared.path(f"data/bwb/{name}/corpus_enriched/2025-01-01.yaml").read_bytes())
    assert all(isinstance(article["number"], str) for article in law["articles"])
    assert any("machine_readable" in article for article in law["articles"])
