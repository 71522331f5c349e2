"""The part of the schema about the model, its runs, and what is kept and shown of them."""

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
    "one that a plugin adds. manual: you type the calls. If empty, the server's address decides, then the model's name if that "
    f"vendor's key is set ({', '.join(f'{vendor.prefix}_API_KEY' for name, vendor in vendors().items() if name != DEFAULT)}); "
    f"{DEFAULT} if another server is named (here, by options or by {PROVIDERS[DEFAULT].vendor.prefix}_BASE_URL), else manual.",
    118,
)


@dataclass(frozen=True, slots=True)
class PricesConfig:
    """Prices of a million tokens, for run.max_cost"""

    input: float | None = setting(None, "Of what the model reads.", expect=_PRICE, check=at_least_zero)
    output: float | None = setting(None, "Of what it writes, its thinking too.", expect=_PRICE, check=at_least_zero)


@dataclass(frozen=True, slots=True)
class FallbackConfig:
    provider: str = setting("", "As model.provider.", expect="the name of a provider")
    name: str = setting("", "The model.", expect="text")
    base_url: str = setting(
        "", "Where its server is.", expect="an address that begins with http:// or https://", check=is_base_url
    )
    api_key_env: str = setting(
        "", "Where its key is.", expect="the name of an environment variable in capitals", check=is_env_name
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
        "How a model writes its calls where it is spoken to in text (hermes, qwen_xml, json_object, ...; a wrong name is told\n"
        "with all that there are): with the provider text, and with chat where the server says that the model has no native\n"
        "calls. Empty goes by the model's chat template where the server shows it (Ollama, llama.cpp), else by its name.",
        expect="the name of a text protocol",
    )
    name: str = setting("", "The model, as its server calls it.", expect="text")
    base_url: str = setting(
        "",
        "Where the server is, such as http://127.0.0.1:8080/v1.",
        expect="an address that begins with http:// or https://, without user, password or query; a key belongs to api_key_env",
        check=is_base_url,
    )
    api_key_env: str = setting(
        "",
        "The environment variable, or the line of secrets.env beside this file, that holds the key for base_url.\n"
        "The key goes to that server alone: whatever sets another base_url must name its key too.",
        expect="the name of an environment variable in capitals, such as MY_API_KEY; the key itself goes there or to secrets.env",
        check=is_env_name,
    )
    stream: bool = setting(True, "Whether a reply is shown as it comes.", expect="true or false")
    max_output_tokens: int | None = setting(
        None, "Tokens that one reply may have. null leaves it to the server.", expect=f"{COUNT}, or null", check=at_least_one
    )
    context_window: int | None = setting(
        None,
        "Tokens that the model reads in all, its reply included. null goes by what its server says.",
        expect=f"{COUNT}, or null",
        check=at_least_one,
    )
    thinking: str = setting(
        "",
        "How much the model thinks before it answers: low, medium, high, or a number of tokens. Empty leaves it to the server.\n"
        "The provider text has none, and a plugin's may have none.",
        expect="low, medium, high, or a number of tokens (1024 or more) in quotes: '4096'",
        check=is_thinking,
    )
    session_mode: Literal["stateless", "fresh", "resume"] = setting(
        "stateless",
        "What a server of the provider text may keep of a conversation, by the header X-Session-ID. stateless: nothing. fresh:\n"
        "a new one each time. resume: the same as long as the session goes on.",
    )
    first_byte_timeout: float = setting(
        300.0,
        "Seconds that the server may take before its reply begins, and again before more of it comes: comments and empty events\n"
        "only keep the connection alive. A slow machine that reads a long prompt for longer needs more.",
        expect=SECONDS,
        check=above_zero,
    )
    between_bytes_timeout: float = setting(
        300.0,
        "Seconds that a reply, once begun, may be silent. Some servers send nothing while the model writes a whole tool call.\n"
        "A reply that reached one of these three limits is not asked for again by itself: it would take as long.",
        expect=SECONDS,
        check=above_zero,
    )
    reply_timeout: float = setting(3600.0, "Seconds that one reply may take in all.", expect=SECONDS, check=above_zero)
    prices: PricesConfig = field(default_factory=PricesConfig)
    fallback: tuple[FallbackConfig, ...] = setting(
        (),
        "Models that go on, in this order, where the one before can't be reached, is overloaded or takes no more requests:\n"
        "  fallback:\n"
        "    - {name: claude-sonnet-4-5, provider: anthropic, prices: {input: 3, output: 15}}\n"
        "    - {name: qwen3, base_url: 'http://127.0.0.1:11434/v1'}\n"
        "Each may have provider, name, base_url, api_key_env and prices.",
        expect="a list of models, each with provider, name, base_url, api_key_env and prices",
    )


