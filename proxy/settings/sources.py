"""Where settings are written: the configuration file, the environment, the command line. All become `Given` values."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.errors import SettingsError

Where = tuple[str, ...]
"""("mode",), ("prune", "policy"), ("upstreams", NAME, "base_url") or ("models", PATTERN, "window")."""

PREFIX = "PRUNING_PROXY__"
NAMED_SECTIONS = ("upstreams", "models")
"""Sections whose tables have names that the user chooses."""
STANDARDS: dict[str, Where] = {"OTEL_EXPORTER_OTLP_ENDPOINT": ("log", "otlp_endpoint")}
"""Variables that are not ours, and the settings that they stand for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One setting as somebody wrote it."""

    where: Where
    value: Any
    origin: str
    """For error texts: the file's path, `environment variable X`, `command line`, `profile bold`."""
    is_text: bool = False
    """Everything is text at the origin, so that "5" may mean 5."""


def dotted(where: Where) -> str:
    """The setting's name as it is written in texts: `models."gpt-4.1*".window`."""
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f'"{part}"' for part in where)


def from_file(path: Path) -> list[Given]:
    """All settings of a TOML file; raises SettingsError when it cannot be read."""
    try:
        document = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"cannot read the configuration file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not TOML: not UTF-8 from byte {error.start + 1} on") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error
    return list(_leaves((), document, str(path)))


def _leaves(where: Where, value: Any, origin: str) -> Iterator[Given]:
    depth = 3 if where[:1] and where[0] in NAMED_SECTIONS else 2
    if isinstance(value, dict) and len(where) < depth:
        for key, item in value.items():
            yield from _leaves((*where, key), item, origin)
    else:
        yield Given(where=where, value=value, origin=origin)


def from_environment(environ: Mapping[str, str], known: Iterable[Where]) -> list[Given]:
    """All settings among the environment's variables: `PRUNING_PROXY__SECTION__KEY=value`.

    Variables have no lower case and no dots by custom, so a name between the first and the last part is matched
    without them against the upstreams and model patterns of `known`; an unknown pattern's `_` stands for any character.
    """
    known = list(known)
    given = []
    for variable in sorted(environ):
        if variable.startswith(PREFIX):
            section, *rest = variable.removeprefix(PREFIX).split("__")
            where: Where = (section.lower(), *(part.lower() for part in rest))
            if where[0] in NAMED_SECTIONS and len(rest) > 1:
                where = (where[0], _name(where[0], "__".join(rest[:-1]), known), where[-1])
            origin = f"environment variable {variable}"
            given.append(Given(where=where, value=environ[variable], origin=origin, is_text=True))
    return given


def from_standards(environ: Mapping[str, str]) -> list[Given]:
    """What variables of other standards say to every program; all of our own sources win over them.

    Empty means unset (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).
    """
    return [
        Given(where=where, value=environ[variable], origin=f"environment variable {variable}", is_text=True)
        for variable, where in STANDARDS.items()
        if environ.get(variable)
    ]


def _name(section: str, written: str, known: list[Where]) -> str:
    for where in known:
        if where[0] == section and len(where) > 1 and _plain(where[1]) == _plain(written):
            return where[1]
    if section == "models" and re.fullmatch(r"[A-Z0-9_]+", written):
        return written.lower().replace("_", "?")
    return written.lower()


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9*?]", "_", name.lower())


def from_flags(flags: Mapping[Where, Any]) -> list[Given]:
    """The command line's settings; None means that a flag was not given."""
    return [
        Given(where=where, value=value, origin="command line", is_text=True)
        for where, value in flags.items()
        if value is not None
    ]
