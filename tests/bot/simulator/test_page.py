"""The page in a real browser: what it shows, that buttons work, that hostile text stays text, that it scrolls right."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from slack_sdk import WebClient

from bot.simulator import Simulator

if TYPE_CHECKING:
    from tests.bot.simulator.conftest import Chromium

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def shows(page: Chromium, words: str) -> bool:
    """The words are on the page before long."""
    return bool(page.wait_for(f"document.body.innerText.includes({json.dumps(words)})"))


def typed(page: Chromium, form: str, text: str) -> None:
    """The text was typed into the composer and sent with Enter."""
    enter = "new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true})"
    page.run(
        f"(a => {{a.value = {json.dumps(text)}; a.dispatchEvent({enter})}})(document.querySelector('{form} textarea'))"
    )


def test_blocks_are_drawn_and_messages_arrive_live(page: Chromium, slack: Simulator, client: WebClient) -> None:
    """Every block type that the bot uses, pushed to an open page."""
    cells = [[{"type": "raw_text", "text": text} for text in row] for row in (("model", "acc"), ("vit", "0.9"))]
    button = {"type": "button", "action_id": "run", "text": {"type": "plain_text", "text": "Run"}}
    client.chat_postMessage(
        channel="C0LAB",
        text="fallback",
        blocks=[
            {"type": "header", "text": {"type": "plain_text", "text": "exp-12"}},
            section(
                "*bold* _italic_ ~gone~ `code` <https://e.org|link> <@U0ALICE> &lt;kept&gt; :tada:\n"
                "&gt; quote\n```a  b```"
            ),
            {"type": "context", "elements": [{"type": "mrkdwn", "text": "assumed"}]},
            {"type": "table", "rows": cells},
            {"type": "markdown", "text": "## Head\n- **one**\n- two"},
            {"type": "actions", "elements": [button]},
        ],
    )
    shows(page, "assumed")
    content = "document.querySelector('#messages .content')"

    assert page.run(f"[...{content}.querySelectorAll('h3,b,i,s,code,blockquote,pre,li')].map(e => e.textContent)") == [
        "exp-12", "bold", "italic", "gone", "code", "quote", "a  b", "one", "one", "two",
    ]  # fmt: skip
    assert page.run(f"{content}.querySelector('a').href") == "https://e.org/"
    assert page.run(f"{content}.querySelector('.mention').textContent") == "@alice"
    assert page.run(f"[...{content}.querySelectorAll('th,td')].map(e => e.textContent)") == [
        "model",
        "acc",
        "vit",
        "0.9",
    ]
    assert "<kept> 🎉" in page.run(f"{content}.innerText")
    assert page.errors == []


def test_hostile_html_stays_text(page: Chromium, slack: Simulator, client: WebClient) -> None:
    """Model names, host names and people's words reach the page; none of it may run. Unescaped on purpose."""
    slack.say("C0LAB", "U0ALICE", HOSTILE)
    cell = {"type": "raw_text", "text": HOSTILE}
    blocks = [
        section(f"{HOSTILE} <javascript:alert(1)|click>"),
        {"type": "markdown", "text": f"{HOSTILE} [click](javascript:alert(1))"},
        {"type": "table", "rows": [[cell]]},
        {"type": "header", "text": {"type": "plain_text", "text": HOSTILE[:150]}},
    ]
    client.chat_postMessage(channel="C0LAB", text="x", blocks=blocks)
    client.files_upload_v2(channel="C0LAB", content=b"x", filename="<b>.txt", title=HOSTILE)
    page.wait_for("document.querySelectorAll('#messages .message').length === 3")

    assert "owned" not in page.run("document.title")
    assert (
        page.run("document.querySelectorAll('#messages script, #messages img[onerror], a[href^=javascript]').length")
        == 0
    )
    assert page.run("document.querySelector('#messages .file b').textContent") == HOSTILE
    assert page.run("document.cookie") == "", "the cookie is not for scripts"


