"""Users' jobs in chats: approved there, run with the user's current rights, and their answers sent to the chat."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent.cron.service import JobOrigin, PrincipalJobs
from agent.gateway import long_texts
from agent.gateway.pairing import Pairings
from tests.agent.cron.conftest import QUICK, JobHouse
from tests.agent.gateway.conftest import OWNED, line_of
from toolcrib import Principal
from toolcrib.chat import Chat, Traits
from tools.schedules.schedule import time_words

DAILY: dict[str, Any] = {"action": "add", "schedule": "every day at 9", "task": "say good morning"}


async def agreed(house: JobHouse, many: int = 1, **args: Any) -> Any:
    """Make a job for ann, approve it as ann, and return it."""
    asked = len(house.platform.shown)
    await house.asks("please", **{**DAILY, **args})
    await house.until(lambda: len(house.platform.shown) > asked and house.platform.shown[-1].out.buttons)
    await house.platform.presses(house.platform.shown[-1], "y")
    return await house.job(many)


async def test_a_job_is_agreed_to_and_told_in_the_chat_that_it_was_made_in(house: JobHouse) -> None:
    """003-32"""
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house)
        prompt = house.platform.texts()[0]
        for words in (
            "say good morning",
            "at 09:00 every day",
            "Europe/Berlin",
            "this chat",
            "calls that need approval are denied",
            "asked about this every time",
        ):
            assert words in prompt
        assert prompt.count("09:00 CE") == 5, prompt
        assert "For this session" not in [button.label for button in house.platform.shown[0].out.buttons]
        await house.due(job)
        await house.until(lambda: any(text.startswith("⏰ say good morning") for text in house.platform.texts()))
        run = await house.run_of(job, "done")
    [heard] = [text for text in house.asked if "the scheduled time of this task" in text]
    assert heard.endswith("say good morning")
    assert f"⏰ say good morning\n\nre {heard}" in house.platform.texts()
    info = await house.store.sessions.get(run.session_id)
    assert info is not None
    assert (info.platform, info.user) == ("cron", "fake:ann")
    decisions = [(entry.tool, entry.decision) for entry in await house.store.audit.entries()]
    assert ("cronjob", "approved:once") in decisions
    assert ("cronjob", "created") in decisions
    assert ("cronjob", "ran: done") in decisions


async def test_without_a_yes_there_is_no_job(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.asks("please", **DAILY)
        await house.until(lambda: house.platform.shown and house.platform.shown[-1].out.buttons)
        assert await house.store.cron.jobs() == []
        await house.platform.presses(house.platform.shown[-1], "n")
        [result] = await house.came_to()
        assert await house.store.cron.jobs() == []
    assert "the user denied it" in str(result.message)


async def test_who_is_not_the_owner_needs_the_owners_yes(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.asks("please", user="bob", **DAILY)
        await house.until(lambda: house.platform.shown and house.platform.shown[-1].out.buttons)
        prompts = [one.out.text for one in house.platform.shown if one.out.buttons]
        assert all("with its creator's rights" in text and "your rights" not in text for text in prompts), prompts
        answer = await house.platform.presses(house.platform.shown[-1], "y", user="bob")
        assert "owner may" in answer
        assert await house.store.cron.jobs() == []


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"schedule": "whenever"}, "is not a known form. Use one of these: in 20 minutes"),
        ({"schedule": "every day at 9", "zone": "Mars/Base"}, "no time zone 'Mars/Base'"),
        ({"schedule": "every second"}, "(cron.shortest_interval)"),
        ({"schedule": "2020-01-01 10:00"}, "that time has passed"),
        ({"schedule": "0 0 30 2 *"}, "not a cron expression"),
        ({"task": " "}, "add needs task"),
        ({"action": "change"}, "change needs job"),
        ({"action": "pause", "schedule": ""}, "pause needs job"),
    ],
)
async def test_what_is_wrong_is_told_before_anybody_is_asked(house: JobHouse, args: dict[str, Any], words: str) -> None:
    house.configure(OWNED + QUICK.replace("1,", "60,"))
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.asks("please", **{**DAILY, **args})
        [result] = await house.came_to()
    assert words in str(result.to_json())
    assert not any(one.out.buttons for one in house.platform.shown)


async def test_it_is_refused_where_there_are_too_many_and_for_chats_of_others(house: JobHouse) -> None:
    house.configure(OWNED + "cron: {most_jobs: 1}\n")
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("hello", user="bob")
        await agreed(house)
        wrongs: list[tuple[dict[str, Any], str]] = [
            ({}, "the limit of 1 jobs is reached"),
            ({"to": "fake:other"}, "is not your chat"),
        ]
        for many, (wrong, words) in enumerate(wrongs, 2):
            shown = len(house.platform.shown)
            await house.asks("again", **DAILY, **wrong)
            await house.until(lambda before=shown: any(one.out.buttons for one in house.platform.shown[before:]))
            await house.platform.presses(next(one for one in house.platform.shown[shown:] if one.out.buttons), "y")
            assert words in str((await house.came_to(many))[-1].message)


async def test_a_change_is_asked_and_the_rest_is_not(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house)
        shown = len(house.platform.shown)
        for number, (action, more) in enumerate(
            (("list", {}), ("pause", {"job": job.id}), ("resume", {"job": job.id}), ("history", {"job": job.id}))
        ):
            await house.asks(f"please {action}", action=action, **more)
            results = await house.came_to(number + 2)
        assert not any(one.out.buttons for one in house.platform.shown[shown:])
        assert [one["id"] for one in results[1].data["jobs"]] == [job.id]
        assert results[1].data["jobs"][0]["next"][0].endswith(("CET", "CEST"))
        assert results[2].data["job"]["state"] == "paused"
        assert results[3].data["job"]["state"] == "active"
        shown = len(house.platform.shown)
        await house.asks("change it", action="change", job=job.id, schedule="every hour", task="say good evening")
        await house.until(lambda: any(one.out.buttons for one in house.platform.shown[shown:]))
        question = next(one for one in house.platform.shown[shown:] if one.out.buttons)
        assert f"replaces the job {job.id}" in question.out.text
        assert (await house.job()).body["task"] == "say good morning"
        await house.platform.presses(question, "y")
        await house.came_to(6)
        now = await house.job()
        assert (now.id, now.body["task"], now.version) == (job.id, "say good evening", 4)


async def test_what_a_person_paused_at_a_terminal_no_model_resumes(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house)
        operator = PrincipalJobs(house.store, house.cribs[0].config, Principal("cli"), everybodys=True)
        await operator.pause(job.id, JobOrigin())
        await house.asks("go on", action="resume", job=job.id)
        assert "a user paused the job" in str((await house.came_to(2))[-1].message)
        assert (await house.job()).state == "paused"
        await house.asks("hold it", action="pause", job=job.id)
        await house.asks("continue it", action="resume", job=job.id)
        assert "a user paused the job" in str((await house.came_to(4))[-1].message)
        assert (await house.job()).state == "paused"
        assert (await operator.resume(job.id, JobOrigin())).state == "active"


async def test_a_principal_sees_and_touches_only_its_own(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house)
        for number, action in enumerate(("list", "pause", "remove", "resume", "history")):
            await house.asks(f"bob's {action}", user="bob", action=action, **({} if action == "list" else {"job": job.id}))
            results = await house.came_to(number + 2)
        assert results[1].data["jobs"] == []
        assert all("there is no job" in str(one.message) for one in results[2:])
        assert (await house.job()).state == "active"


async def test_rights_that_shrank_meanwhile_count(house: JobHouse) -> None:
    """The job loses the tools that its creator may no longer use. It does not run if the creator may no longer speak."""
    paired = Pairings(house.store, "fake")
    house.configure(OWNED.replace("[ann]", "[]") + QUICK)
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says(await paired.offer("owner"))
        await house.until(lambda: house.platform.texts())
        job = await agreed(house)
        await house.due(job)
        first = await house.run_of(job, "done")
        assert "terminal" in house.tools[first.session_id]
        assert not {"cronjob", "clarify", "send_file"} & set(house.tools[first.session_id])
        less = "users: {'fake:ann': {disabled_tools: [terminal]}}\ntools: {disabled: [patch]}\n"
        house.configure(house.config.read_text() + less)
        await gateway.reconfigure()
        await house.due(job)
        await house.until(lambda: len(house.tools) == 3)
        second = await house.run_of(job, "done")
        assert second.session_id != first.session_id
        assert set(house.tools[first.session_id]) - set(house.tools[second.session_id]) == {"terminal", "patch"}
        await house.until(lambda: sum("⏰" in text for text in house.platform.texts()) == 2)
        assert await paired.remove("ann")
        told = len(house.platform.texts())
        await house.due(job)
        run = await house.run_of(job, "refused")
        assert run.note == "its creator has no access on fake any more"
        await asyncio.sleep(0.1)
        assert len(house.platform.texts()) == told
        assert len(house.tools) == 3, "no session was opened"


async def test_jobs_of_others_than_the_owner_run_nothing_on_this_machine(house: JobHouse) -> None:
    house.configure(OWNED.replace("allow_local: true", "allow_local: false") + QUICK + "gateway: {approvers: {cron: [bobs]}}\n")
    house.configure(house.config.read_text().replace("owner: [ann]", "owner: [ann], bobs: [bob]"))
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.asks("please", user="bob", **DAILY)
        await house.until(lambda: house.platform.shown and house.platform.shown[-1].out.buttons)
        await house.platform.presses(house.platform.shown[-1], "y", user="bob")
        job = await house.job()
        await house.due(job)
        run = await house.run_of(job, "done")
    assert not {"terminal", "read_file", "write_file", "patch", "search_files"} & set(house.tools[run.session_id])
    assert "memory" in house.tools[run.session_id]


async def test_what_would_ask_is_refused(house: JobHouse) -> None:
    (house.folder / "build").mkdir()
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house, task="rm -rf build")
        await house.due(job)
        await house.run_of(job, "done")
        await house.until(lambda: any("⏰" in text for text in house.platform.texts()))
    run = await house.run_of(job)
    [call] = await house.store.ledger.calls(run.session_id)
    assert call.result is not None
    assert call.result.failure is not None
    assert call.result.failure.kind == "Denied"
    assert list(await house.store.tickets.pending()) == []
    assert (house.folder / "build").is_dir()


async def test_what_would_ask_waits_where_it_is_parked_and_is_asked_in_the_chat(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house, task="rm -rf build", unattended="park")
        shown = len(house.platform.shown)
        await house.due(job)
        await house.until(lambda: any(one.out.buttons for one in house.platform.shown[shown:]))
        run = await house.run_of(job, "running")
        question = next(one for one in house.platform.shown[shown:] if one.out.buttons)
        assert "rm -rf build" in question.out.text
        due = time_words(run.due_at, "Europe/Berlin")
        assert question.out.text.startswith(f'⏰ asked by the job "rm -rf build" ({job.id}), due {due}:\n')
        await house.due(job)  # it becomes due again while it waits
        skipped = await house.run_of(job, "skipped")
        assert skipped.note == "the previous run was still in progress"
    async with house.gateway() as gateway:  # the question is not sent again; another process gets the answer
        line_of(gateway)
        assert sum(1 for one in house.platform.shown[shown:] if one.out.buttons) == 1
        await house.platform.presses(question, "y")
        await house.until(lambda: any(text.startswith("⏰ rm") for text in house.platform.texts()))
    ended = await house.store.cron.run_of(run.session_id)
    assert ended is not None
    assert ended.state == "done"
    assert sum(text.startswith("⏰ rm") for text in house.platform.texts()) == 1


async def test_a_parked_run_of_somebody_who_may_speak_no_more_ends(house: JobHouse) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house, task="rm -rf build", unattended="park")
        shown = len(house.platform.shown)
        await house.due(job)
        await house.until(lambda: any(one.out.buttons for one in house.platform.shown[shown:]))
    question = next(one for one in house.platform.shown[shown:] if one.out.buttons)
    house.configure(OWNED.replace("ann]", "zoe]") + QUICK)
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.presses(question, "y", user="zoe")
        run = await house.run_of(job, "failed")
    assert "has no access" in run.note
    assert await house.store.tickets.pending() == []
    assert await house.store.runs.current(run.session_id) is None


async def test_a_rule_set_decides_what_a_person_would(house: JobHouse) -> None:
    rule = "{tool: terminal, decision: allow, why: made anew, args: {command: 'rm -rf build'}}"
    house.configure(OWNED + f"cron: {{shortest_interval: 1, rule_sets: {{tidy: {{tools: [{rule}]}}}}}}\n")
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house, task="rm -rf build", unattended="tidy")
        other = await agreed(house, 2, task="rm -rf other", unattended="tidy")
        await house.due(job)
        await house.due(other)
        allowed, refused = await house.run_of(job, "done"), await house.run_of(other, "done")

    def decided(entries: Any) -> list[str]:
        return [entry.decision for entry in entries if entry.tool == "terminal"]

    assert not any(one.startswith("denied") for one in decided(await house.store.audit.entries(allowed.session_id)))
    calls = [*await house.store.ledger.calls(allowed.session_id), *await house.store.ledger.calls(refused.session_id)]
    assert [call.status.value for call in calls] == ["succeeded", "failed"]


async def test_a_rule_set_that_is_gone_lets_nothing_run(house: JobHouse) -> None:
    rules = "cron: {shortest_interval: 1, rule_sets: {tidy: {tools: []}}}\n"
    house.configure(OWNED + rules)
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house, unattended="tidy")
        house.configure(OWNED + QUICK)
        await gateway.reconfigure()
        await house.due(job)
        run = await house.run_of(job, "failed")
    assert "a job uses the rule set 'tidy'" in run.note


async def test_a_job_makes_no_jobs(house: JobHouse) -> None:
    """A job can't create jobs even if all tools are enabled."""
    house.configure(OWNED + QUICK + "toolsets: {enabled: [all]}\n")
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house, task="another job")
        house.in_jobs = dict(DAILY)
        await house.due(job)
        run = await house.run_of(job, "done")
    assert "cronjob" not in house.tools[run.session_id]
    [call] = await house.store.ledger.calls(run.session_id)
    assert call.call.name == "cronjob"
    assert call.result is not None
    assert not call.result.is_success
    assert len(await house.store.cron.jobs()) == 1


