import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request

import pytest

from proxy import __version__
from proxy.cli import COMMANDS, example_file, main, print_addresses, root_url
from proxy.settings.load import load
from proxy.settings.values import Server, Settings


def run(capsys, *arguments):
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("PRUNING_PROXY__"):
            monkeypatch.delenv(name)


def as_process(*arguments, **environ):
    return subprocess.run(
        [sys.executable, "-m", "proxy", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environ},
    )


class TestHelp:
    def test_without_a_command_the_help_comes_and_the_code_says_that_nothing_was_done(self, capsys):
        code, out, err = run(capsys)

        assert (code, out) == (2, "")
        assert "serve" in err

    def test_the_version_is_the_packages(self, capsys):
        with pytest.raises(SystemExit, match="0"):
            main(["--version"])

        assert capsys.readouterr().out == f"pruning-proxy {__version__}\n"

    @pytest.mark.parametrize("name", [name for name, *_ in COMMANDS])
    def test_each_command_explains_itself(self, capsys, name):
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])

        assert f"usage: pruning-proxy {name}" in capsys.readouterr().out


class TestErrors:
    """One line on standard error, exit code 2."""

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["chekc"], "invalid choice: 'chekc'"),
            (["check", "--prot", "1"], "unrecognized arguments: --prot 1"),
            (["check", "--port"], "argument --port: expected one argument"),
            (["check", "--port", "many"], "server.port: expected a whole number from 0 to 65535, got 'many'"),
            (["check", "--mode", "prun"], 'mode: expected one of "observe", "off", "prune", got \'prun\''),
            (["check", "--upstream", "openai"], "--upstream: expected NAME=URL, got 'openai'"),
            (["check", "--upstream", "x=ftp://h"], "upstreams.x.base_url: expected an address"),
            (["check", "--config", "nowhere.toml"], "cannot read the configuration file nowhere.toml"),
            (["serve", "--mode", "x"], "mode: expected one of"),
            (["demo", "--session", "nowhere.json"], "--session: cannot read nowhere.json: No such file or directory"),
            (["sessions", "--store", "sqlite:///."], "opening failed: Is a directory"),
        ],
    )
    def test_are_one_line(self, capsys, arguments, said):
        code, out, err = run(capsys, *arguments)

        assert (code, out) == (2, "")
        assert err.startswith("pruning-proxy: ")
        assert said in err
        assert err.count("\n") == 1

    def test_a_file_that_the_system_refuses_is_named_without_its_number(self, capsys, monkeypatch):
        def refused(*_):
            raise PermissionError(13, "Permission denied", "/some/file")

        monkeypatch.setattr("proxy.cli.load_with_origins", refused)

        assert run(capsys, "check") == (2, "", "pruning-proxy: /some/file: Permission denied\n")

    def test_an_interrupt_is_no_error_of_ours(self, capsys, monkeypatch):
        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("proxy.cli.load_with_origins", interrupted)

        assert run(capsys, "check") == (130, "", "")

    def test_a_reader_that_leaves_is_none_either(self):
        with subprocess.Popen(
            [sys.executable, "-m", "proxy", "check", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            process.stdout.close()
            complaint = process.stderr.read()

            assert (process.wait(60), complaint) == (0, b"")


class TestCheck:
    def test_prints_a_configuration_that_loads_to_the_same(self, capsys, tmp_path):
        code, out, _ = run(capsys, "check", "--upstream", "mine=http://h:1/v1", "--store", "memory://")
        path = tmp_path / "printed.toml"
        path.write_text(out)

        assert code == 0
        assert load(path) == load(
            flags={("upstreams", "mine", "base_url"): "http://h:1", ("store", "url"): "memory://"}
        )

    def test_tells_where_a_value_comes_from(self, capsys, monkeypatch, tmp_path):
        monkeypatch.setenv("PRUNING_PROXY__PRUNE__POLICY", "always")
        path = tmp_path / "c.toml"
        path.write_text('[models."gpt-4.1*"]\nwindow = 5\n')
        _, out, _ = run(capsys, "check", "--config", str(path), "--port", "1")

        assert "port = 1  # command line\n" in out
        assert 'policy = "always"  # environment variable PRUNING_PROXY__PRUNE__POLICY\n' in out
        assert f'[models."gpt-4.1*"]\nwindow = 5  # {path}\n' in out
        assert "dedupe = true\n" in out

    def test_json_has_everything_and_no_secret(self, capsys, monkeypatch):
        monkeypatch.setenv("PRUNING_PROXY__SERVER__REQUIRE_KEYS", "alice=proxy-key-1")
        monkeypatch.setenv("PRUNING_PROXY__UPSTREAMS__OPENAI__API_KEY", "sk-1")
        code, out, _ = run(capsys, "check", "--json")
        shown = json.loads(out)

        assert code == 0
        assert shown["server"]["require_keys"] == ["alice=****"]
        assert shown["upstreams"]["openai"]["api_key"] == "****"
        assert shown["upstreams"]["azure"]["base_url"] == ""
        assert "proxy-key-1" not in out
        assert "sk-1" not in out

    def test_example_prints_the_default_file(self, capsys):
        code, out, _ = run(capsys, "check", "--example")

        assert code == 0
        assert out == example_file()
        assert tomllib.loads(out).keys() >= {"server", "prune"}


class TestProcess:
    """The same, as users run it."""

    def test_check_as_a_process(self):
        done = as_process("check", "--port", "9", PRUNING_PROXY__SERVER__PORT="8", PRUNING_PROXY__MODE="off")

        assert (done.returncode, done.stderr) == (0, "")
        assert "port = 9  # command line" in done.stdout
        assert 'mode = "off"  # environment variable PRUNING_PROXY__MODE' in done.stdout

    def test_a_wrong_setting_as_a_process(self):
        done = as_process("check", PRUNING_PROXY__PRUNE__PROTECTED_TOOL="x")

        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            'pruning-proxy: unknown setting "prune.protected_tool" '
            "(environment variable PRUNING_PROXY__PRUNE__PROTECTED_TOOL); "
            'did you mean "prune.protected_tools"?\n'
        )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_that_does_not_know_a_character_gets_another(encoding):
    environ = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(
        [sys.executable, "-m", "proxy", "check", "--example"], capture_output=True, env=environ, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert "before /v1" in done.stdout.decode(encoding)


def test_our_own_characters_have_a_likeness_and_others_a_question_mark(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    main(["--nothing"])
    stream.write("a → b ≈ c… 名")

    assert stream.buffer.getvalue() == b"a > b ~ c. ?"
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii", "pruning-proxy")


class TestServe:
    def test_says_where_it_listens_and_ends_on_a_signal(self, tmp_path):
        arguments = ["serve", "--port", "0", "--store", f"sqlite:///{tmp_path}/state.db?timeout_s=10"]
        with subprocess.Popen(
            [sys.executable, "-m", "proxy", *arguments, "--upstream", "openai=http://127.0.0.1:1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            said = [process.stdout.readline() for _ in range(7)]
            root = re.search(r"http://127\.0\.0\.1:\d+", said[0])[0]
            with opened(f"{root}/healthz") as answer:
                status = answer.status
            process.send_signal(signal.SIGTERM)
            rest, log = process.communicate(timeout=30)

            assert (process.returncode, rest) == (0, "")
        assert all(isinstance(json.loads(line), dict) for line in log.splitlines())
        assert status == 200
        assert said[0] == f"pruning-proxy {__version__} listens on {root} (mode prune)\n"
        assert re.search(rf"OpenAI clients +{root}/v1 +→ http://127\.0\.0\.1:1\n", said[2])
        assert re.search(rf"Anthropic clients +{root} +→ https://api\.anthropic\.com\n", said[3])
        assert re.search(rf"Gemini clients +{root} +→ https://generativelanguage\.googleapis\.com\n", said[4])
        assert re.search(rf"by name +{root}/up/NAME +→ openai, anthropic, gemini, ", said[5])
        assert said[6] == f"Dashboard: {root}/_proxy/\n"

    def test_a_process_that_is_told_to_end_while_it_starts_ends_cleanly(self):
        program = (
            "import signal, sys; from proxy.server import assembly; from proxy import cli; "
            "assembly.serve = lambda *_, **__: signal.raise_signal(signal.SIGTERM) or 1; "
            "sys.exit(cli.main(['serve', '--store', 'memory://']))"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)

        assert (done.returncode, done.stderr) == (0, b"")

    def test_a_taken_port_is_one_line(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = as_process("serve", "--port", str(port), "--store", "memory://")

        assert done.returncode == 2
        assert done.stderr == (
            f"pruning-proxy: server.host, server.port: cannot listen on 127.0.0.1:{port}: Address already in use; "
            "if it is not this proxy that runs there already, take another one with --port\n"
        )

    def test_a_host_that_is_none_is_one_line(self):
        done = as_process("serve", "--host", "nowhere.invalid", "--port", "0", "--store", "memory://")

        assert done.returncode == 2
        assert re.fullmatch(r"pruning-proxy: server\.host: cannot listen on 'nowhere\.invalid': .+\n", done.stderr)

    @pytest.mark.parametrize("host", ["0.0.0.0", "::"])
    def test_says_when_it_listens_on_more_than_the_address_that_it_names(self, capsys, host):
        print_addresses(Settings(server=Server(host=host)), "http://h:5")

        assert "listens on http://h:5 and all other addresses of this machine (mode prune)" in capsys.readouterr().out

    def test_on_a_terminal_addresses_stand_out(self, monkeypatch, capsys):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        print_addresses(Settings(), "http://h:5")

        assert "listens on \x1b[1mhttp://h:5\x1b[0m (mode prune)" in capsys.readouterr().out

    def test_brings_no_library_that_it_does_not_use(self):
        program = (
            "import sys; from proxy import cli; cli.print_addresses = lambda *_: sys.exit(print(*sys.modules)); "
            "cli.main(['serve', '--port', '0', '--store', 'memory://'])"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

        assert "proxy.server.assembly" in done.stdout.split()
        assert not {"httpx", "aiohttp", "redis", "rich", "watchfiles", "prometheus_client", "difflib"} & set(
            done.stdout.split()
        )

    @pytest.mark.parametrize(
        ("host", "root"),
        [
            ("127.0.0.1", "http://127.0.0.1:5"),
            ("0.0.0.0", "http://127.0.0.1:5"),
            ("::", "http://[::1]:5"),
            ("::1", "http://[::1]:5"),
            ("proxy.internal", "http://proxy.internal:5"),
        ],
    )
    def test_the_address_is_one_that_clients_can_use(self, host, root):
        assert root_url(host, 5) == root


def opened(url):
    """The answer; the server says that it listens a moment before it accepts."""
    for _ in range(100):
        try:
            return urllib.request.urlopen(url, timeout=5)
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"nothing answers at {url}")
