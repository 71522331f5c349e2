"""Images on the command line: attached to a task or a message, and drawn ones reported and saved (004-21)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from agent.cli.complete import LineCompleter
from agent.cli.images import ImageFolder, recorded_labels
from agent.cli.render import brief_line, result_text
from agent.cli.session_format import exchanges
from toolcrib import ExecutedCall, Image, ToolCall, ToolCallStatus, ToolcribError, ToolResult
from toolcrib.contract.display import NO_DISPLAY
from toolcrib.testing import ChatServer, Response

PNG = Image.of(b"\x89PNG\r\n\x1a\n" + bytes(504))
GIF = Image.of(b"GIF89a" + bytes(94))
PARTS = [{"type": "image_url", "image_url": {"url": f"data:{one.media_type};base64,{one.base64}"}} for one in (PNG, GIF)]


def drawing() -> Response:
    message = {"role": "assistant", "content": "Here they are.", "images": PARTS}
    return ChatServer.body({"model": "test-model", "choices": [{"message": message, "finish_reason": "stop"}]})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a plot.png"
    path.write_bytes(PNG.data)
    return path


def ask(run: Any, server: ChatServer, *words: str) -> Any:
    return run("run", *words, "--base-url", server.base_url, "--model", "test-model")


def test_004_21_run_shows_images(run: Any, file: Path, tmp_path: Path) -> None:
    (tmp_path / "b.gif").write_bytes(GIF.data)
    with ChatServer(ChatServer.text("A plot."), ChatServer.text("Still.")) as server:
        done = ask(run, server, "what is it?", "--image", str(file), "--image", "b.gif", "--trace")
        assert (done.code, done.out) == (0, "A plot.\n")
        assert "trace: user prompt: [image/png, 512 B]" in done.err
        assert PNG.base64[:60] not in done.err
        ask(run, server, "and now?", "--continue")
    content = [{"type": "text", "text": "what is it?"}, *PARTS]
    for request in server.requests:
        assert request["messages"][1] == {"role": "user", "content": content}
    shown = run("sessions").out.split("ID", 1)[1].splitlines()[1].split()[0]
    assert "user:\n  what is it?\n  [image/png, 512 B]\n  [image/gif, 100 B]" in run("sessions", "show", shown).out


def test_what_is_no_image_is_told_before_anything_is_asked(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("no image")
    with ChatServer() as server:
        for name, why in (("a.txt", "a.txt is not an image that models accept"), ("none.png", "none.png can't be read")):
            done = ask(run, server, "look", "--image", name)
            assert done.code == 2
            assert why in done.err
        (tmp_path / "taken").touch()
        done = ask(run, server, "draw", "--save-images", "taken", "--json")
        assert done.code == 2
        assert "taken cannot be created" in json.loads(done.out.splitlines()[0])["message"]
    assert server.requests == []


def test_004_21_what_the_model_draws_is_told_and_saved(run: Any, tmp_path: Path) -> None:
    """Existing files are never overwritten."""
    folder = tmp_path / "new" / "drawn"
    folder.mkdir(parents=True)
    (folder / "image-1.png").write_text("mine")
    with ChatServer(*(drawing() for _ in range(3))) as server:
        done = ask(run, server, "draw")
        assert (done.code, done.out) == (0, "Here they are.\n")
        assert done.err.splitlines()[-2:] == ["[image/png, 512 B]", "[image/gif, 100 B]"]
        done = ask(run, server, "draw", "--save-images", "new/drawn")
        saved = ["[image/png, 512 B] saved as new/drawn/image-2.png", "[image/gif, 100 B] saved as new/drawn/image-1.gif"]
        assert done.err.splitlines()[-2:] == saved
        done = ask(run, server, "draw", "--save-images", "other", "--json")
    told = [json.loads(line) for line in done.out.splitlines()]
    images = [one for one in told if one["type"] == "image"]
    (of,) = {one["id"] for one in told if one["type"] in ("image", "text_delta")}
    assert images == [
        {"v": 2, "type": "image", "id": of, "media_type": "image/png", "bytes": 512, "path": "other/image-1.png"},
        {"v": 2, "type": "image", "id": of, "media_type": "image/gif", "bytes": 100, "path": "other/image-1.gif"},
    ]
    assert [one["type"] for one in told[-4:]] == ["image", "image", "turn_finished", "run_finished"]
    assert (folder / "image-1.png").read_text() == "mine"
    assert (folder / "image-2.png").read_bytes() == (tmp_path / "other" / "image-1.png").read_bytes() == PNG.data
    assert (folder / "image-1.gif").read_bytes() == GIF.data


def test_a_folder_of_that_name_is_no_reason_either(run: Any, tmp_path: Path) -> None:
    (tmp_path / "image-1.png").mkdir()
    with ChatServer(drawing()) as server:
        assert ask(run, server, "draw", "--save-images", str(tmp_path)).code == 0
    assert (tmp_path / "image-2.png").read_bytes() == PNG.data


def test_an_image_that_can_not_be_saved_is_an_error_and_kept(tmp_path: Path) -> None:
    folder = ImageFolder(str(tmp_path / "drawn"))
    (tmp_path / "drawn").rmdir()
    with pytest.raises(ToolcribError, match=r"image-1\.png: No such file or directory; the session keeps it"):
        folder.save(PNG)


# -- the chat --------------------------------------------------------------------------------------------------------------


def chat(run: Any, server: ChatServer, *lines: str) -> Any:
    typed = "".join(f"{line}\n" for line in lines).encode()
    return run("chat", "--base-url", server.base_url, "--model", "test-model", stdin=typed)


def test_004_21_the_chat_shows_images_with_the_next_message(run: Any, file: Path) -> None:
    lines = (f"/image {file}", "/image", f"/image '{file}'", "@todo {}", "look", "and?", "/image", "/image none.png")
    with ChatServer(ChatServer.text("A plot."), drawing()) as server:
        done = chat(run, server, *lines)
    assert [one["content"] for one in server.requests[1]["messages"] if one["role"] == "user"] == [
        [{"type": "text", "text": "look"}, PARTS[0]],
        "and?",
    ]
    assert "[image/png, 512 B] removed from your next message" in done.err
    assert "[image/png, 512 B] is attached to your next message" in done.err
    assert "give the file: /image FILE" in done.err
    assert "none.png can't be read: No such file" in done.err
    assert done.err.index("is attached to") < done.err.index("[image/gif, 100 B]")


def test_without_a_model_nobody_can_look(run: Any, file: Path) -> None:
    done = run("chat", "--provider", "manual", stdin=f"/image {file}\n".encode())
    assert "no model is connected that could see it" in done.err


def test_the_path_of_an_image_is_completed(file: Path) -> None:
    def completions(text: str) -> list[str]:
        found: Iterable[Completion] = LineCompleter([]).get_completions(Document(text), CompleteEvent())
        return [one.text for one in found]

    assert completions("/im") == ["/image"]
    assert completions(f"/image {file.parent}/a p") == ["lot.png"]


def test_a_tool_s_images_are_a_line_and_no_text() -> None:
    result = ToolResult.success_with_images("plot", {"points": 3}, [PNG, GIF])
    executed = ExecutedCall(ToolCall("c", "plot"), result, ToolCallStatus.SUCCEEDED, 0.5)
    assert brief_line(executed, NO_DISPLAY).endswith("ok [image/png, 512 B] [image/gif, 100 B]")
    assert result_text(executed) == '{\n  "points": 3\n}\n[image/png, 512 B]\n[image/gif, 100 B]'


def test_stored_images_are_told_of() -> None:
    records = [
        {"role": "user", "text": "look", "images": [PNG.to_json()]},
        {"role": "assistant", "text": "", "images": [Image("image/gif", bytes(size)).to_json() for size in (1, 2, 3)]},
    ]
    assert exchanges(records) == ["> look [image/png, 512 B]", *(f"  [image/gif, {size} B]" for size in (1, 2, 3))]
    assert recorded_labels({"role": "user", "text": "x"}) == []
