from typing import Annotated, Literal

import pytest
from msgspec import Meta

from proxy.settings.kinds import WrongValue, convert, expectation

Count = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(gt=0)]
Names = tuple[str, ...]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (bool, "true", True),
        (bool, "0", False),
        (Count, "12", 12),
        (Share, "0.5", 0.5),
        (Count | Literal["learned"], "learned", "learned"),
        (Count | Literal["learned"], "7", 7),
        (Count | None, "5", 5),
        (str, "", ""),
        (Names, "a, b,", ("a", "b")),
        (Names, '["a,b", "c"]', ("a,b", "c")),
        (Names, "", ()),
    ],
)
def test_text_is_read_as_what_the_setting_wants(kind, text, value):
    assert convert(kind, text, is_text=True) == value


@pytest.mark.parametrize(("kind", "value"), [(bool, True), (Share, 1), (Names, ["a"]), (Count, 3)])
def test_what_a_file_says_is_taken_as_it_is(kind, value):
    converted = convert(kind, value, is_text=False)

    assert converted == (tuple(value) if isinstance(value, list) else value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (bool, "true"),
        (bool, 1),
        (Count, "3"),
        (Count, 0),
        (Count, True),
        (Share, 1.5),
        (Share, float("nan")),
        (Seconds, float("inf")),
        (Names, "a"),
        (Names, [1]),
        (str, 5),
        (str, {"a": 1}),
    ],
)
def test_a_file_must_use_the_right_type(kind, value):
    with pytest.raises(WrongValue):
        convert(kind, value, is_text=False)


@pytest.mark.parametrize(
    ("kind", "text"), [(bool, ""), (bool, "yes please"), (Count, "x"), (Share, "nan"), (Names, "[1"), (Count, "1.5")]
)
def test_text_that_fits_nothing_is_refused(kind, text):
    with pytest.raises(WrongValue):
        convert(kind, text, is_text=True)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (bool, "true or false"),
        (str, "a text in quotes"),
        (int, "a whole number"),
        (Count, "a whole number of at least 1"),
        (Share, "a number from 0 to 1"),
        (Seconds, "a number over 0"),
        (Names, 'a list of texts, like ["a", "b"]'),
        (Literal["b", "a"], 'one of "a", "b"'),
        (Count | Literal["learned"], 'a whole number of at least 1, or "learned"'),
        (Count | None, "a whole number of at least 1"),
    ],
)
def test_what_to_write_is_said_in_words(kind, said):
    assert expectation(kind) == said
