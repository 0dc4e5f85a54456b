"""The control channel is open to anyone who may connect: known messages come back, everything else is nothing."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols import control


@given(st.uuids())
def test_a_cancel_hint_survives_the_way(job_id: object) -> None:
    hint = control.CancelHint(job_id)  # type: ignore[arg-type]
    assert control.parse(control.render(hint)) == hint


def test_a_change_of_pauses_survives_the_way() -> None:
    assert control.parse(control.render(control.PausesChanged())) == control.PausesChanged()


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "cancel",
        "[]",
        "null",
        '{"cancel": 7}',
        '{"cancel": "no uuid"}',
        f'{{"drop": "{UUID("6f9d0f1e-6a43-4a08-9f0c-0d4a3c1b7e55")}"}}',
        "[" * 7999,
    ],
)
def test_noise_is_nothing(payload: str) -> None:
    assert control.parse(payload) is None


@given(st.text())
def test_no_text_raises(payload: str) -> None:
    control.parse(payload)
