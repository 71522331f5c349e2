"""A session's model: its provider session, opened when it is first needed and kept in step with the transcript."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from agent.providers.abilities import model_of
from agent.providers.rows import MANUAL
from toolcrib.contract.context import Principal
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall, ProviderSession, ProviderTurn

if TYPE_CHECKING:
    from agent.conversation.prompting import SessionPrompt
    from agent.conversation.transcript import Transcript
    from agent.model_choice.models import ModelChoice


class ModelLink:
    """``choice`` is what a person named. A provider session that is ``given`` is used as it is, and never opened anew.

    ``open_model`` opens a provider session by a choice. ``window`` is the configured size of the model's context, if any.
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
        """Number of records of the transcript that the provider session has taken in."""
        self._given = False
        self.wire = MANUAL
        self.via: dict[str, Any] = {}
        """The provider, model and base_url of what answers; empty where a person types the calls."""
        self.choice: ModelChoice | None = None
        self.instructions = ""
        self.allows_manual = False
        self.more_turns: Callable[[int], Coroutine[Any, Any, int]] | None = None
        """Asked at the end of a run's turns, with their number: for how many more the model is asked; 0 ends the run."""
        self.admits: Callable[[Principal], Awaitable[None]] | None = None
        """Awaited before a message's run begins; raises ToolcribError where it is not to: the message is not answered then."""
        self.windows: dict[tuple[str, str], int] = {}
        """Tokens that models read, by base_url and name, as far as this session was told them."""
        self.learned: dict[tuple[str, str], int] = {}
        """Size of the window by refusals, where nobody told; the sessions of a workspace share it."""
        self.name = ""
        """The model's name; "" where a person types the calls, or before it was first opened."""

    def use(self, provider: ProviderSession) -> None:
        """Take a provider session that somebody else opened."""
        self._provider, self._given, self._known = provider, True, self._transcript.count

    @property
    def is_given(self) -> bool:
        """True for a provider session that somebody else opened: it can't be opened anew."""
        return self._given

    @property
    def about(self) -> tuple[str, str]:
        """The server and the model that answer, as the windows are known by."""
        return str(self.via.get("base_url")), str(self.via.get("model"))

    @property
    def window(self) -> int | None:
        """Tokens that the model reads, as configured or as this session was told or has learned; None where it does not know."""
        return self._configured or self.windows.get(self.about) or self.learned.get(self.about)

    @property
    def provider(self) -> ProviderSession | None:
        """The provider session, or None where none is open."""
        return self._provider

    async def opened(self) -> ProviderSession:
        """Return a provider session that knows the transcript as it is. Raises ConfigError, and ProviderError kinds."""
        count = self._transcript.count
        if self._provider is not None and (self._given or self._known == count):
            self._known = count
            return self._provider
        await self.release_idle()
        self._provider = await self._open(self.choice)
        self._known = count
        return self._provider

    async def switch(self, choice: ModelChoice) -> None:
        """Let another model go on with the conversation; where it can't be had, the old one stays."""
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
        """Open another provider session for the next question: its tools, or what it reads of the session, have changed."""
        self._known = -1

    async def compressed(self) -> None:
        """Have the model read the session as a compression left it, and what is remembered by now, from the next question on."""
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
            self._provider.say(text)  # a plugin's provider need not know of images
        self._known = count

    def took(self, added: int) -> None:
        """Note that the provider session has its own reply in its history: the first of ``added`` records."""
        if self._known == self._transcript.count - added:
            self._known += 1

    async def hand_over(self, turn: ProviderTurn | None, executed: Sequence[ExecutedCall]) -> None:
        """Give the results that were just recorded to the provider session that asked for them."""
        count = self._transcript.count
        if self._provider is None or turn is None or not (self._given or self._known == count - 1):
            return
        await self._provider.append_tool_results(turn, executed)
        self._known = count

    async def release_idle(self) -> None:
        """Give the connection back; the next question opens another. One that was given stays."""
        if self._provider is not None and not self._given:
            provider, self._provider = self._provider, None
            await provider.close()

    async def close(self) -> None:
        """Close the provider session."""
        provider, self._provider = self._provider, None
        if provider is not None:
            await provider.close()
