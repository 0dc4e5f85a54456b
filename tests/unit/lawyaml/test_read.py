"""Reading law YAML: typed like YAML 1.2, hardened against hostile files."""

import pytest

from protocols.lawyaml import UnreadableLaw, load_law, load_yaml


def test_values_have_the_types_of_yaml_1_2() -> None:
    source = (
        "a: 8:36\nb: 2024-01-01\nc: no\nd: on\ne: 012\nf: 1_000\ng: true\nh: 12\ni: 0x1F\nj: 0o17\n"
        "k: 1.50\nl: null\nm: ~\nn: 24e1\no: .inf\np: y\nq: -3\nr: <<\n"
    )
    assert load_law(source) == {
        "a": "8:36", "b": "2024-01-01", "c": "no", "d": "on", "e": 12, "f": "1_000", "g": True, "h": 12, "i": 31, "j": 15,
        "k": 1.5, "l": None, "m": None, "n": 240.0, "o": float("inf"), "p": "y", "q": -3, "r": "<<",
    }  # fmt: skip


def test_text_and_bytes_are_read_alike() -> None:
    assert load_law("naam: één") == load_law("naam: één".encode()) == {"naam": "één"}


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("a: [1", "line 2, column 1"),
        ("a: b: c", "line 1, column 5"),
        ("a: 1\na: 2", "key 'a' twice"),
        ("a: 1\n---\nb: 2", "single document|another document"),
        ("- a", "list"),
        ("", "NoneType"),
        ("1: a", "names as keys"),
        ("? [a]\n: b", "list or a mapping"),
        ("a: !!python/object/apply:os.system ['true']", "tag"),
        ("a: !!int x", "not readable"),
        ("a: \x07", "not readable"),
        (b"a: \xff\xfe\xfa", "not readable"),
        ("a: *b", "undefined alias|refers to nothing"),
        ("a: " + "9" * 5000, "not readable"),
        ("[" * 100_000, "nesting depth"),
        ("a:\n" + "- " * 100_000 + "x", "nesting depth"),
    ],
)
def test_what_is_no_law_file_is_refused_with_the_reason(source: str | bytes, told: str) -> None:
    with pytest.raises(UnreadableLaw, match=told):
        load_law(source)


def test_a_message_does_not_repeat_the_text_of_the_file() -> None:
    with pytest.raises(UnreadableLaw) as caught:
        load_law("token: geheim-woord-123\nb: [")
    assert "geheim" not in str(caught.value)


def test_a_file_above_the_size_limit_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(UnreadableLaw, match="at most 10"):
        load_law("aaaaaaa: [[[", max_bytes=10)


def test_a_few_aliases_are_fine() -> None:
    assert load_law("a: &x [1, 2]\nb: *x\n") == {"a": [1, 2], "b": [1, 2]}


def test_a_billion_laughs_file_is_refused() -> None:
    levels = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(UnreadableLaw, match="aliases"):
        load_law("\n".join(levels))


def test_thousands_of_aliases_are_refused() -> None:
    with pytest.raises(UnreadableLaw, match="aliases"):
        load_law("a: &x 1\nb:\n" + "  - *x\n" * 5000)


def test_a_collection_that_holds_itself_is_refused() -> None:
    with pytest.raises(UnreadableLaw, match="stands in"):
        load_law("a: &x\n  - *x\n")


def test_emphasis_and_ampersands_in_texts_are_not_taken_for_aliases() -> None:
    assert load_yaml("a: |-\n  - *stap:* B & W &\n  R&D\n") == {"a": "- *stap:* B & W &\nR&D"}
