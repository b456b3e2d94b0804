"""The house rules that no linter knows: who may import whom, who may touch the world, and where a test stands."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "proxy"

ORDER = (
    {"errors"},
    {"conversation", "wire"},
    {"tokens", "pricing"},
    # Neighbours in the plan, but an answer's Observation carries replies in the form in which the ledger keeps them.
    {"ledger"},
    {"dialects"},
    {"pruning", "compaction", "reports"},
    {"exchange"},
    {"settings"},
    {"stores"},
    {"server"},
    {"demo"},
    {"cli"},
    {"__main__"},
)
"""A room imports from rooms further left and from itself, never from its neighbour in the same group."""

FORBIDDEN_ARROWS = {("pruning", "dialects"), ("pruning", "wire"), ("reports", "dialects"), ("reports", "wire")}
"""Leftward, and still wrong: deciding and reporting do not spell a provider's fields or bytes."""

SINGLE_MODULE_ROOMS = {"errors": "Pure", "cli": "I/O", "__main__": "I/O"}

WORLD = {
    *("aiohttp", "asyncio", "httpx", "os", "random", "redis", "secrets", "socket", "sqlite3", "starlette"),
    *("structlog", "subprocess", "tempfile", "threading", "tiktoken", "time", "uuid", "uvicorn"),
}
"""What a pure room never imports: clock, randomness, network, disk and event loop come in as arguments."""

WITHOUT_TEST: dict[str, str] = {
    "proxy/__main__.py": "two lines, run as a process by tests/test_cli.py",
}
"""Modules with code that have no test module of their own, and why."""

WITHOUT_MODULE: dict[str, str] = {
    "tests/dialects/test_properties.py": "holds every dialect to the same laws",
    "tests/dialects/test_recordings.py": "reads the recorded calls of every dialect",
    "tests/stores/test_contract.py": "holds every store to one contract",
    "tests/test_architecture.py": "looks at the whole package",
    "tests/test_container.py": "looks at the Dockerfile",
    "tests/test_docs.py": "looks at README and configuration file",
    "tests/test_packaging.py": "looks at the built wheel",
    "tests/test_requirements.py": "looks at the names of all tests",
}
"""Test modules that belong to no single module, and why."""

WHOLE_HOUSE = ("tests/bench/", "tests/browser/", "tests/cases/", "tests/journeys/")
"""Folders whose tests run through all rooms: benchmarks, a browser, fault cases, and clients on real sockets."""

MOST_MODULE_LINES = 300
MOST_FUNCTION_LINES = 50


@cache
def modules():
    """Every module of the package: its path from the root, and its tree."""
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}


def room_of(path):
    parts = Path(path).with_suffix("").parts
    return parts[1] if len(parts) > 1 else ""


def imports_of(tree):
    """Full dotted names of what a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def station(room):
    return next(number for number, group in enumerate(ORDER) if room in group)


def nature_of(room):
    """`Pure` or `I/O`: the first word of the room's docstring."""
    if room in SINGLE_MODULE_ROOMS:
        return SINGLE_MODULE_ROOMS[room]
    path = f"proxy/{room}/__init__.py" if f"proxy/{room}/__init__.py" in modules() else f"proxy/{room}.py"
    return (ast.get_docstring(modules()[path]) or "").split(":")[0]


ROOMS = sorted({room_of(path) for path in modules()} - {"__init__"})


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_has_its_place_and_says_whether_it_is_pure(room):
    assert any(room in group for group in ORDER)
    assert nature_of(room) in ("Pure", "I/O")


def test_the_docstring_of_each_room_names_all_its_modules():
    """The map that a newcomer reads first. A dialect's own modules are the same in all: `dialects` names them."""
    missing = []
    for path, tree in modules().items():
        home = Path(path).parent
        if Path(path).name != "__init__.py" or "dialects" in home.parts[:-1]:
            continue
        inside = {
            name.removeprefix(f"{home}/").split("/")[0].removesuffix(".py")
            for name in modules()
            if home in Path(name).parents
        }
        named = set(re.findall(r"\w+", ast.get_docstring(tree) or ""))
        missing += [f"{home}: {name}" for name in sorted(inside - named - {"__init__", "__main__"})]

    assert not missing, "\n".join(missing)


def test_the_names_of_notes_are_told_where_notes_are_made():
    """They are strings in seven modules: who wants to know what a line carries finds them in one place."""
    used = {
        re.sub(r"\W", "", name)
        for path in modules()
        for name in re.findall(
            r"\b(?:extended|upto|carried|known)\(\s*\(?(\"[a-z_]+\")", (ROOT / path).read_text("utf-8")
        )
    }
    told = ast.get_docstring(
        next(node for node in modules()["proxy/conversation/lines.py"].body if getattr(node, "name", "") == "Notes")
    )

    assert "keys" in used
    assert used <= set(re.findall(r"\w+", told or ""))


