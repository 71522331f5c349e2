"""The schema of the model, its runs, and the settings of storage and display."""

from __future__ import annotations

from dataclasses import field
from textwrap import fill
from typing import Literal

from agent.config._chat_keys import CLASH, KeysConfig, do_not_clash
from agent.config._setting import (
    SECONDS,
    above_zero,
    absolute,
    at_least_one,
    at_least_zero,
    at_most_a_day,
    is_base_url,
    is_env_name,
    is_store_url,
    is_thinking,
    setting,
)
from agent.providers.rows import DEFAULT, PROVIDERS, vendors
from toolcrib.contract.dataclass import dataclass

COUNT = "a whole number of 1 or more"
_PRICE = "a price in your currency, 0 or more, or null"
_PROVIDER = fill(
    f"The API of the server: {', '.join(f'{name} ({one.about})' if one.about else name for name, one in PROVIDERS.items())}, or "
    "a plugin's. manual: you call tools by hand. If this is empty, the server's address decides; without an address, the name of "
    "the model does, if the key of the model's vendor is set "
    f"({', '.join(f'{vendor.prefix}_API_KEY' for name, vendor in vendors().items() if name != DEFAULT)}). For any other "
    f"server or model that is set here, by an option or in {PROVIDERS[DEFAULT].vendor.prefix}_BASE_URL, it is {DEFAULT}. "
    "Without a server or model, it is manual.",
    118,
)


@dataclass(frozen=True, slots=True)
class PricesConfig:
    """Prices of a million tokens. Without them, the vendors' list prices are used if the extra `prices` is installed"""

    input: float | None = setting(None, "Price of input: all that the model reads.", expect=_PRICE, check=at_least_zero)
    output: float | None = setting(
        None, "Price of output: all that the model writes, including its thinking.", expect=_PRICE, check=at_least_zero
    )


