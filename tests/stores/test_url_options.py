"""Options behind the store's URL: which there are, and how long a call waits."""

import pytest

from proxy.errors import SettingsError
from proxy.stores.url_options import options_of, patience_of


def test_options_are_read_by_name_and_patience_is_taken_out():
    options = options_of("timeout_s=2.5&ca=/a%20b", ["ca"])

    assert patience_of(options, 1.0) == 2.5
    assert options == {"ca": "/a b"}
    assert patience_of(options, 1.0) == 1.0


def test_an_unknown_option_is_named_beside_those_that_are_known():
    with pytest.raises(SettingsError, match=r"unknown option 'mode'; known here: timeout_s, ca$"):
        options_of("mode=ro", ["ca"])


@pytest.mark.parametrize("text", ["", "soon", "0", "30.1", "nan", "inf", "-1"])
def test_a_patience_that_is_no_number_of_seconds_in_reach_is_refused(text):
    with pytest.raises(SettingsError, match=r"timeout_s is a number of seconds from 0\.01 to 30"):
        patience_of({"timeout_s": text}, 1.0)