@dataclass(frozen=True, slots=True)
class RunConfig:
    """When a run ends (besides max_turns, below)"""

    on_max_turns: Literal["final_answer", "error"] = setting(
        "final_answer",
        "What follows the last turn of max_turns. final_answer: the model is asked once more, for its answer. error: a fault.",
    )
    max_tokens: int | None = setting(
        None,
        "Tokens that one run may use, in and out, as the server counts them. null sets no limit.",
        expect=f"{COUNT}, or null",
        check=at_least_one,
    )
    max_cost: float | None = setting(
        None,
        "What one run may cost, by model.prices. null sets no limit. A run that spent it asks no more.",
        expect="a sum above 0, or null",
        check=above_zero,
    )


@dataclass(frozen=True, slots=True)
class DelegatesConfig:
    """Agents to which a model hands tasks by delegate_task. They never may more than who delegates"""

    max_depth: int = setting(
        1,
        "Levels of delegates below a session. 1: delegates have none of their own. 0: there are none at all.",
        expect="a whole number, 0 or more",
        check=at_least_zero,
    )
    at_once: int = setting(
        3, "Delegates of one session that work at the same time; others wait for their turn.", expect=COUNT, check=at_least_one
    )
    max_turns: int = setting(30, "Turns that one has; then it is asked for its answer.", expect=COUNT, check=at_least_one)
    seconds: float = setting(
        1_800.0,
        "Seconds that one may take, at most a day; the time in which a person is asked does not count.",
        expect="a number of seconds above 0, at most 86400",
        check=at_most_a_day,
    )


@dataclass(frozen=True, slots=True)
class SmartConfig:
    """A model that agrees in your place to what is plainly harmless, such as rm -rf node_modules/"""

    enabled: bool = setting(
        False,
        "Whether it is asked first. It never sees what is asked every time or refused, its yes covers one call, and whatever\n"
        "goes wrong with it leaves the question to you. It is told the command, the folder and what the rules found.",
        expect="true or false",
    )
    model: str = setting("", "The model. Empty takes model.name.", expect="text")
    provider: str = setting("", "As model.provider.", expect="the name of a provider")
    base_url: str = setting(
        "",
        "Where its server is. Empty takes that of model.",
        expect="an address that begins with http:// or https://",
        check=is_base_url,
    )
    api_key_env: str = setting(
        "", "Where the key for base_url is.", expect="the name of an environment variable in capitals", check=is_env_name
    )
    timeout: float = setting(20.0, "Seconds that it has; after that you are asked.", expect=SECONDS, check=above_zero)


@dataclass(frozen=True, slots=True)
class CompressionConfig:
    """A context that fills: the middle of the conversation is summarised, and the session goes on"""

    enabled: bool = setting(
        True,
        "Whether that happens by itself. false leaves it to /compress in the chat. Nothing that is stored is lost by it:\n"
        "session_search finds it, and a fork has it whole.",
        expect="true or false",
    )
    threshold: float = setting(
        0.8,
        "The part of model.context_window (or of what the server says) from which on it happens, before the next request. A\n"
        "server that refuses a conversation as too long has it happen once, whatever stands here.",
        expect="a number from 0.3 to 0.95",
        check=lambda value: 0.3 <= value <= 0.95,
    )
    model: str = setting("", "The model that writes the summary. Empty takes the one that answers in the session.", expect="text")
    provider: str = setting("", "As model.provider.", expect="the name of a provider")
    base_url: str = setting(
        "",
        "Where its server is; it reads what it summarises. Empty takes that of model.",
        expect="an address that begins with http:// or https://",
        check=is_base_url,
    )
    api_key_env: str = setting(
        "", "Where the key for base_url is.", expect="the name of an environment variable in capitals", check=is_env_name
    )
    summary_timeout: float = setting(
        300.0, "Seconds that it has for a summary; after that all stays as it was.", expect=SECONDS, check=above_zero
    )


