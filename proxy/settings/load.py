"""Settings from their sources: presets of the profile, then the file, the environment and the command line; last wins.

This is the only place that reads the environment. Everything that is wrong raises `SettingsError` with the setting's
name, what was written, where, and what to write instead.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from proxy.errors import SettingsError
from proxy.settings import checks
from proxy.settings.detours import AUTO, detour_in
from proxy.settings.kinds import WrongValue, convert, expectation
from proxy.settings.section import Section, is_secret, masked, named_key, shown
from proxy.settings.sources import (
    NAMED_SECTIONS,
    PREFIX,
    Given,
    Where,
    dotted,
    from_environment,
    from_file,
    from_flags,
    from_standards,
)
from proxy.settings.values import PRESETS, UPSTREAMS, ModelSettings, Settings, Upstream

NO_FLAGS: Mapping[Where, Any] = {}
_STATE = "~/.local/state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Settings, and who set what is not a default."""

    settings: Settings
    origins: Mapping[Where, str]


def load(
    config: Path | None = None, flags: Mapping[Where, Any] = NO_FLAGS, environ: Mapping[str, str] | None = None
) -> Settings:
    """The effective settings; `environ` is the process's own unless given. Raises SettingsError."""
    return load_with_origins(config, flags, environ).settings


def load_with_origins(
    config: Path | None = None, flags: Mapping[Where, Any] = NO_FLAGS, environ: Mapping[str, str] | None = None
) -> Loaded:
    """As `load`, and tells for each setting that somebody wrote, who."""
    environ = os.environ if environ is None else environ
    _check_spelling(environ)
    written = from_standards(environ) + (from_file(config) if config else [])
    command = from_flags(flags)
    names = [("upstreams", name) for name in UPSTREAMS] + [given.where for given in written + command]
    written += from_environment(environ, names) + command

    last: dict[Where, Given] = {}
    for given in written:
        last[given.where] = given
    kinds = {where: _kind(given) for where, given in last.items()}
    values = {where: _value(kinds[where], given, environ) for where, given in last.items()}

    profile = values.get(("profile",), "gentle")
    presets: dict[Where, Any] = {
        (section, key): value
        for section, preset in PRESETS[profile].items()
        for key, value in preset.items()
        if section != "prune" or values.get(("prune", "policy"), "priced") == "priced"
    }
    origins = dict.fromkeys(presets, f"profile {profile}")
    origins |= {where: given.origin for where, given in last.items()}
    settings = checks.checked(_build(presets | values), origins)
    settings = _with_detours(_with_paths(settings, origins, environ), environ)
    return Loaded(settings=settings, origins=origins)


def _check_spelling(environ: Mapping[str, str]) -> None:
    """Raises SettingsError for a variable that has one underscore where a setting's has two: nobody would read it."""
    for where in _known_settings():
        meant = PREFIX + "__".join(where).upper()
        written = meant.replace("__", "_")
        # Kubernetes sets variables for every service, PRUNING_PROXY_SERVER_PORT=tcp://… for one of that name.
        if written in environ and not environ[written].startswith(("tcp://", "udp://", "sctp://")):
            raise SettingsError(f"environment variable {written} is no setting; did you mean {meant}?")


def setting_names() -> list[str]:
    """Every setting there is, as it is written in texts; user-chosen names appear as NAME and PATTERN."""
    return [dotted(where) for where in _known_settings()]


