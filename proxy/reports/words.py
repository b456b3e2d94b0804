"""Numbers as people read them."""

NOT_KNOWN = "n/a"


def tokens(count: int | None) -> str:
    """52,100; n/a for None."""
    return NOT_KNOWN if count is None else f"{count:,}"


def counted(count: int, one: str) -> str:
    """1 call, 2 calls."""
    return f"{tokens(count)} {one}{'' if count == 1 else 's'}"


def percent(share: float | None, digits: int = 1) -> str:
    """26.1 %; n/a for None. What rounds to nothing keeps no sign."""
    return NOT_KNOWN if share is None else f"{round(share, digits) + 0.0:.{digits}f} %"


def signed(count: int) -> str:
    """+5, -5, 0."""
    return f"{count:+,}" if count else "0"


def signed_percent(share: float | None, digits: int = 1) -> str:
    """+0.1 %, -40.4 %, 0 %; n/a for None. What rounds to nothing keeps no sign."""
    if share is None:
        return NOT_KNOWN
    text = f"{share:+.{digits}f}"
    return "0 %" if float(text) == 0 else f"{text} %"


def dollars(amount: float | None) -> str:
    """$1.23, -$0.0042 (four digits below a dollar), $0.00; n/a for None."""
    if amount is None:
        return NOT_KNOWN
    digits = 2 if round(abs(amount), 4) >= 1 or amount == 0 else 4
    sign = "-" if round(amount, digits) < 0 else ""
    return f"{sign}${abs(amount):,.{digits}f}"
