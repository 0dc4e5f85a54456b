"""Where the files of a law stand."""

from pathlib import PurePosixPath

from protocols.law import Layer
from protocols.lawyaml.files import draft_file, law_file, status_file
from tests.unit.test_law import a_law


def test_a_law_stands_under_layer_slug_and_date() -> None:
    law = a_law(title="Regeling steps", layer=Layer.MINISTERIELE_REGELING)
    assert law_file(law) == PurePosixPath("regulation/nl/ministeriele_regeling/regeling_steps/2024-02-01.yaml")
    assert law_file(law, "regulation") == PurePosixPath(
        "regulation/ministeriele_regeling/regeling_steps/2024-02-01.yaml"
    )


def test_status_and_draft_stand_beside_it() -> None:
    file = law_file(a_law())
    assert status_file(file) == PurePosixPath("regulation/nl/wet/stepwet/status.yaml")
    assert draft_file(file) == PurePosixPath("regulation/nl/wet/stepwet/.2024-02-01.yaml.tmp")