def effective(settings: Settings) -> dict[str, Any]:
    """All settings as plain values for showing: section → key → value, secrets masked, unknown model facts left out."""
    return {name: _plain(value) for name, value in masked(settings).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        return {name: _plain(item) for name, item in masked(value).items() if item is not None}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _fields(kind: Any) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


_SECTIONS: dict[str, dict[str, Any]] = {
    "upstreams": _fields(Upstream),
    "models": _fields(ModelSettings),
} | {
    name: _fields(kind)
    for name, kind in _fields(Settings).items()
    if isinstance(kind, type) and issubclass(kind, Section)
}
_TOP: dict[str, Any] = {name: kind for name, kind in _fields(Settings).items() if name not in _SECTIONS}


def _known_settings(upstream: str = "NAME", pattern: str = "PATTERN") -> list[Where]:
    middle = {"upstreams": (upstream,), "models": (pattern,)}
    return [(name,) for name in _TOP] + [
        (section, *middle.get(section, ()), key) for section, keys in _SECTIONS.items() for key in keys
    ]


def _kind(given: Given) -> Any:
    """The type of the setting that was written; raises SettingsError when there is none of that name."""
    match given.where:
        case (name,) if name in _TOP:
            return _TOP[name]
        case (section, key) if section not in NAMED_SECTIONS and key in _SECTIONS.get(section, {}):
            return _SECTIONS[section][key]
        case (section, _, key) if section in NAMED_SECTIONS and key in _SECTIONS[section]:
            return _SECTIONS[section][key]
        case (section, *_) if len(given.where) < (3 if section in NAMED_SECTIONS else 2) and section in _SECTIONS:
            raise SettingsError(f"{dotted(given.where)} is a section of settings, not a setting ({given.origin})")
    name = dotted(given.where)
    if isinstance(given.value, dict) and len(given.where) == 3:
        section, first, second = given.where
        raise SettingsError(
            f'unknown setting "{name}" ({given.origin}); a name with dots wants quotes: [{section}."{first}.{second}"]'
        )
    known = {dotted(where) for where in _known_settings(*_own_name(given.where))}
    from difflib import get_close_matches  # noqa: PLC0415  needed by this message only

    near = _same_key(given.where, known) or get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f'; did you mean "{near[0]}"?' if near else "; `pruning-proxy check --example` shows all settings"
    raise SettingsError(f'unknown setting "{name}" ({given.origin}){hint}')


def _own_name(where: Where) -> tuple[str, str]:
    return (where[1], where[1]) if len(where) > 2 else ("NAME", "PATTERN")


def _same_key(where: Where, known: Iterable[str]) -> list[str]:
    """Settings of that key in another section."""
    return sorted(name for name in known if name.rpartition(".")[2] == where[-1])


def _value(kind: Any, given: Given, environ: Mapping[str, str]) -> Any:
    name = dotted(given.where)
    try:
        value = convert(kind, given.value, is_text=given.is_text)
    except WrongValue as error:
        text = f"{name}: expected {expectation(kind)}, got {shown(kind, given.value)!r} ({given.origin})"
        raise SettingsError(text) from error
    if not is_secret(kind):
        return value
    if isinstance(value, str):
        return _resolved(value, name, environ)
    return tuple(_resolved_key(entry, name, environ) for entry in value)


def _resolved(text: str, name: str, environ: Mapping[str, str]) -> str:
    """The text, or what the environment holds where it says `env:VAR`."""
    variable = text.removeprefix("env:")
    if variable == text:
        return text
    if not environ.get(variable):
        raise SettingsError(f"{name}: the environment variable {variable!r} that it names is not set or empty")
    return environ[variable]


def _resolved_key(entry: str, name: str, environ: Mapping[str, str]) -> str:
    """As `_resolved`, for `KEY` and `NAME=KEY`."""
    label, key = named_key(entry)
    if key == entry:
        return _resolved(entry, name, environ)
    return f"{label}={_resolved(key, name, environ)}"


def _build(values: Mapping[Where, Any]) -> Settings:
    grouped: dict[Where, dict[str, Any]] = {}
    for where, value in values.items():
        grouped.setdefault(where[:-1], {})[where[-1]] = value
    default = Settings()
    parts: dict[str, Any] = {"upstreams": dict(UPSTREAMS), "models": {}}
    for where, keys in grouped.items():
        match where:
            case ():
                parts |= keys
            case ("upstreams", name):
                parts["upstreams"][name] = msgspec.structs.replace(UPSTREAMS.get(name, Upstream()), **keys)
            case ("models", pattern):
                parts["models"][pattern] = ModelSettings(**keys)
            case (section,):
                parts[section] = msgspec.structs.replace(getattr(default, section), **keys)
    return Settings(**parts)


def _with_detours(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """The settings with the HTTP proxies that the environment names, where no others are set."""
    upstreams = {
        name: msgspec.structs.replace(upstream, http_proxy=detour_in(environ, upstream.base_url) or AUTO)
        if upstream.http_proxy == AUTO
        else upstream
        for name, upstream in settings.upstreams.items()
    }
    return msgspec.structs.replace(settings, upstreams=upstreams)


def _with_paths(settings: Settings, origins: Mapping[Where, str], environ: Mapping[str, str]) -> Settings:
    """The settings with the store's default place and `~` made real."""
    scheme, separator, path = settings.store.url.partition("sqlite:///")
    if scheme or not separator:
        return settings
    state = environ.get("XDG_STATE_HOME", "")
    # The XDG rule: a relative path in the variable is to be ignored.
    if ("store", "url") not in origins and Path(state).is_absolute():
        path = path.replace(_STATE, state, 1)
    if path.startswith("~/"):
        path = str(Path(environ.get("HOME") or Path.home()) / path[2:])
    return msgspec.structs.replace(settings, store=msgspec.structs.replace(settings.store, url=f"sqlite:///{path}"))