@dataclass(frozen=True, slots=True)
class RetryConfig:
    """Asking a model server again, when that may help"""

    attempts: int = setting(4, "Times in all; 1 never asks again.", expect=COUNT, check=at_least_one)
    first: float = setting(
        0.5, "Seconds before the second attempt; each further wait is twice as long.", expect=SECONDS, check=above_zero
    )
    longest: float = setting(20.0, "Seconds of the longest such wait.", expect=SECONDS, check=above_zero)
    patience: float = setting(
        60.0,
        "A server that asks to wait longer than these seconds is not waited for.",
        expect="a number of seconds, 0 or more",
        check=at_least_zero,
    )


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """The database in which sessions are kept"""

    enabled: bool = setting(True, "Whether sessions are kept. false forgets them at the end.", expect="true or false")
    url: str | None = setting(
        None,
        "A PostgreSQL server that keeps them instead of the file at path, for several machines: its URL, such as\n"
        "postgresql://me@db.example.org/toolcrib, without a password: that stands in $PGPASSWORD or ~/.pgpass, or the whole URL\n"
        "in $TOOLCRIB_STORE_URL, which null takes. It needs `pip install 'toolcrib[postgres]'`.",
        expect="postgresql://USER@HOST:PORT/DATABASE without a password, or null",
        check=is_store_url,
    )
    path: str | None = setting(
        None,
        "The database, absolute or from ~. null takes toolcrib.db in the state folder ($TOOLCRIB_STATE, or\n"
        "$XDG_STATE_HOME/toolcrib).",
        expect="an absolute path, or null",
        check=absolute,
    )
    synchronous: Literal["NORMAL", "FULL"] = setting(
        "NORMAL", "NORMAL survives a killed process; FULL a loss of power too, and takes longer."
    )


@dataclass(frozen=True, slots=True)
class SessionsConfig:
    """What a model writes about stored sessions: the one that compression names, else the one that answers in the session"""

    titles: Literal["words", "model"] = setting(
        "words",
        "words: a session's title is how your first message begins. model: the model is asked for one, once, after the first\n"
        "answer, and reads that message and the answer for it. A title that you gave stays.",
    )
    summaries: bool = setting(
        False,
        "Whether session_search may have the model summarise what it found, where it is asked for that. The summary is data as\n"
        "what was found is.",
        expect="true or false",
    )


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """Notes that the agent keeps for later sessions, in files that `toolcrib memory` shows and edits"""

    enabled: bool = setting(
        True,
        "Whether models may keep notes and are told them. With store.enabled: false nothing is kept.",
        expect="true or false",
    )
    max_chars: int = setting(
        4_000,
        "Characters of each document that a model is told: its notes, those about you, and those about the project.",
        expect="a whole number of 200 or more",
        check=lambda value: value >= 200,
    )


@dataclass(frozen=True, slots=True)
class InstructionsConfig:
    """Instructions that a project has for whoever works in it"""

    enabled: bool = setting(
        True,
        "Whether a model is told the project's AGENTS.md (CLAUDE.md in a folder without one), from the project's root to the\n"
        "working folder, as text that is not yours: 32 KiB of a file, 64 KiB in all.",
        expect="true or false",
    )


@dataclass(frozen=True, slots=True)
class UndoConfig:
    """Earlier contents of files that tools replaced or deleted, for `toolcrib undo` and /undo"""

    enabled: bool = setting(True, "Whether it is kept.", expect="true or false")
    days: float = setting(
        14.0, "Days that a content is kept after it was replaced.", expect="a number of days above 0", check=above_zero
    )
    max_mb: int = setting(500, "MiB that all of it takes, more or less; the oldest goes first.", expect=COUNT, check=at_least_one)
    max_file_mb: int = setting(
        20,
        "A file with more MiB is not kept: it can be replaced, and the result says that this can't be undone.",
        expect=COUNT,
        check=at_least_one,
    )
    required: bool = setting(
        False, "Whether file tools may change only what can be undone; if not, results name what can't.", expect="true or false"
    )


@dataclass(frozen=True, slots=True)
class DisplayConfig:
    """The look of the chat"""

    markdown: bool = setting(True, "Whether answers are laid out, or shown as the model wrote them.", expect="true or false")
    thinking: bool = setting(False, "Whether the model's thinking is shown, where it comes.", expect="true or false")
    color: Literal["auto", "always", "never"] = setting("auto", "auto: on a terminal, where NO_COLOR is not set.")
    theme: Literal["auto", "dark", "light", "colorblind", "none"] = setting(
        "auto", "Colours of the chat. auto: by the terminal's background, as far as it tells."
    )
    bell: Literal["auto", "always", "never"] = setting(
        "auto", "Whether a question of the chat rings the terminal's bell. auto: where nobody has typed for 5 seconds."
    )
    screen_reader: bool = setting(
        False,
        "Whether the chat only adds lines, in words, whole paragraphs at a time: nothing is painted anew, nothing spins. As\n"
        "--screen-reader.",
        expect="true or false",
    )
    keys: KeysConfig = field(default_factory=KeysConfig, metadata={"expect": CLASH, "check": do_not_clash})