@dataclass(frozen=True, slots=True)
class FallbackConfig:
    provider: str = setting("", "As model.provider.", expect="the name of a provider")
    name: str = setting("", "The model.", expect="text")
    base_url: str = setting(
        "", "Address of its server.", expect="an address that begins with http:// or https://", check=is_base_url
    )
    api_key_env: str = setting(
        "", "As model.api_key_env, for base_url.", expect="the name of an environment variable in capitals", check=is_env_name
    )
    prices: PricesConfig = field(default_factory=PricesConfig)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The model that drives the tools"""

    provider: str = setting(
        "",
        _PROVIDER,
        expect="the name of a provider",
    )
    protocol: str = setting(
        "",
        "How a model writes its calls if it writes them in text, not natively (hermes, qwen_xml, json_object, ...; the error\n"
        "for a wrong name lists all). Applies if provider is text, or chat and the server reports that the model has\n"
        "no native calls. If this is empty, the model's chat template decides if the server shows it (Ollama, llama.cpp), else\n"
        "the model's name does.",
        expect="the name of a text protocol",
    )
    name: str = setting("", "The model, by its name on the server.", expect="text")
    base_url: str = setting(
        "",
        "Address of the server, such as http://127.0.0.1:8080/v1.",
        expect="an address that begins with http:// or https://, without user, password or query; name the key in api_key_env",
        check=is_base_url,
    )
    api_key_env: str = setting(
        "",
        "The environment variable, or the line of secrets.env beside this file, that holds the key for base_url.\n"
        "toolcrib sends the key to that server only: an option or profile that sets another base_url must name its key too.",
        expect="the name of an environment variable in capitals, such as MY_API_KEY; put the key itself there or in secrets.env",
        check=is_env_name,
    )
    stream: bool = setting(True, "Whether a reply is shown while it arrives.", expect="true or false")
    max_output_tokens: int | None = setting(
        None, "Maximum tokens of one reply. null leaves it to the server.", expect=f"{COUNT}, or null", check=at_least_one
    )
    context_window: int | None = setting(
        None,
        "Size of the model's context in tokens, including its reply. null uses the server's value, or else the vendor's list.",
        expect=f"{COUNT}, or null",
        check=at_least_one,
    )
    thinking: str = setting(
        "",
        "How much the model thinks before it answers: low, medium, high, or a number of tokens. Empty leaves it to the server.\n"
        "The provider `text` and some providers of plugins do not support it.",
        expect="low, medium, high, or a number of tokens (1024 or more) in quotes: '4096'",
        check=is_thinking,
    )
    session_mode: Literal["stateless", "fresh", "resume"] = setting(
        "stateless",
        "If provider is text: what the server may keep of a conversation, by the header X-Session-ID. stateless: nothing.\n"
        "fresh: a new conversation for each request. resume: one conversation for the whole session.",
    )
    first_byte_timeout: float = setting(
        300.0,
        "Seconds that may pass without new content, before a reply begins and during it. Comments and empty events do not\n"
        "count as content. Raise it for a slow machine that reads long prompts.",
        expect=SECONDS,
        check=above_zero,
    )
    between_bytes_timeout: float = setting(
        300.0,
        "Seconds that a reply may be silent after it has begun. Some servers send nothing while the model writes a tool call.\n"
        "A reply that exceeds this, first_byte_timeout or reply_timeout is not retried, since a retry would take as long.",
        expect=SECONDS,
        check=above_zero,
    )
    reply_timeout: float = setting(3600.0, "Seconds that one whole reply may take.", expect=SECONDS, check=above_zero)
    prices: PricesConfig = field(default_factory=PricesConfig)
    fallback: tuple[FallbackConfig, ...] = setting(
        (),
        "Models to fall back to, in this order, if the one before is unreachable, overloaded or over its request limit:\n"
        "  fallback:\n"
        "    - {name: claude-sonnet-4-5, provider: anthropic, prices: {input: 3, output: 15}}\n"
        "    - {name: qwen3, base_url: 'http://127.0.0.1:11434/v1'}\n"
        "Each may have provider, name, base_url, api_key_env and prices.",
        expect="a list of models, each with provider, name, base_url, api_key_env and prices",
    )


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Limits of a run (besides max_turns, below)"""

    on_max_turns: Literal["final_answer", "error"] = setting(
        "final_answer",
        "What happens after the last turn. final_answer: the model is asked once more, for its answer. error: the run fails.",
    )
    max_tokens: int | None = setting(
        None,
        "Tokens that one run may use, in and out, as the server counts them. null sets no limit.",
        expect=f"{COUNT}, or null",
        check=at_least_one,
    )
    max_cost: float | None = setting(
        None,
        "Maximum cost of one run, by model.prices or list prices. A run that has reached it makes no further request. null sets\n"
        "no limit.",
        expect="a sum above 0, or null",
        check=above_zero,
    )


@dataclass(frozen=True, slots=True)
class DelegatesConfig:
    """Agents that a model starts with delegate_task. They never have more rights than the agent that starts them"""

    max_depth: int = setting(
        1,
        "Levels of delegates below a session. 1: delegates cannot delegate. 0: no delegates.",
        expect="a whole number, 0 or more",
        check=at_least_zero,
    )
    at_once: int = setting(
        3, "Delegates of one session that work at the same time; others wait.", expect=COUNT, check=at_least_one
    )
    max_turns: int = setting(
        30, "Turns of one delegate; after that it is asked for its answer.", expect=COUNT, check=at_least_one
    )
    seconds: float = setting(
        1_800.0,
        "Seconds that one delegate may take, at most a day; time that it waits for approval does not count.",
        expect="a number of seconds above 0, at most 86400",
        check=at_most_a_day,
    )


