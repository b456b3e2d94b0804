"""README and configuration file say what the program does: each setting, command, flag and upstream stands there."""

import argparse
import json
import re
from pathlib import Path

import msgspec
import pytest

from proxy.cli import COMMANDS, parser_of
from proxy.ledger.records import Turn
from proxy.server.events import fields_of
from proxy.settings.load import load, setting_names
from proxy.settings.values import PRESETS, UPSTREAMS, Settings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
CONFIG = (ROOT / "config" / "pruning-proxy.toml").read_text("utf-8")
CLEAN = {"HOME": "/nowhere"}


def test_the_configuration_file_changes_nothing_as_it_stands():
    assert load(ROOT / "config" / "pruning-proxy.toml", environ=CLEAN) == load(environ=CLEAN)


def test_the_values_in_the_configuration_file_are_the_defaults(tmp_path):
    """Settings are lines like `#port = 8787`; prose has a space behind its mark."""
    path = tmp_path / "all.toml"
    path.write_text(re.sub(r"^#(?=[a-z])", "", CONFIG, flags=re.MULTILINE))

    assert load(path, environ=CLEAN) == msgspec.structs.replace(load(environ=CLEAN), prune=Settings().prune)
    assert path.read_text().count("\n") == CONFIG.count("\n")


def test_the_configuration_file_has_each_setting():
    present = set()
    section = ""
    for line in CONFIG.splitlines():
        if header := re.match(r"(?:# )?\[([a-z]+)", line):
            section = f"{header[1]}."
        elif key := re.match(r"(?:#|# )([a-z_]+) = ", line):
            present.add(section + key[1])
    wanted = {re.sub(r"\.(NAME|PATTERN)\.", ".", name) for name in setting_names()}

    assert present == wanted


@pytest.mark.parametrize("name", setting_names())
def test_the_readme_has_each_setting_with_its_default(name):
    row = re.search(rf"^\| `{re.escape(name)}` \| (.*?) \| .+ \|$", README, re.MULTILINE)

    assert row, f"README: no row for {name}"
    section, _, key = name.partition(".")
    if section not in ("upstreams", "models") and key != "protected_tools":
        part = getattr(Settings(), section)
        assert row[1] == f"`{json.dumps(getattr(part, key) if key else part)}`"


def test_the_readme_has_no_setting_that_is_none():
    assert set(re.findall(r"^\| `([a-zA-Z_.]+)` \|", part_of_readme("Configuration"), re.MULTILINE)) == set(
        setting_names()
    )


@pytest.mark.parametrize("profile", PRESETS)
def test_the_readme_tells_what_a_profile_presets(profile):
    for section, keys in PRESETS[profile].items():
        for key, value in keys.items():
            assert f"`{section}.{key} = {json.dumps(value)}`" in README


@pytest.mark.parametrize("name", UPSTREAMS)
def test_both_name_each_built_in_upstream(name):
    assert re.search(rf"\b{name}\b", README)
    assert re.search(rf"\b{name}\b", CONFIG)


@pytest.mark.parametrize("name", [name for name, *_ in COMMANDS])
def test_the_readme_has_each_command(name):
    assert f"`pruning-proxy {name}" in README


def flags_of(name):
    (commands,) = (action for action in parser_of(name)._actions if isinstance(action, argparse._SubParsersAction))
    return set(commands.choices[name]._option_string_actions) - {"-h", "--help"}


@pytest.mark.parametrize("name", [name for name, *_ in COMMANDS])
def test_the_readme_has_each_flag(name):
    (row,) = re.findall(rf"^\| `pruning-proxy {name}.*$", README, re.MULTILINE)

    assert {flag for flag in flags_of(name) if flag not in row} <= flags_of("serve") & flags_of("check")


def part_of_readme(heading):
    return README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_readme_has_each_field_of_the_log():
    turn = Turn(
        session="s", turn=1, at=0, upstream="openai", model="m", dialect="openai_chat", basis="estimated", estimated=1
    )
    rows = re.findall(r"^\| (`.*?`) \|", part_of_readme("Log"), re.MULTILINE)

    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(fields_of(turn))


def test_the_readme_has_each_header():
    source = "".join(path.read_text("utf-8") for path in (ROOT / "proxy").rglob("*.py"))
    headers = set(re.findall(r"\bx-(?:context|proxy)-[a-z-]+", source))

    assert headers == set(re.findall(r"\bx-(?:context|proxy)-[a-z-]+", part_of_readme("Headers")))


def test_the_one_test_command_is_named():
    assert "`tests/run` is the one test command" in README
    assert "tests/run" in (ROOT / ".ci" / "run").read_text()