def test_viewer_speaks_presses_and_commands(page: Chromium, slack: Simulator, client: WebClient) -> None:
    """The composer, a thread, a button with a confirm dialog and a slash command, as a person does them."""
    typed(page, "#composer", "@overnight compare <a> & <b>")
    (said,) = slack.wait_for(lambda: slack.messages("C0LAB"))
    assert said["text"] == "<@U0BOT> compare &lt;a&gt; &amp; &lt;b&gt;"

    words = {"type": "plain_text", "text": "Sure?"}
    button = {
        "type": "button",
        "action_id": "run",
        "text": {"type": "plain_text", "text": "Run"},
        "confirm": {"title": words, "text": words, "confirm": words, "deny": words},
    }
    actions = [{"type": "actions", "elements": [button]}]
    client.chat_postMessage(channel="C0LAB", thread_ts=said["ts"], text="plan", blocks=actions)
    page.wait_for("document.querySelector('.replies') && (document.querySelector('.replies').click(), true)")
    page.wait_for(
        "document.querySelector('[data-action=run]') && (document.querySelector('[data-action=run]').click(), true)"
    )
    page.wait_for("document.querySelector('#confirm').open")
    assert slack.deliveries[-1].event != "block_actions", "nothing is pressed before the reader agrees"
    page.run("document.querySelector('#confirm .primary').click()")
    slack.wait_for(lambda: slack.deliveries[-1].event == "block_actions")

    typed(page, "#reply", "thanks")
    slack.wait_for(lambda: [m["text"] for m in slack.thread("C0LAB", said["ts"])][-1] == "thanks")
    typed(page, "#composer", "/gpu-monitor all")
    slack.wait_for(lambda: slack.deliveries[-1].event == "/gpu-monitor")
    assert slack.deliveries[-1].payload["text"] == "all"


def test_list_follows_its_end_only_while_the_reader_is_there(page: Chromium, slack: Simulator) -> None:
    """Somebody who reads an old message is not torn away by a new one; somebody at the end sees it."""
    away = "(m => m.scrollHeight - m.scrollTop - m.clientHeight)(document.querySelector('#messages'))"
    for number in range(40):
        slack.say("C0LAB", "U0BEN", f"line {number}")
    shows(page, "line 39")
    page.wait_for(f"{away} < 2")
    slack.say("C0LAB", "U0BEN", "seen at once")
    shows(page, "seen at once")
    page.wait_for(f"{away} < 2")

    page.run("document.querySelector('#messages').scrollTop = 0")
    page.wait_for(f"{away} > 200")
    page.run("new Promise(done => setTimeout(done, 60))")  # the scroll event comes with the next frame
    slack.say("C0LAB", "U0BEN", "not yet seen")
    page.wait_for("document.querySelector('#newer').hidden === false")
    assert page.run("document.querySelector('#messages').scrollTop") == 0


def test_others_see_neither_whispers_nor_direct_messages(page: Chromium, slack: Simulator, client: WebClient) -> None:
    """The viewer is Alice; what is for Ben stays with Ben, on the wire too."""
    client.chat_postEphemeral(channel="C0LAB", user="U0BEN", text="for ben")
    client.chat_postMessage(channel="U0BEN", text="direct to ben")
    client.chat_postEphemeral(channel="C0LAB", user="U0ALICE", text="for alice")
    shows(page, "for alice")

    state = page.run("fetch('/page/state?user=U0ALICE').then(answer => answer.text())")
    assert "for alice" in state
    assert "for ben" not in state
    assert "direct to ben" not in state
    assert "for ben" not in page.run("document.body.innerText")


def test_modal_keeps_what_was_typed_while_messages_arrive(page: Chromium, slack: Simulator, client: WebClient) -> None:
    """A progress card that is edited every three seconds must not empty a form."""
    element = {"type": "plain_text_input", "action_id": "value"}
    view = {
        "type": "modal",
        "title": {"type": "plain_text", "text": "Edit the plan"},
        "submit": {"type": "plain_text", "text": "Save"},
        "blocks": [
            {"type": "input", "block_id": "lr", "label": {"type": "plain_text", "text": "lr"}, "element": element}
        ],
    }
    client.views_open(trigger_id=slack.command("/edit").payload["trigger_id"], view=view)
    field = "document.querySelector('#modal input')"
    page.wait_for(f"{field} && ({field}.value = '3e-4', {field}.dispatchEvent(new Event('input')))")
    slack.say("C0LAB", "U0BEN", "meanwhile")
    shows(page, "meanwhile")
    page.run("document.querySelector('#modal form').requestSubmit()")
    slack.wait_for(lambda: slack.deliveries[-1].event == "view_submission")

    state = slack.deliveries[-1].payload["view"]["state"]["values"]
    assert state == {"lr": {"value": {"type": "plain_text_input", "value": "3e-4"}}}


