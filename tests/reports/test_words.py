import pytest

from proxy.reports.words import counted, dollars, percent, signed, signed_percent, tokens


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (tokens(52_100), "52,100"),
        (tokens(0), "0"),
        (tokens(None), "n/a"),
        (counted(1, "call"), "1 call"),
        (counted(0, "call"), "0 calls"),
        (counted(1_200, "more line"), "1,200 more lines"),
        (dollars(0.99999), "$1.00"),
        (percent(26.05, 0), "26 %"),
        (percent(None), "n/a"),
        (dollars(1234.5), "$1,234.50"),
        (dollars(0.00421), "$0.0042"),
        (dollars(-0.5), "-$0.5000"),
        (dollars(-0.00001), "$0.0000"),
        (dollars(0.0), "$0.00"),
        (dollars(None), "n/a"),
    ],
)
def test_numbers_are_said_as_people_read_them(said, text):
    assert said == text


@pytest.mark.parametrize(
    ("error", "share", "text"),
    [(5, 0.0978, "+5 (+0.1 %)"), (-49_400, -40.36, "-49,400 (-40.4 %)"), (0, 0.0, "0 (0 %)"), (1, 0.0001, "+1 (0 %)")],
)
def test_c7_too_high_has_a_plus_too_low_a_minus_and_equal_neither(error, share, text):
    assert f"{signed(error)} ({signed_percent(share)})" == text


def test_c6_an_error_that_is_not_known_is_not_0():
    assert signed_percent(None) == "n/a"