@dataclass(frozen=True, slots=True)
class SmartConfig:
    """A model that approves plainly harmless calls for you, such as rm -rf node_modules/"""

    enabled: bool = setting(
        False,
        "Whether this model is asked first. It receives the command, the folder and the findings of the rules. It never\n"
        "receives calls that are denied or asked about every time. Its approval covers one call; on any failure you are asked.",
        expect="true or false",
    )
    model: str = setting("", "The model. Empty uses model.name.", expect="text")
    provider: str = setting("", "As model.provider.", expect="the name of a provider")
    base_url: str = setting(
        "",
        "Address of its server. Empty uses that of model.",
        expect="an address that begins with http:// or https://",
        check=is_base_url,
    )
    api_key_env: str = setting(
        "", "As model.api_key_env, for base_url.", expect="the name of an environment variable in capitals", check=is_env_name
    )
    timeout: float = setting(20.0, "Seconds that it may take; after that you are asked.", expect=SECONDS, check=above_zero)


@dataclass(frozen=True, slots=True)
class CompressionConfig:
    """Compression of a full context: the middle of the conversation is summarised, and the session continues"""

    enabled: bool = setting(
        True,
        "Whether a full context is compressed automatically. If false, use /compress in the chat. The stored conversation stays\n"
        "complete: session_search finds it, and a fork contains all of it.",
        expect="true or false",
    )
    threshold: float = setting(
        0.8,
        "Compression starts before the next request if this part of model.context_window (or of the server's value) is used.\n"
        "If a server refuses a conversation as too long, compression runs whatever this value is, up to three times.",
        expect="a number from 0.3 to 0.95",
        check=lambda value: 0.3 <= value <= 0.95,
    )
    model: str = setting("", "The model that writes the summary. Empty uses the session's model.", expect="text")
    provider: str = setting("", "As model.provider.", expect="the name of a provider")
    base_url: str = setting(
        "",
        "Address of its server, which receives the text to summarise. Empty uses that of model.",
        expect="an address that begins with http:// or https://",
        check=is_base_url,
    )
    api_key_env: str = setting(
        "", "As model.api_key_env, for base_url.", expect="the name of an environment variable in capitals", check=is_env_name
    )
    summary_timeout: float = setting(
        300.0,
        "Seconds that a summary may take. Then nothing is compressed, unless the server refused the conversation as too long.",
        expect=SECONDS,
        check=above_zero,
    )


@dataclass(frozen=True, slots=True)
class RetryConfig:
    """Retries of requests to a model server, after errors that may be temporary"""

    attempts: int = setting(4, "Attempts in all; 1 means no retry.", expect=COUNT, check=at_least_one)
    first: float = setting(0.5, "Seconds before the second attempt; each further wait doubles.", expect=SECONDS, check=above_zero)
    longest: float = setting(20.0, "Longest wait between two attempts, in seconds.", expect=SECONDS, check=above_zero)
    patience: float = setting(
        60.0,
        "If a server asks to wait for more seconds than this, toolcrib stops retrying.",
        expect="a number of seconds, 0 or more",
        check=at_least_zero,
    )


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """The database that stores sessions"""

    enabled: bool = setting(True, "Whether sessions are stored. If false, they are lost when they end.", expect="true or false")
    url: str | None = setting(
        None,
        "URL of a PostgreSQL server, such as postgresql://me@db.example.org/toolcrib, instead of the file at path: several\n"
        "machines can share it. Put the password into $PGPASSWORD or ~/.pgpass; or leave this null, and put the whole URL\n"
        "into $TOOLCRIB_STORE_URL. It needs `pip install 'toolcrib[postgres]'`.",
        expect="postgresql://USER@HOST:PORT/DATABASE without a password, or null",
        check=is_store_url,
    )
    path: str | None = setting(
        None,
        "The database file, absolute or from ~. null uses toolcrib.db in the state folder ($TOOLCRIB_STATE, or\n"
        "$XDG_STATE_HOME/toolcrib).",
        expect="an absolute path, or null",
        check=absolute,
    )
    synchronous: Literal["NORMAL", "FULL"] = setting(
        "NORMAL", "NORMAL survives a killed process. FULL survives a loss of power too, and is slower."
    )