def test_a_form_shows_what_it_holds_and_what_is_wrong(page: Chromium, slack: Simulator, client: WebClient) -> None:
    """Texts and menus, prefilled; errors stand at their field, trouble below them, and what was typed stays."""
    words = lambda text: {"type": "plain_text", "text": text}  # noqa: E731
    options = [{"text": words(name), "value": name} for name in ("digits", "cifar10")]
    elements: list[dict[str, Any]] = [
        {"type": "plain_text_input", "initial_value": "0.001"},
        {"type": "multi_static_select", "options": options, "initial_options": options[:1]},
        {"type": "static_select", "options": options, "initial_option": options[1]},
    ]
    blocks = [
        {
            "type": "input",
            "block_id": f"b{n}",
            "label": words(f"Field {n}"),
            "element": {"action_id": "value", **element},
        }
        for n, element in enumerate(elements)
    ]
    view = {"type": "modal", "title": words("Edit exp-1"), "submit": words("Change"), "blocks": blocks}
    client.views_open(trigger_id=slack.command("/edit").payload["trigger_id"], view=view)
    field = "document.querySelector('#modal input[data-action=value]')"
    page.wait_for(f"{field} && {field}.value === '0.001'")
    assert page.run("[...document.querySelectorAll('#modal .choices input')].map(box => box.checked)") == [True, False]
    assert page.run("document.querySelector('#modal select').value") == "cifar10"

    page.run(f"({field}.value = 'fast', {field}.dispatchEvent(new Event('input')))")
    page.run("document.querySelectorAll('#modal .choices input')[1].click()")
    page.run("document.querySelector('#modal form').requestSubmit()")
    slack.wait_for(lambda: slack.deliveries[-1].event == "view_submission")
    state = slack.deliveries[-1].payload["view"]["state"]["values"]
    assert state["b0"]["value"] == {"type": "plain_text_input", "value": "fast"}
    assert [o["value"] for o in state["b1"]["value"]["selected_options"]] == ["digits", "cifar10"]
    assert state["b2"]["value"]["selected_option"]["value"] == "cifar10"

    shown = slack.views[-1]
    slack.workspace.show_view({**shown, "errors": {"b0": "no number <b>"}, "trouble": "Try again?"})
    page.wait_for("document.querySelector('#modal .error[data-block=b0]').textContent === 'no number <b>'")
    assert page.run("document.querySelector('#modal .trouble').textContent") == "Try again?"
    assert page.run(f"{field}.value") == "fast"
    assert page.errors == []


def test_phone_shows_one_pane_at_a_time(page: Chromium, slack: Simulator, client: WebClient) -> None:
    """At 390 points the thread covers the channel, and nothing is wider than the window."""
    ts = slack.say("C0LAB", "U0ALICE", "a-very-long-word-" * 20)
    client.chat_postMessage(channel="C0LAB", thread_ts=ts, text="```" + "█" * 300 + "```")
    page.resize(390, 844)
    page.wait_for("document.querySelector('.replies') && (document.querySelector('.replies').click(), true)")
    page.wait_for("document.querySelectorAll('#replies .message').length === 2")

    assert page.run("document.documentElement.scrollWidth") == 390
    assert page.run("document.querySelector('#replies').scrollWidth <= 390") is True
    assert page.run("getComputedStyle(document.querySelector('#room')).display") == "none"


def test_page_stands_still_for_a_screenshot(page: Chromium, slack: Simulator) -> None:
    """`chromium --screenshot` with virtual time waits for every open request, so a stream would hold it for ever."""
    page.open(slack.still_url)
    page.wait_for("document.querySelector('#channels button.here') !== null && location.search === ''")
    slack.say("C0LAB", "U0ALICE", "later")

    page.run("fetch('/page/state')")
    assert "later" not in page.run("document.body.innerText")
