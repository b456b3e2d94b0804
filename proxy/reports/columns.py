"""Rows of words and numbers, and bars, on a terminal of any width."""

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.text import Text

_BAR_WIDTH = 64
_GAP = 2
_LEAST_WORDS = 14
"""Columns to which a table's widest words may be narrowed: with less, a list reads better."""


class Bar:
    """How full a window is, each part as a share of it: used, kept free for something else, and free."""

    def __init__(self, *, used: float, kept: float) -> None:
        self._used = used
        self._kept = kept

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """See rich."""
        width = min(_BAR_WIDTH, options.max_width - 2)
        used = min(width, round(width * self._used))
        kept = min(width - used, round(width * self._kept))
        yield Text.assemble("[", ("#" * used, "cyan"), ("-" * kept, "yellow"), "." * (width - used - kept), "]")


class Columns:
    """Rows whose first cells are words and whose others are numbers: a table, or a list where a table would break its words.

    Where a table would be a little too wide, the words of a row that are too long for it stand on a line of their own, above
    the row's numbers. Of several lines in a first cell, the second and later ones stand below the row.
    """

    def __init__(self, *names: str, first: int = 1) -> None:
        self._names = names
        self._first = first
        self._rows: list[tuple[str, ...]] = []

    def add_row(self, *cells: str) -> None:
        """A cell for each name, with rich's markup."""
        self._rows.append(cells)

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """See rich."""
        widths = self._widths()
        excess = max(0, sum(widths) + _GAP * (len(widths) - 1) - options.max_width)
        widest = max(range(self._first), key=widths.__getitem__)
        if not excess or widths[widest] - excess >= _LEAST_WORDS:
            widths[widest] -= excess
            yield from self._table(widths)
            return
        for cells in self._rows:
            yield ", ".join(" ".join(cell.split()) for cell in cells[: self._first])
            numbers = zip(self._names[self._first :], cells[self._first :], strict=True)
            yield Padding(", ".join(f"{name} {cell}" for name, cell in numbers), (0, 0, 0, 2))

    def _widths(self) -> list[int]:
        columns = zip(self._names, *self._rows, strict=True)
        return [max(Text.from_markup(cell.partition("\n")[0]).cell_len for cell in column) for column in columns]

    def _table(self, widths: list[int]) -> Iterator[Text]:
        header = self._line(self._names, widths)
        header.stylize("bold")
        yield header
        for cells in self._rows:
            first, *below = cells[0].splitlines() or [""]
            words, numbers = (first, *cells[1 : self._first]), cells[self._first :]
            if any(Text.from_markup(word).cell_len > width for word, width in zip(words, widths, strict=False)):
                yield Text.from_markup((" " * _GAP).join(words))
                words = ("",) * self._first
            yield self._line((*words, *numbers), widths)
            yield from map(Text.from_markup, below)

    def _line(self, cells: Sequence[str], widths: list[int]) -> Text:
        texts = [Text.from_markup(cell) for cell in cells]
        for number, (text, width) in enumerate(zip(texts, widths, strict=True)):
            text.align("left" if number < self._first else "right", width)
        return Text(" " * _GAP).join(texts)
