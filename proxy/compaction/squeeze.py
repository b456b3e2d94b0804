"""Results that no model has seen yet and that are too much together, though none is too large alone."""

from collections.abc import Sequence

UNSEEN_SHARE = 0.6
"""Of the usable window: what unseen results may take together, so that a summary of the rest still fits beside them."""


def level(sizes: Sequence[int], room: int) -> int:
    """The size to which each is cut so that all together fit; the largest one where they fit as they are.

    Small ones stay whole: what they leave free goes to the larger ones.
    """
    left = room
    rising = sorted(sizes)
    for number, size in enumerate(rising):
        share = left // (len(rising) - number)
        if size > share:
            return max(0, share)
        left -= size
    return rising[-1] if rising else 0
