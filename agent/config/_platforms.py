"""Keys of one platform: its tools, its users and its chats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from agent.config._setting import all_text, at_least_zero, setting
from toolcrib.contract.dataclass import dataclass

_NAMES = "a list of names"
_PEOPLE = "a list of the platform's user ids, role:NAME for a role there, or '*' for everybody"


@dataclass(frozen=True, slots=True)
class PlatformConfig:
    enabled_toolsets: tuple[str, ...] | None = setting(
        None,
        "Toolsets on this platform, instead of toolsets.enabled. null uses toolsets.enabled.",
        expect=f"{_NAMES}, or null",
        check=all_text,
    )
    disabled_toolsets: tuple[str, ...] = setting(
        (), "Toolsets to disable on this platform, besides toolsets.disabled.", expect=_NAMES, check=all_text
    )
    disabled_tools: tuple[str, ...] = setting(
        (), "Tools to disable on this platform, besides tools.disabled.", expect=_NAMES, check=all_text
    )
    smart_approval: bool = setting(
        True, "Whether approval.smart, if enabled, may approve on this platform.", expect="true or false"
    )
    allowed_users: tuple[str, ...] = setting(
        (),
        "Users who may chat there, besides paired ones (`toolcrib gateway pair`). Messages of all others are ignored.",
        expect=_PEOPLE,
        check=all_text,
    )
    allowed_chats: tuple[str, ...] = setting(
        (),
        "Groups where the bot answers users who may chat. It always answers them in direct chats.",
        expect="a list of the platform's chat ids, or '*'",
        check=all_text,
    )
    messages_to: tuple[str, ...] = setting(
        (),
        "Chats that every session with send_message may write to without asking, besides the chats of its own user.",
        expect="a list of the platform's chat ids",
        check=all_text,
    )
    roles: Mapping[str, tuple[str, ...]] = setting(
        dict,
        "Roles here, each with its users: roles: {owner: ['12345'], admins: ['role:Moderators']}. Roles decide who may approve\n"
        "which calls (gateway.approvers) and who may use the gateway's commands. `owner` is you.",
        expect=f"names of roles, each with {_PEOPLE}",
    )
    strangers: Literal["silent", "told"] = setting(
        "silent", "How the bot answers users who may not chat. silent: not at all. `told`: one polite line a day."
    )
    groups: Literal["addressed", "all"] = setting(
        "addressed",
        "Which messages of a group are answered. addressed: mentions of the bot and replies to it. all: every message.",
        expect="addressed or all",
    )
    busy: Literal["queue", "steer", "interrupt"] = setting(
        "queue",
        "What happens to a message that arrives during its sender's run. queue: it waits. steer: the model receives it with\n"
        "the next tool results. interrupt: it ends the run. Messages of other users always wait.",
        expect="queue, steer or interrupt",
    )
    renew_hours: float = setting(
        0.0,
        "Hours without a message after which a chat begins a new session; 0 means never.",
        expect="a number of hours, 0 or more",
        check=at_least_zero,
    )
    streams: bool = setting(
        True, "Whether answers appear while they are written, if the platform can edit messages.", expect="true or false"
    )
    backend: str = setting(
        "",
        "Backend that this platform's chats run commands in. Empty uses terminal.backend. If commands there could reach\n"
        "toolcrib's own files, as with local, chats of users other than the owner get no tools that run commands or edit files.",
        expect="the name of a backend, or nothing",
    )
    allow_local: bool = setting(
        False,
        "Whether chats of users other than the owner get such tools even if commands could reach toolcrib's own files. The\n"
        "tools then act on this machine with your rights.",
        expect="true or false",
    )
    folders: Mapping[str, str] = setting(
        dict,
        "Folders of chats, by the platform's chat id. Other chats get an empty folder of their own.",
        expect="chat ids, each with a path",
    )
    messages_per_hour: int = setting(
        0,
        "Messages that one user may send in an hour; 0 sets no limit. There is no limit for the owner.",
        expect="a number, 0 or more",
        check=at_least_zero,
    )
    runs_at_once: int = setting(
        0,
        "Runs that one user may have at a time, in all chats; 0 sets no limit. There is no limit for the owner.",
        expect="a number, 0 or more",
        check=at_least_zero,
    )
    tokens_per_day: int = setting(
        0,
        "Tokens that one user's own chats, or one group, may use in a day; 0 sets no limit. There is no limit for the owner.",
        expect="a number, 0 or more",
        check=at_least_zero,
    )
    cost_per_day: float = setting(
        0.0,
        "Cost that one user's own chats, or one group, may have in a day, by the models' prices; 0 sets no limit. There is no\n"
        "limit for the owner.",
        expect="a number, 0 or more",
        check=at_least_zero,
    )
    settings: Mapping[str, str] = setting(
        dict,
        "The platform's own settings, such as a server's address; see its documentation. Put keys and passwords into the\n"
        "environment or into secrets.env.",
        expect="names, each with a text",
    )


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The gateway: chats on other platforms"""

    approvers: Mapping[str, tuple[str, ...]] = setting(
        dict,
        "Roles that may approve each finding of the rules, by the finding's name or its beginning. The longest match applies;\n"
        "without a match, the role is owner: approvers: {fs: [owner, admins], git.push-force: [admins]}",
        expect="names of findings (fs, git.push-force), each with a list of roles",
    )
    host: str = setting(
        "127.0.0.1",
        "Address that gateway.port listens on. Anyone who can reach it can read the metrics.",
        expect="an address of this machine",
    )
    port: int = setting(
        0,
        "Port for metrics (/metrics, Prometheus) and health (/healthz); 0 disables both.",
        expect="a port number, or 0",
        check=lambda value: 0 <= value < 65_536,
    )
    drain_seconds: float = setting(
        30.0,
        "Seconds that runs may take to finish after the gateway is stopped. Unfinished runs resume at the next start.",
        expect="a number of seconds, 0 or more",
        check=at_least_zero,
    )
    logs: Literal["text", "json"] = setting(
        "text", "Form of the gateway's log on standard error; `gateway run --logs` overrides it.", expect="text or json"
    )
    sessions: int = setting(
        500,
        "Chats that are kept open at a time. The least recently used one is closed, and reopened by its next message.",
        expect="a number above 0",
        check=lambda value: value > 0,
    )
