"""Keys of one platform: its tools, and who may chat there, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from agent.config._setting import all_text, at_least_zero, setting
from toolcrib.contract.dataclass import dataclass

_NAMES = "a list of names"
_PEOPLE = "a list of the platform's ids of users, role:NAME for a role there, or '*' for everybody"


@dataclass(frozen=True, slots=True)
class PlatformConfig:
    enabled_toolsets: tuple[str, ...] | None = setting(
        None,
        "Toolsets on this platform, instead of toolsets.enabled. null leaves that as it is.",
        expect=f"{_NAMES}, or null",
        check=all_text,
    )
    disabled_toolsets: tuple[str, ...] = setting(
        (), "Toolsets not on this platform, besides toolsets.disabled.", expect=_NAMES, check=all_text
    )
    disabled_tools: tuple[str, ...] = setting(
        (), "Tools not on this platform, besides tools.disabled.", expect=_NAMES, check=all_text
    )
    smart_approval: bool = setting(
        True, "Whether approval.smart, where it is enabled, may answer on this platform.", expect="true or false"
    )
    allowed_users: tuple[str, ...] = setting(
        (),
        "Who may chat there, besides those who paired (`toolcrib gateway pair`). Nobody else is listened to.",
        expect=_PEOPLE,
        check=all_text,
    )
    allowed_chats: tuple[str, ...] = setting(
        (),
        "Groups in which those who may chat are listened to; in direct chats they always are.",
        expect="a list of the platform's ids of chats, or '*'",
        check=all_text,
    )
    messages_to: tuple[str, ...] = setting(
        (),
        "Chats to which every session that has send_message sends without asking, besides those of whom it acts for.",
        expect="a list of the platform's ids of chats",
        check=all_text,
    )
    roles: Mapping[str, tuple[str, ...]] = setting(
        dict,
        "Roles here, each with who has it: roles: {owner: ['12345'], admins: ['role:Moderators']}. They decide who may approve\n"
        "what (gateway.approvers) and who may give the gateway commands. `owner` is you.",
        expect=f"names of roles, each with {_PEOPLE}",
    )
    strangers: Literal["silent", "told"] = setting(
        "silent", "What somebody meets who may not chat: nothing, or one polite line a day.", expect="silent or told"
    )
    groups: Literal["addressed", "all"] = setting(
        "addressed",
        "Which messages of a group are answered: those that mention or answer the bot, or all.",
        expect="addressed or all",
    )
    busy: Literal["queue", "steer", "interrupt"] = setting(
        "queue",
        "What a message does while its sender's run is under way: it waits, the model reads it with the next results, or it\n"
        "ends the run. Another speaker's message always waits.",
        expect="queue, steer or interrupt",
    )
    renew_hours: float = setting(
        0.0,
        "Hours without a message after which a chat begins a new session; 0 for never.",
        expect="a number of hours, 0 or more",
        check=at_least_zero,
    )
    streams: bool = setting(
        True, "Show answers while they come, where the platform can edit its messages.", expect="true or false"
    )
    backend: str = setting(
        "",
        "Where commands of this platform's chats run: a backend by name; empty is terminal.backend. Chats of others than the\n"
        "owner get no tool that runs or edits where that could reach toolcrib's own files, as local can.",
        expect="the name of a backend, or nothing",
    )
    allow_local: bool = setting(
        False,
        "Let others than the owner run commands on this machine, with your rights, all the same.",
        expect="true or false",
    )
    folders: Mapping[str, str] = setting(
        dict,
        "Folders of chats, by the platform's id of the chat; the others get an empty folder of their own.",
        expect="ids of chats, each with a path",
    )
    messages_per_hour: int = setting(
        0,
        "Messages that one user may send in an hour; 0 for no limit. The owner has none.",
        expect="a number, 0 or more",
        check=at_least_zero,
    )
    runs_at_once: int = setting(
        0,
        "Runs that one user may have under way at once, in all chats; 0 for no limit. The owner has none.",
        expect="a number, 0 or more",
        check=at_least_zero,
    )
    tokens_per_day: int = setting(
        0,
        "Tokens that one user's own chats, or one group, may use in a day; 0 for no limit. The owner has none.",
        expect="a number, 0 or more",
        check=at_least_zero,
    )
    cost_per_day: float = setting(
        0.0,
        "Cost that one user's own chats, or one group, may have in a day, by the models' prices; 0 for no limit. The owner has\n"
        "none.",
        expect="a number, 0 or more",
        check=at_least_zero,
    )
    settings: Mapping[str, str] = setting(
        dict,
        "The platform's own settings, such as a server's address; its documentation names them. Keys and passwords go to the\n"
        "environment or to secrets.env.",
        expect="names, each with a text",
    )


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The gateway: chats on other platforms"""

    approvers: Mapping[str, tuple[str, ...]] = setting(
        dict,
        "Roles that may agree to what the approval rules find, by the finding's name or the beginning of it; the longest that\n"
        "fits counts, and where none does, owner: approvers: {fs: [owner, admins], git.push-force: [admins]}",
        expect="names of findings (fs, git.push-force), each with a list of roles",
    )
    host: str = setting(
        "127.0.0.1",
        "Address at which gateway.port listens. Whoever reaches it reads the figures.",
        expect="an address of this machine",
    )
    port: int = setting(
        0,
        "Port for metrics (/metrics, Prometheus) and health (/healthz); 0 for none.",
        expect="a port number, or 0",
        check=lambda value: 0 <= value < 65_536,
    )
    drain_seconds: float = setting(
        30.0,
        "Seconds for which runs may go on to their end once the gateway is to stop; what is left goes on at the next start.",
        expect="a number of seconds, 0 or more",
        check=at_least_zero,
    )
    logs: Literal["text", "json"] = setting(
        "text", "Form of the gateway's log, on standard error; `gateway run --logs` goes before it.", expect="text or json"
    )
    sessions: int = setting(
        500,
        "Chats that are kept open at once; the one used longest ago is closed first, and opened again by its next message.",
        expect="a number above 0",
        check=lambda value: value > 0,
    )