async def test_a_dead_model_is_told_and_the_next_time_comes_all_the_same(house: JobHouse) -> None:
    from toolcrib import Overloaded

    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house)
        broken = [True]

        def prepare(session: Any) -> None:
            original(session)
            if broken:

                async def fails(on_event: Any) -> Any:
                    raise Overloaded("the server at 10.0.0.1 is overloaded", retry_after=None)

                house.parrots[session.id].stream_turn = fails  # type: ignore[method-assign]  # a model that fails
                session.limits = replace_retry(session.limits)

        original = house.prepare
        gateway._jobs.manager._prepare = prepare
        await house.due(job)
        run = await house.run_of(job, "failed")
        await house.until(lambda: any("⏰" in text for text in house.platform.texts()))
        broken.clear()
        await house.due(job)
        await house.run_of(job, "done")
    assert "overloaded" in run.note
    [told] = [text for text in house.platform.texts() if "⚠" in text]
    assert "10.0.0.1" not in told


def replace_retry(limits: Any) -> Any:
    from agent.model_choice.retry import RetryPolicy
    from toolcrib.contract.dataclass import replace

    return replace(limits, retry=RetryPolicy(1, 0.01, 0.01, 0.01))


async def test_a_room_has_jobs_of_its_own(house: JobHouse) -> None:
    room = Chat("room", is_group=True)
    async with house.gateway() as gateway:
        line_of(gateway)
        house.calls["ann: please"] = DAILY
        house.calls["please"] = DAILY
        await house.platform.says("please", chat=room, is_addressed=True)
        await house.until(lambda: any(one.out.buttons for one in house.platform.shown))
        await house.platform.presses(next(one for one in house.platform.shown if one.out.buttons), "y")
        job = await house.job()
        assert job.owner == "fake:room:room"
        await house.due(job)
        await house.until(lambda: any(text.startswith("⏰") for text in house.platform.texts(room)))
        await house.run_of(job, "done")
        house.configure(OWNED.replace("allowed_chats: ['*']", "allowed_chats: []") + QUICK)
        await gateway.reconfigure()
        await house.due(job)
        run = await house.run_of(job, "refused")
    assert run.note == "its creator has no access there any more"