@dataclass(frozen=True, slots=True)
class SessionsConfig:
    """Titles and summaries of stored sessions. compression.model writes them if set, else the session's model"""

    titles: Literal["words", "model"] = setting(
        "words",
        "words: a session's title is the beginning of your first message. model: the model writes a title once, after the first\n"
        "answer, from that message and the answer. A title that you set is kept.",
    )
    summaries: bool = setting(
        False,
        "Whether session_search may let the model summarise its results on request. Like the results, the summary is treated as\n"
        "data, not as instructions.",
        expect="true or false",
    )


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """Notes that the agent keeps for later sessions, in files that `toolcrib memory` shows and edits"""

    enabled: bool = setting(
        True,
        "Whether models may write notes and receive them. With store.enabled: false no notes are kept.",
        expect="true or false",
    )
    max_chars: int = setting(
        4_000,
        "Maximum characters of each document that a model receives: its own notes, notes about you, and notes about the project.",
        expect="a whole number of 200 or more",
        check=lambda value: value >= 200,
    )


@dataclass(frozen=True, slots=True)
class InstructionsConfig:
    """Instructions that a project has for agents"""

    enabled: bool = setting(
        True,
        "Whether a model receives the project's AGENTS.md files (CLAUDE.md in a folder without one), from the project's root to\n"
        "the working folder: at most 32 KiB of a file and 64 KiB in all, marked as text that is not yours.",
        expect="true or false",
    )


@dataclass(frozen=True, slots=True)
class UndoConfig:
    """Earlier contents of files that tools replaced or deleted, for `toolcrib undo` and /undo"""

    enabled: bool = setting(True, "Whether earlier contents are kept.", expect="true or false")
    days: float = setting(
        14.0,
        "Days to keep the content of a file after it was replaced or deleted.",
        expect="a number of days above 0",
        check=above_zero,
    )
    max_mb: int = setting(
        500, "Approximate limit of all contents in MiB; the oldest are removed first.", expect=COUNT, check=at_least_one
    )
    max_file_mb: int = setting(
        20,
        "Largest file in MiB whose content is kept. A larger one can be replaced; the result reports that it cannot be undone.",
        expect=COUNT,
        check=at_least_one,
    )
    required: bool = setting(
        False, "Whether changes that cannot be undone are refused. If false, results name them.", expect="true or false"
    )


@dataclass(frozen=True, slots=True)
class DisplayConfig:
    """The look of the chat"""

    markdown: bool = setting(True, "Whether Markdown in answers is rendered.", expect="true or false")
    thinking: bool = setting(False, "Whether the model's thinking is shown, if the server sends it.", expect="true or false")
    color: Literal["auto", "always", "never"] = setting("auto", "auto: on a terminal, unless NO_COLOR is set.")
    theme: Literal["auto", "dark", "light", "colorblind", "none"] = setting(
        "auto", "Colours of the chat. auto: by the terminal's background, if the terminal reports it."
    )
    bell: Literal["auto", "always", "never"] = setting(
        "auto", "Whether an approval request in the chat rings the terminal's bell. auto: if you have not typed for 5 seconds."
    )
    screen_reader: bool = setting(
        False,
        "Whether the chat only appends text, in words and whole paragraphs, with no redrawn line and no spinner. Same as\n"
        "--screen-reader.",
        expect="true or false",
    )
    keys: KeysConfig = field(default_factory=KeysConfig, metadata={"expect": CLASH, "check": do_not_clash})
    notify: Literal["auto", "osc9", "osc777", "never"] = setting(
        "auto",
        "How the terminal shows a notification if a question waits in the chat and you have not typed for 5 seconds. auto: with\n"
        "the sequence that the terminal is known to support, if any. approval.notify_command runs a command as well.",
    )
    editing_mode: Literal["emacs", "vi"] = setting(
        "emacs", "Keys that edit your input in the chat. vi: Esc leaves the insert mode; Esc again interrupts the run."
    )
