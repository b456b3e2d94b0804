"""Rows of words and numbers, and bars, on a terminal of any width."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_BAR_WIDTH = 64
_LEAST_WIDTH = 72
"""Of a terminal; with less, the longest table leaves its words no room."""


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
    """Rows whose first cells are words and whose others are numbers: a table, or a list where a table would break its words."""

    def __init__(self, *names: str, first: int = 1) -> None:
        self._names = names
        self._first = first
        self._rows: list[tuple[str, ...]] = []

    def add_row(self, *cells: str) -> None:
        """A cell for each name."""
        self._rows.append(cells)

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """See rich."""
        if options.max_width >= _LEAST_WIDTH:
            yield self._table()
            return
        for cells in self._rows:
            yield ", ".join(" ".join(cell.split()) for cell in cells[: self._first])
            numbers = zip(self._names[self._first :], cells[self._first :], strict=True)
            yield Padding(", ".join(f"{name} {cell}" for name, cell in numbers), (0, 0, 0, 2))

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for number, name in enumerate(self._names):
            is_number = number >= self._first
            table.add_column(name, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number)
        for cells in self._rows:
            table.add_row(*cells)
        return table