async def test_a_long_answer_takes_few_messages_and_ends_there(house: JobHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_texts, "MESSAGES", 2)
    house.platform.traits = Traits(buttons=True, idempotent=True, max_chars=600, per_second=1000)
    async with house.gateway() as gateway:
        line_of(gateway)
        job = await agreed(house, task="say " + "word " * 500)
        await house.until(lambda: "re please" in house.platform.texts())
        asked = len(house.platform.shown)
        await house.due(job)
        await house.run_of(job, "done")
        await house.until(lambda: any("cut here; all of it would take" in text for text in house.platform.texts()))
    assert len(house.platform.shown[asked:]) == 2


async def test_a_job_uses_what_its_creator_may_use(house: JobHouse) -> None:
    house.tokens = 50
    house.configure(OWNED + "    tokens_per_day: 80\n" + QUICK)
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.asks("please", user="bob", **DAILY)
        await house.until(lambda: any(one.out.buttons for one in house.platform.shown))
        await house.platform.presses(next(one for one in house.platform.shown if one.out.buttons), "y")
        job = await house.job()
        await house.until(lambda: "re please" in house.platform.texts())
        await house.due(job)
        await house.run_of(job, "done")
        await house.due(job)
        assert "daily quota of 80 tokens" in (await house.run_of(job, "refused")).note
        await house.platform.says("and I?", user="bob")
        await house.until(lambda: "You have used up the daily quota of 80 tokens." in house.platform.texts())
