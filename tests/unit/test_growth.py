"""The judgement about growth: flat with noise is flat, a slow leak is a leak."""

from __future__ import annotations

import os

import pytest

from tests.kit.growth import Vitals, grown, growth, vitals


def sample(files: int, rss_bytes: int = 100_000_000) -> Vitals:
    return Vitals(files, 4, rss_bytes, 0, 40)


def test_a_peak_and_some_noise_are_no_growth() -> None:
    samples = [sample(20 + n % 3) for n in range(30)]
    samples[25] = sample(400)
    assert grown(samples) == {}


def test_warming_up_is_no_growth() -> None:
    assert grown([sample(20, 1_000_000 * min(n, 10)) for n in range(1, 31)]) == {}


def test_a_slow_leak_is_growth_and_is_named() -> None:
    samples = [sample(20 + n, 100_000_000 + n * 5_000_000) for n in range(30)]
    assert set(grown(samples)) == {"files", "rss_bytes"}
    assert growth(samples)["threads"] == 1


def test_a_handful_of_samples_says_nothing() -> None:
    with pytest.raises(ValueError, match="too few"):
        growth([sample(1)] * 8)


def test_the_figures_of_a_real_process_are_read() -> None:
    before = vitals(os.getpid())
    descriptors = [os.open("/dev/null", os.O_RDONLY) for _ in range(5)]
    try:
        after = vitals(os.getpid())
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    assert after.files == before.files + 5
    assert before.rss_bytes > 1_000_000
    assert before.threads >= 1