def test_rooms_import_only_rooms_further_left():
    wrong = []
    for path, tree in modules().items():
        for line, name in imports_of(tree):
            here, there = room_of(path), name.split(".")[1] if name.startswith("proxy.") else ""
            if there in ("", "__version__", here) or here == "__init__":
                continue
            if station(there) >= station(here) or (here, there) in FORBIDDEN_ARROWS:
                wrong.append(f"{path}:{line} imports {name}")

    assert not wrong, "\n".join(wrong)


def test_pure_rooms_do_not_touch_the_world():
    wrong = [
        f"{path}:{line} imports {name}"
        for path, tree in modules().items()
        if room_of(path) != "__init__" and nature_of(room_of(path)) == "Pure"
        for line, name in imports_of(tree)
        if name.split(".")[0] in WORLD
    ]

    assert not wrong, "\n".join(wrong)


def test_only_the_tokenizers_import_tiktoken():
    importers = {
        path
        for path, tree in modules().items()
        for _, name in imports_of(tree)
        if name.split(".")[0] in ("tiktoken", "bpe_openai")
    }

    assert importers <= {"proxy/server/tokenizers.py"}


def has_code(tree):
    """Whether a function in it does anything: those of a protocol have a docstring for a body."""
    return any(
        not all(isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) for line in node.body)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def homes_of(path):
    """Where the tests of a module stand: proxy/a/b.py → tests/a/test_b.py; a package's own code has three homes."""
    inside = Path("tests") / Path(path).relative_to("proxy")
    if inside.stem != "__init__":
        return [(inside.parent / f"test_{inside.stem.strip('_')}.py").as_posix()]
    room = inside.parent.name
    homes = (
        inside.parent / "test_init.py",
        inside.parent / f"test_{room}.py",
        inside.parent.parent / f"test_{room}.py",
    )
    return [home.as_posix() for home in homes]


def present_tests():
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))


def test_each_module_with_code_has_its_test_module():
    present = set(present_tests())
    missing = [
        f"{path} wants {homes_of(path)[0]}"
        for path, tree in sorted(modules().items())
        if has_code(tree) and path not in WITHOUT_TEST and present.isdisjoint(homes_of(path))
    ]

    assert not missing, "\n".join(missing)


def test_each_test_module_has_its_module():
    """`test_NAME_ASPECT.py` beside a module NAME.py is fine: a long test module may be split."""
    expected = {home for path in modules() for home in homes_of(path)}
    strays = [
        path
        for path in present_tests()
        if path not in WITHOUT_MODULE
        and not path.startswith(WHOLE_HOUSE)
        and not any(path == known or path.startswith(f"{known.removesuffix('.py')}_") for known in expected)
    ]

    assert not strays, "\n".join(strays)


def test_the_lists_of_exceptions_name_only_what_exists():
    assert set(WITHOUT_TEST) <= set(modules())
    assert all((ROOT / path).is_file() for path in WITHOUT_MODULE)


def test_modules_and_functions_stay_small():
    """Tables may be long: a module without functions is one."""
    long = []
    for path, tree in modules().items():
        lines = len((ROOT / path).read_text("utf-8").splitlines())
        if lines > MOST_MODULE_LINES and has_code(tree):
            long.append(f"{path}: {lines} lines")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > MOST_FUNCTION_LINES:
                    long.append(f"{path}:{node.lineno} {node.name}: {size} lines")

    assert not long, "\n".join(long)


def repository_texts():
    """Path and text of everything that people wrote; recordings are data, with whatever paths they were made under."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    files = listed.stdout.split("\n") if listed.returncode == 0 else [str(p) for p in ROOT.rglob("*") if p.is_file()]
    written = (".py", ".toml", ".md", ".sh", ".html", ".css", ".js", ".yml", ".yaml", ".in", "")
    for name in filter(None, files):
        path = ROOT / name
        if path.suffix in written and path.is_file() and not re.search(r"(^|/)(data|recorded|fixtures)/", name):
            yield name, path.read_text("utf-8", "replace")


# Written in halves, so that this file does not contain what it forbids.
HOSTS = "|".join(re.escape("".join(halves)) for halves in (("pypi", ".org"), ("python", "hosted"), ("npm", "js.")))
PLACES = "|".join(
    "".join(halves) for halves in ((r"/wo", r"rk/"), (r"/tmp/", r"v/"), (r"/home/", r"\w+/"), (r"/ro", r"ot/"))
)
NOTES = "|".join(
    "".join(halves)
    for halves in (
        (r"shared/", r"(facts|wire|cases|trajectories|seeds)"),
        ("DESIGN", r"\.md"),
        ("STYLE", r"\.md"),
        ("DESIGN", " §"),
        ("facts/", r"\w+\.md"),
    )
)


def test_nothing_names_a_package_registry():
    assert [name for name, text in repository_texts() if re.search(HOSTS, text)] == []


def test_nothing_names_a_place_on_somebodys_machine():
    """Tests may speak of made-up home directories; nothing else has a reason to."""
    named = {name: re.findall(PLACES, text) for name, text in repository_texts() if not name.startswith("tests/")}

    assert {name: places for name, places in named.items() if places} == {}


def test_nothing_refers_to_notes_that_are_not_here():
    assert [name for name, text in repository_texts() if re.search(NOTES, text)] == []
