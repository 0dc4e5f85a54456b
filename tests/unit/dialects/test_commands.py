"""How the CLIs are started: arguments, standard input, environment, model and effort."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.credentials import choose, credentials_of
from protocols.dialects import DIALECTS
from protocols.dialects.base import MOST_PROMPT_IN_ARGV, AgentCall, Folders, Session, check_extra
from protocols.dialects.claude import DENIED, GRANTED
from protocols.failures import InvalidInput

CLAUDE, OPENCODE = DIALECTS["claude"], DIALECTS["opencode"]
each_dialect = pytest.mark.parametrize("provider", list(DIALECTS))
FOLDERS = Folders("/srv/1/home", "/srv/1/tmp")
ENVIRON = {
    "PATH": "/usr/bin",
    "PATHEXT": "no",
    "HOME": "/home/someone",
    "HOMEX": "no",
    "TMPDIR": "/var/tmp",
    "LANG": "C.UTF-8",
    "TERM": "xterm",
    "USER": "someone",
    "USERNAME": "no",
    "SHELL": "/bin/sh",
    "XDG_CONFIG_HOME": "/home/someone/.config",
    "DATABASE_URL": "postgresql://u:canary-db@h/d",
    "ANTHROPIC_API_KEY": "canary-api",
    "ANTHROPIC_MODEL": "canary-model",
    "CLAUDE_CODE_EFFORT_LEVEL": "canary-effort",
    "CLAUDE_CODE_OAUTH_TOKEN": "canary-one, canary-two",
    "VLAM_API_KEY": "canary-vlam",
    "OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX": "64000",
    "OPENCODE_CONFIG_CONTENT": "{}",
    "OPENCODE_AUTH_CONTENT": "canary-auth",
    "OPENCODE_SERVER_PASSWORD": "canary-server",
    "OPENCODE_PATH": "/opt/opencode",
    "OPENCODE_DISABLE_AUTOUPDATE": "0",
    "API_TIMEOUT_MS": "5000",
    "GIT_TOKEN": "canary-git",
}


def call(prompt: str = "Vul de artikelen in.", **more: object) -> AgentCall:
    return AgentCall(prompt=prompt, cwd="/srv/1/checkout", model="vlam/kimi", **more)  # type: ignore[arg-type]


# --- Arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-076", "S0-137", "S0-139")
def test_claude_streams_partial_events_and_is_told_its_model() -> None:
    line = CLAUDE.command("/opt/claude", call())
    assert line.argv[:3] == ("/opt/claude", "-p", "Vul de artikelen in.")
    assert line.stdin is None
    for words in (
        ("--output-format", "stream-json"),
        ("--verbose",),
        ("--include-partial-messages",),
        ("--model", "vlam/kimi"),
    ):
        assert " ".join(words) in " ".join(line.argv)
    assert "--effort" not in line.argv
    assert "--session-id" not in line.argv


def option(argv: tuple[str, ...], name: str) -> str:
    return argv[argv.index(name) + 1]


def test_claude_gets_effort_and_session_when_asked_for() -> None:
    argv = CLAUDE.command("claude", call(effort="high", session=Session("5b1c"))).argv
    assert (option(argv, "--effort"), option(argv, "--session-id")) == ("high", "5b1c")
    argv = CLAUDE.command("claude", call(session=Session("5b1c", resume=True))).argv
    assert option(argv, "--resume") == "5b1c"
    assert "--session-id" not in argv


def test_claude_may_only_touch_files_below_its_folder() -> None:
    # D50: hostile law text orders commands, pages and files elsewhere.
    argv = CLAUDE.command("claude", call()).argv
    assert option(argv, "--tools") == "Read,Edit,Write" == ",".join(CLAUDE.granted_tools)
    assert option(argv, "--allowedTools") == "Read(./**),Edit(./**),Write(./**)"
    denied = option(argv, "--disallowedTools").split(",")
    assert {"Bash", "WebFetch", "WebSearch", "Task", "Skill", "NotebookEdit"} <= set(denied)
    assert denied == sorted(denied)
    assert not set(denied) & set(GRANTED)
    assert "--strict-mcp-config" in argv
    assert option(argv, "--setting-sources") == "user"
    assert "--dangerously-skip-permissions" not in argv


def test_only_a_conversion_may_run_commands() -> None:
    argv = CLAUDE.command("claude", call(bash=True)).argv
    assert option(argv, "--allowedTools").startswith("Bash,")
    assert option(argv, "--disallowedTools").split(",") == [tool for tool in DENIED if tool != "Bash"]


@pytest.mark.claim("S0-127")
def test_opencode_shows_its_thoughts_and_gets_folder_model_and_file() -> None:
    line = OPENCODE.command("opencode", call(attach="/srv/1/checkout/law.yaml"))
    assert line.argv == (
        *("opencode", "run", "Vul de artikelen in.", "-f", "/srv/1/checkout/law.yaml", "--format", "json"),
        *("--dir", "/srv/1/checkout", "--thinking", "--pure", "-m", "vlam/kimi"),
    )
    assert line.warnings == ()


@pytest.mark.claim("S0-147")
def test_opencode_never_continues_a_session() -> None:
    # OC-03
    with pytest.raises(InvalidInput, match="session"):
        OPENCODE.command("opencode", call(session=Session("ses_1", resume=True)))
    assert not {"--session", "-s", "--continue", "-c"} & set(OPENCODE.command("opencode", call()).argv)


def test_opencode_is_never_started_without_a_model() -> None:
    # It would go to a hosted model of its own.
    with pytest.raises(InvalidInput, match="OPENCODE_MODEL"):
        OPENCODE.command("opencode", AgentCall("x", "/c", ""))


def test_an_effort_for_opencode_is_ignored_with_a_warning() -> None:
    line = OPENCODE.command("opencode", call(effort="high"))
    assert "high" not in line.argv
    assert "'high' is ignored" in line.warnings[0]


@each_dialect
@pytest.mark.parametrize("prompt", ["é" * (MOST_PROMPT_IN_ARGV // 2 + 1), "--help", "nul\0byte"])
def test_a_prompt_that_cannot_be_an_argument_goes_to_standard_input(provider: str, prompt: str) -> None:
    line = DIALECTS[provider].command("cli", call(prompt))
    assert line.stdin == prompt.encode()
    assert prompt not in line.argv
    assert all(len(argument.encode()) < 128 << 10 for argument in line.argv)


@each_dialect
def test_any_other_prompt_is_one_argument_and_standard_input_is_the_null_device(provider: str) -> None:
    # AG-11: an open pipe as standard input lets opencode wait for ever.
    prompt = "é" * (MOST_PROMPT_IN_ARGV // 2)
    line = DIALECTS[provider].command("cli", call(prompt))
    assert line.argv[2] == prompt
    assert line.stdin is None


def test_a_prompt_with_quotes_goes_to_opencode_by_standard_input_where_they_stay_as_they_are() -> None:
    assert OPENCODE.command("opencode", call('zet "x"')).stdin == b'zet "x"'
    assert CLAUDE.command("claude", call('zet "x"')).stdin is None


def test_prompts_are_in_no_repr() -> None:
    assert "geheim" not in repr(call("geheim"))
    assert "geheim" not in repr(CLAUDE.command("claude", call("-geheim"))).replace("argv", "")


# --- Environment -----------------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-134", "S0-138")
def test_claude_gets_what_is_on_its_list_and_nothing_else() -> None:
    # D49
    environment = CLAUDE.environment(ENVIRON, folders=FOLDERS, credential="canary-two")
    assert environment == {
        "PATH": "/usr/bin",
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        "USER": "someone",
        "SHELL": "/bin/sh",
        **FOLDERS.variables(),
        "CLAUDE_CODE_OAUTH_TOKEN": "canary-two",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        "NODE_OPTIONS": "--max-old-space-size=512",
    }


@pytest.mark.claim("S0-121", "S0-134")
def test_opencode_gets_what_is_on_its_list_and_nothing_else() -> None:
    environment = OPENCODE.environment(ENVIRON, folders=FOLDERS)
    expected = {
        "PATH": "/usr/bin",
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        "USER": "someone",
        "SHELL": "/bin/sh",
        **FOLDERS.variables(),
        "OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX": "64000",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_CLAUDE_CODE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        "OPENCODE_DISABLE_SHARE": "1",
        "NODE_OPTIONS": "--max-old-space-size=512",
    }
    assert environment == expected


def test_opencode_gets_its_key_by_name_only_where_the_home_is_a_developer_s_own() -> None:
    # its private home has it in a file, and opencode reads its environment for a model that asks for a link to it
    assert OPENCODE.environment(ENVIRON, folders=None)["VLAM_API_KEY"] == "canary-vlam"
    assert "VLAM_API_KEY" not in OPENCODE.environment(ENVIRON, folders=FOLDERS, credential="canary-vlam")


@each_dialect
def test_private_folders_take_the_place_of_the_users_own(provider: str) -> None:
    # D48
    private = DIALECTS[provider].environment(ENVIRON, folders=FOLDERS)
    assert {
        private[name].split("/home")[0] for name in private if name.startswith("XDG_") and name != "XDG_RUNTIME_DIR"
    } == {"/srv/1"}
    own = DIALECTS[provider].environment(ENVIRON, folders=None)
    assert (own["HOME"], own["TMPDIR"], own["XDG_CONFIG_HOME"]) == (
        "/home/someone",
        "/var/tmp",
        "/home/someone/.config",
    )


def test_the_server_of_claude_can_be_named() -> None:
    environment = CLAUDE.environment({"CLAUDE_BASE_URL": "http://127.0.0.1:9"}, folders=FOLDERS)
    assert environment["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:9"
    assert "CLAUDE_CODE_OAUTH_TOKEN" not in environment


@each_dialect
def test_more_variables_can_be_passed_by_name_and_secrets_cannot(provider: str) -> None:
    environment = DIALECTS[provider].environment(ENVIRON, folders=FOLDERS, extra=["API_TIMEOUT_MS", "ABSENT"])
    assert environment["API_TIMEOUT_MS"] == "5000"
    assert "ABSENT" not in environment
    for name in ("GIT_TOKEN", "my_secret", "DATABASE_URL", "ANTHROPIC_MODEL", "CLAUDE_CODE_EFFORT_LEVEL", "A B", ""):
        with pytest.raises(InvalidInput, match="ENRICH_AGENT_ENV"):
            DIALECTS[provider].environment(ENVIRON, folders=FOLDERS, extra=[name])
    assert check_extra(["A", "b_1"]) == ("A", "b_1")


@each_dialect
def test_extra_variables_do_not_undo_what_is_always_set(provider: str) -> None:
    environ = ENVIRON | {"DISABLE_AUTOUPDATER": "0", "HOME": "/elsewhere"}
    names = ["DISABLE_AUTOUPDATER", "OPENCODE_DISABLE_AUTOUPDATE", "HOME"]
    environment = DIALECTS[provider].environment(environ, folders=FOLDERS, extra=names)
    switch = "DISABLE_AUTOUPDATER" if provider == "claude" else "OPENCODE_DISABLE_AUTOUPDATE"
    assert (environment[switch], environment["HOME"]) == ("1", FOLDERS.home)


# --- Tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "seconds", "value", "told"),
    [
        ("one", 0, "one", "1 of 1"),
        ("one,", 150, "one", "1 of 1"),
        (" one , two ,", 99, "one", "1 of 2"),
        (" one , two ,", 100, "two", "2 of 2"),
        ("one,two,three", 10_000_000_000, "two", "2 of 3"),
    ],
)
def test_tokens_take_turns_of_100_seconds(tokens: str, seconds: int, value: str, told: str) -> None:
    chosen = choose(credentials_of("claude", {"CLAUDE_CODE_OAUTH_TOKEN": tokens}), seconds)
    assert chosen is not None
    assert (chosen.secret, str(chosen)) == (value, told)


@pytest.mark.parametrize("tokens", ["", " ", ",", " , ,"])
def test_no_token_is_none(tokens: str) -> None:
    assert choose(credentials_of("claude", {"CLAUDE_CODE_OAUTH_TOKEN": tokens}), 1000) is None


@given(st.lists(st.text("abc", min_size=1), min_size=1, max_size=5), st.floats(0, 1e10))
def test_a_chosen_token_is_one_of_those_given(tokens: list[str], seconds: float) -> None:
    chosen = choose(credentials_of("claude", {"CLAUDE_CODE_OAUTH_TOKEN": " , ".join(tokens)}), seconds)
    assert chosen is not None
    assert chosen.secret == tokens[chosen.position]


def test_a_token_tells_its_kind_and_never_itself() -> None:
    kinds = {"sk-ant-oat01-x": "oauth", "sk-ant-api03-x": "api-key", "else": "unknown"}
    for value, kind in kinds.items():
        [credential] = credentials_of("claude", {"CLAUDE_CODE_OAUTH_TOKEN": value})
        assert credential.kind == kind
        assert value not in repr(credential) + str(credential)


# --- Binary, model, effort -------------------------------------------------------------------------------------------


@pytest.mark.claim("S0-104", "S0-105", "S0-137")
@pytest.mark.parametrize(
    ("provider", "settings", "configured", "binary", "model"),
    [
        ("claude", {}, None, "claude", "claude-opus-5-5"),
        ("claude", {"LLM_PATH": "/l", "LLM_MODEL": "shared"}, None, "/l", "shared"),
        (
            "claude",
            {"CLAUDE_PATH": "/c", "LLM_PATH": "/l", "CLAUDE_MODEL": "own", "LLM_MODEL": "shared"},
            None,
            "/c",
            "own",
        ),
        ("claude", {"CLAUDE_PATH": " ", "CLAUDE_MODEL": "", "OPENCODE_MODEL": "o"}, None, "claude", "claude-opus-5-5"),
        ("opencode", {}, "vlam/kimi-k3-prepaid", "opencode", "vlam/kimi-k3-prepaid"),
        ("opencode", {}, None, "opencode", None),
        ("opencode", {"LLM_PATH": "/l", "LLM_MODEL": "shared"}, "vlam/kimi", "/l", "shared"),
        ("opencode", {"OPENCODE_PATH": "/o", "OPENCODE_MODEL": "own", "LLM_MODEL": "shared"}, "vlam/kimi", "/o", "own"),
    ],
)
def test_own_settings_come_before_shared_ones_before_defaults(
    provider: str, settings: dict[str, str], configured: str | None, binary: str, model: str | None
) -> None:
    dialect = DIALECTS[provider]
    assert (dialect.binary(settings), dialect.model(settings, configured)) == (binary, model)


def test_effort_is_one_of_the_words_the_cli_knows_or_its_own_choice() -> None:
    assert CLAUDE.effort({}) is None
    assert CLAUDE.effort({"LLM_EFFORT": ""}) is None
    assert CLAUDE.effort({"LLM_EFFORT": "xhigh"}) == "xhigh"
    with pytest.raises(InvalidInput, match="low, medium, high, xhigh, max"):
        CLAUDE.effort({"LLM_EFFORT": "huge"})
    assert OPENCODE.effort({"LLM_EFFORT": "high"}) is None
