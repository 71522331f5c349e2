"""SessionRequest: the session that an interface wants to open, its owner and its settings.

Every interface opens sessions with one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from toolcrib.contract.context import EventSink, Principal
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.types import Handler
from tools.dispatch.scope import Asker

if TYPE_CHECKING:
    import inspect

    from agent.conversation.limits import RunLimits
    from agent.conversation.lineage import Descent
    from agent.events import Emit
    from agent.model_choice.models import ModelChoice
    from tools.approval.policy import ToolRules, ToolRulesByName

DelegateUse: TypeAlias = Literal["background", "anytime", "awaited"]
"""Ways to run a session's delegates. ``background``: beside the session; their approval requests wait for its next run.

``anytime``: their approval requests also reach the user between runs. ``awaited``: the run waits for the delegates.
"""
_Fields = ParamSpec("_Fields")
_Self = TypeVar("_Self")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """An interface's request. Each field has a default, so a request names only what differs for its session.

    Whose session: ``platform``, ``user`` and ``roles`` name its owner, and decide which tools it is granted. Without an ``asker``
    every call that needs approval is denied; with ``suspends`` the run is parked instead.

    Which session: ``resume`` continues a stored one by its id or the beginning of its id. ``latest`` continues the last one of
    this platform, user and folder. Both run where the session ran before, unless ``backend`` names another. ``named`` is a full
    id: that session is continued, or created. ``once``: the session will not be continued, so no container is kept for it.

    Where: ``folder`` is the project's folder; None is the folder of the process. ``backend`` is the user's choice (see
    agent.backends), "" uses the configured one. ``cwd`` is the folder that commands start in, on the backend if that is remote.

    Settings: ``enabled`` and ``disabled`` are toolsets. ``handlers``, by tool name, run tools that are registered without a
    handler, and take precedence over toolcrib's own. ``choice`` is the model of a new session, and is stored with the session.
    ``mode`` is also the user's choice (see tools.approval.modes), "" keeps the session's or uses the configured one.
    """

    platform: str = "cli"
    user: str = ""
    roles: Sequence[str] = ()
    asker: Asker | None = None
    suspends: bool = False
    cwd: str | None = None
    backend: str = ""
    enabled: Sequence[str] | None = None
    disabled: Sequence[str] | None = None
    sink: EventSink | None = None
    resume: str = ""
    latest: bool = False
    named: str = ""
    handlers: Mapping[str, Handler] | None = None
    once: bool = False
    choice: ModelChoice | None = None
    mode: str = ""
    folder: Path | None = None
    without: Collection[str] = ()
    """Tools that the session never has, in any user's run."""
    within: Collection[str] | None = None
    """The only tools that it may have; None for no bound."""
    acts_for: Principal | None = None
    """The principal of its runs, if not its owner."""
    instructions: str = ""
    """Instructions for its model, in addition to the prompt."""
    limits: RunLimits | None = None
    """Limits of its runs; None for the configured limits."""
    max_turns: int | None = None
    """Turns of a run, if the configuration does not set them."""
    watch: Emit = lambda event: None
    """Called with each event of its runs and calls; see agent.events."""
    admits: Callable[[Principal], Awaitable[None]] | None = None
    """Awaited before a message's run begins. It raises ToolcribError to refuse the run; then the message gets no answer."""
    more_turns: Callable[[int], Coroutine[Any, Any, int]] | None = None
    """Called at the end of a run's turns, with their number. Returns how many more turns to allow; 0 ends the run."""
    delegates: DelegateUse = "background"
    smart: bool = True
    """False: the model of approval.smart approves no call here, because no user sees its approvals."""
    tool_rules: ToolRules | ToolRulesByName | None = None
    """Decisions about tools that replace the configured ones."""
    leaves_open: bool = False
    """True: the tickets of a waiting run stay open for the user, who can answer elsewhere."""
    whole_results: bool = False
    """True: a result that is too long names a file with the full text instead of an artifact of the session."""
    descent: Descent | None = None
    """The inheritance of a delegate's session from its parent; None for a user's session."""

    @property
    def principal(self) -> Principal:
        """The principal that owns the session."""
        return Principal(self.platform, self.user, tuple(self.roles))


def by_fields(
    make: Callable[_Fields, SessionRequest],
) -> Callable[[Callable[[_Self, SessionRequest], _Result]], Callable[Concatenate[_Self, _Fields], _Result]]:
    """Return a decorator for methods that take a SessionRequest: callers pass its fields instead."""

    def wrap(method: Callable[[_Self, SessionRequest], _Result]) -> Callable[Concatenate[_Self, _Fields], _Result]:
        def call(self: _Self, /, *args: _Fields.args, **fields: _Fields.kwargs) -> _Result:
            return method(self, make(*args, **fields))

        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(call, name, getattr(method, name))
        vars(call)["__wrapped__"] = _Signed()
        return call

    return wrap


class _Signed:
    """Gives ``inspect.signature`` and ``help`` the fields as parameters when they ask for the signature."""

    def __call__(self) -> None:
        """Do nothing: only a callable has a signature."""

    @property
    def __signature__(self) -> inspect.Signature:
        import dataclasses
        import inspect

        one = inspect.Parameter
        named = [
            one(given.name, one.KEYWORD_ONLY, default=None if given.default is dataclasses.MISSING else given.default)
            for given in dataclasses.fields(SessionRequest)
        ]
        return inspect.Signature([one("self", one.POSITIONAL_OR_KEYWORD), *named])
