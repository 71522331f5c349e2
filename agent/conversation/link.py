"""A session's model: its provider session, opened on first use and kept in step with the transcript."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from agent.providers.abilities import model_of
from agent.providers.rows import MANUAL
from toolcrib.contract.context import Principal
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall, ProviderSession, ProviderTurn
from toolcrib.contract.types import ToolCall

if TYPE_CHECKING:
    from agent.conversation.prompting import SessionPrompt
    from agent.conversation.transcript import Transcript
    from agent.model_choice.models import ModelChoice


class ModelLink:
    """A session's link to its model. ``choice`` is the user's choice of a model. A provider session that a caller opened (see
    ``use``) is never reopened.

    ``open_model`` opens a provider session for a choice. ``window`` is the configured size of the model's context, if any.
    """

    def __init__(
        self,
        transcript: Transcript,
        prompt: SessionPrompt,
        open_model: Callable[[ModelChoice | None], Awaitable[ProviderSession]],
        window: int | None,
    ) -> None:
        self._transcript = transcript
        self._prompt = prompt
        self._open_model = open_model
        self._configured = window
        self._provider: ProviderSession | None = None
        self._known = 0
        """Number of the transcript's records that the provider session has."""
        self._given = False
        self._asked: tuple[str, ProviderTurn] | None = None
        """The id of the last turn with calls, and the turn; None unless the caller gave the provider session."""
        self.wire = MANUAL
        self.via: dict[str, Any] = {}
        """The provider, model and base_url in use; empty if the user types the calls."""
        self.choice: ModelChoice | None = None
        self.instructions = ""
        self.allows_manual = False
        self.more_turns: Callable[[int], Coroutine[Any, Any, int]] | None = None
        """Called at the end of a run's turns, with their number. Returns how many more turns to allow; 0 ends the run."""
        self.admits: Callable[[Principal], Awaitable[None]] | None = None
        """Awaited before a message's run begins; raises ToolcribError to refuse the run. Then the message gets no answer."""
        self.windows: dict[tuple[str, str], int] = {}
        """Context windows in tokens, by base_url and name, as servers reported them to this session."""
        self.learned: dict[tuple[str, str], int] = {}
        """Context windows estimated from refusals, if no server reported one; the sessions of a workspace share them."""
        self.listed: dict[tuple[str, str], int] = {}
        """Context windows from the vendors' lists, if no server reported one and no refusal corrected it."""
        self.name = ""
        """The model's name; "" if the user types the calls, or before the model was first opened."""

    def use(self, provider: ProviderSession) -> None:
        """Use a provider session that the caller opened."""
        self._provider, self._given, self._known, self._asked = provider, True, self._transcript.count, None

    @property
    def is_given(self) -> bool:
        """True for a provider session that a caller opened: it can't be reopened."""
        return self._given

    @property
    def about(self) -> tuple[str, str]:
        """The base_url and name of the current model: the key in ``windows``."""
        return str(self.via.get("base_url")), str(self.via.get("model"))

    @property
    def window(self) -> int | None:
        """The model's window in tokens: configured, reported, estimated or listed; None if unknown."""
        about = self.about
        return self._configured or self.windows.get(about) or self.learned.get(about) or self.listed.get(about)

    @property
    def provider(self) -> ProviderSession | None:
        """The open provider session, or None."""
        return self._provider

    async def opened(self) -> ProviderSession:
        """Return a provider session that has the current transcript. Raises ConfigError and ProviderError."""
        count = self._transcript.count
        if self._provider is not None and (self._given or self._known == count):
            self._known = count
            return self._provider
        await self.release_idle()
        self._provider = await self._open(self.choice)
        self._known = count
        return self._provider

    async def switch(self, choice: ModelChoice) -> None:
        """Switch the conversation to another model. If that model is unavailable, the old one stays."""
        provider = await self._open(choice)
        old, self._provider = self._provider, provider
        self.choice, self._given, self._known = choice, False, self._transcript.count
        if old is not None:
            await old.close()

    async def _open(self, choice: ModelChoice | None) -> ProviderSession:
        provider = await self._open_model(choice)
        self.name = model_of(provider)
        return provider

    def renew(self) -> None:
        """Open another provider session for the next request: the tools or the model's view of the session have changed."""
        self._known = -1

    async def compressed(self) -> None:
        """Make the model read the compressed session, and the current memory, from the next request on."""
        self.renew()
        await self._prompt.recall_anew()

    def add_message(self, text: str, images: Sequence[Image] = ()) -> None:
        """Add a message that was just recorded; a provider session that is opened later finds it in the transcript."""
        count = self._transcript.count
        if self._provider is None or not (self._given or self._known == count - 1):
            return
        if images:
            self._provider.say(text, images)
        else:
            self._provider.say(text)  # a plugin's provider may not accept images
        self._known = count

    def took(self, added: int) -> None:
        """Count the provider session's own reply as known: the first of ``added`` records."""
        if self._known == self._transcript.count - added:
            self._known += 1

    def requested(self, turn_id: str, turn: ProviderTurn) -> None:
        """Keep a turn with calls if the caller gave the provider session, because the run may be parked before the calls have
        results. Any other provider session reads the turn from the transcript.
        """
        self._asked = (turn_id, turn) if self._given else None

    async def turn_of(self, turn_id: str, calls: Sequence[ToolCall]) -> ProviderTurn | None:
        """Return the turn of a continued run if the caller gave the provider session; None for other provider sessions, which
        read the transcript.

        A provider session that was given after the turn gets the turn as recorded.
        """
        if not self._given:
            return None
        if self._asked is not None and self._asked[0] == turn_id:
            return self._asked[1]
        record = await self._transcript.unanswered() or {}
        native = record.get("native") or {}
        return ProviderTurn(str(record.get("text") or ""), tuple(calls), native.get("message"), finish="tool_calls")

    async def hand_over(self, turn: ProviderTurn | None, executed: Sequence[ExecutedCall]) -> None:
        """Pass the results that were just recorded to the provider session that requested them."""
        count = self._transcript.count
        if self._provider is None or turn is None or not (self._given or self._known == count - 1):
            return
        await self._provider.append_tool_results(turn, executed)
        self._known = count

    async def release_idle(self) -> None:
        """Close the connection; the next request opens another. A provider session that was given stays open."""
        if self._provider is not None and not self._given:
            provider, self._provider = self._provider, None
            await provider.close()

    async def close(self) -> None:
        """Close the provider session."""
        provider, self._provider = self._provider, None
        if provider is not None:
            await provider.close()
