"""People at the dashboard: what they click, what they see then, and what has happened."""

import json
import os
import re
import signal

import pytest

from pinlater.jobs.events import event_name
from pinlater.model.attempts import Checkpoint
from pinlater.model.jobs import NewJob
from pinlater.model.messages import MessageWait
from pinlater.model.state import JobState
from tests.browser.conftest import fail
from tests.support.server import wait_for


def test_a_failed_job_is_found_and_retried_in_a_few_clicks(page, client):
    [descriptor] = fail(client, "retry_one", "OSError: connection refused")
    page.goto("/")
    page.fill("#find", descriptor)
    page.press("#find", "Enter")
    page.locator("#reason").get_by_text("OSError: connection refused").wait_for()
    assert page.get_by_text("mailer.send()").is_visible()
    assert not page.get_by_text("Retry this job?").is_visible()
    page.get_by_role("button", name="Retry…").click()
    page.get_by_label("Attempts").fill("3")
    page.get_by_role("button", name="Retry", exact=True).click()
    page.get_by_text("The job is pending again.").wait_for()
    info = client.lookup([descriptor])[descriptor]
    assert (info.state, info.attempts_remaining) == (JobState.PENDING, 3)


def test_a_job_is_deleted_only_after_a_second_click(page, client):
    client.create_queue("delete_one")
    [descriptor] = client.enqueue_jobs("delete_one", [NewJob(b"{}")])
    page.goto(f"/job?id={descriptor}")
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Cancel", exact=True).click()
    assert descriptor in client.lookup([descriptor])
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_text(f"There is no job {descriptor}").wait_for()
    assert client.lookup([descriptor]) == {}
    page.complaints[:] = [text for text in page.complaints if "404" not in text]  # that page's own status


def test_a_queue_is_paused_and_resumed(page, client):
    client.create_queue("pause")
    page.goto("/queues/pause")
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("The queue is paused").wait_for()
    assert client.queue_settings()["pause"].is_paused
    page.goto("/")
    assert page.locator("#q-pause").get_by_text("paused").is_visible()
    page.get_by_role("link", name="pause", exact=True).click()
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("The queue is resumed.").wait_for()
    assert not client.queue_settings()["pause"].is_paused


def test_limits_are_set(page, client):
    client.create_queue("limit")
    page.goto("/queues/limit")
    page.get_by_role("button", name="Limits…").click()
    page.get_by_label("Maximum jobs per second").fill("2.5")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("≤ 2.5/s").wait_for()
    assert client.queue_settings()["limit"].jobs_per_second == 2.5


def test_a_group_of_failures_is_retried_after_its_number_was_shown(page, client):
    fail(client, "group", *[f"TimeoutError: no answer after {number} s" for number in range(250)], "KeyError: 'x'")
    page.goto("/failing?queue=group")
    row = page.get_by_role("row").filter(has_text="TimeoutError")
    row.get_by_role("button", name="Retry…").click()
    page.get_by_role("heading", name="Retry 250 jobs?").wait_for()
    assert client.count("group", JobState.FAILED) == 251
    page.get_by_role("button", name="Retry 250 jobs").click()
    page.get_by_text(re.compile("Done:.*250 jobs retried")).wait_for()
    assert client.count("group", JobState.PENDING) == 250
    assert client.count("group", JobState.FAILED) == 1


def test_ticked_jobs_are_deleted(page, client):
    fail(client, "ticks", *["OSError: 1"] * 3)
    page.goto("/jobs?queue=ticks&state=failed")
    delete = page.get_by_role("button", name="Delete…")
    assert delete.is_disabled()
    page.get_by_label("Select all on this page").check()
    page.locator("input[name=job]").first.uncheck()
    page.get_by_text("2 selected").wait_for()
    delete.click()
    page.get_by_role("button", name="Delete 2 jobs").click()
    page.get_by_text("2 jobs deleted").wait_for()
    assert client.count("ticks", JobState.FAILED) == 1


def test_a_list_says_what_jobs_are_and_acts_on_all_that_match(page, client):
    client.create_queue("rows")
    sends = [NewJob(b'{"job":"Send","user_id":%d}' % number) for number in range(60)]
    client.enqueue_jobs("rows", [NewJob(b'{"job":"Other"}'), *sends])
    page.goto("/jobs?queue=rows")
    page.get_by_text("user_id=59").wait_for()
    client.enqueue_jobs("rows", [NewJob(b'{"job":"Second","user_id":1}')])
    page.get_by_role("link", name="Second").wait_for()
    page.locator("input[name=job]").first.check()
    client.enqueue_jobs("rows", [NewJob(b'{"job":"Third"}')])
    page.wait_for_timeout(5500)
    assert page.get_by_role("link", name="Third").count() == 0, "a list waits while jobs of it are selected"
    page.get_by_label("Class", exact=True).fill("Send")
    page.get_by_label("Class", exact=True).press("Enter")
    page.get_by_role("link", name="Next page").click()
    page.get_by_role("link", name="Previous page").click()
    page.get_by_text("user_id=59").wait_for()
    page.locator("details.menu summary").click()
    page.locator("details.menu").get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete 60 jobs").click()
    page.get_by_text(re.compile("Done:.*60 jobs deleted")).wait_for()
    assert client.count("rows", JobState.PENDING) == 3


def test_texts_of_a_job_that_are_not_edited_stay_as_they_are(page, client):
    texts = [
        "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}",
        "10\N{NO-BREAK SPACE}km",
        "\n\nthree\tlines",
        "two\r\nlines",
        "a\0\x1b",
        " ",
    ]
    body = {"job": "Send", **{f"field{number}": text for number, text in enumerate(texts)}, "all": texts}
    [name] = client.enqueue_jobs("texts", [NewJob(json.dumps(body).encode())])
    page.goto(f"/job/edit?id={name}")
    page.get_by_label("Attempts").fill("9")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("The edited job is stored").wait_for()
    [job] = client.dequeue_jobs("texts", 2)
    assert (job.attempts_allowed, json.loads(job.body)) == (9, body)


def test_a_failed_job_is_edited_and_retried(page, client):
    [name] = fail(client, "edits", "OSError: 1")
    page.goto(f"/job?id={name}")
    page.get_by_role("heading", name="Timeline").wait_for()
    page.get_by_role("link", name="Edit and retry…").click()
    page.get_by_label("user", exact=True).fill("43")
    page.get_by_role("button", name="Retry with these").click()
    page.get_by_text("The edited job is stored").wait_for()
    [job] = client.dequeue_jobs("edits", 2)
    assert job.body == b'{"job":"Send","user":43}'


def test_what_is_typed_is_still_there_after_a_form_was_refused(page, client):
    client.create_queue("typing")
    page.goto("/enqueue?queue=typing")
    body = page.get_by_label("Body, as JSON")
    body.fill('{"job": "Send", "user": }')
    page.get_by_role("button", name="Enqueue", exact=True).click()
    page.get_by_text("The body is not a JSON object").wait_for()
    page.get_by_role("link", name="Back").click()
    page.wait_for_url("**/enqueue?queue=typing")
    assert body.input_value() == '{"job": "Send", "user": }'
    page.complaints[:] = [text for text in page.complaints if "400" not in text]


def test_a_tab_with_a_refusal_alone_leads_to_a_new_form(page, client):
    client.create_queue("typing")
    page.goto("/enqueue?queue=typing")
    page.get_by_label("Body, as JSON").fill("{")
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Enqueue", exact=True).click(modifiers=["ControlOrMeta"])
    with opened.value as refusal:
        refusal.get_by_role("link", name="Back").click()
        refusal.wait_for_url("**/enqueue?queue=typing")


def test_counts_change_by_themselves_and_nothing_jumps(page, client):
    client.create_queue("live")
    page.goto("/queues/live")
    tile = page.locator("a.tile", has_text="pending")
    before = tile.bounding_box()
    client.enqueue_jobs("live", [NewJob(b"{}")] * 1234)
    tile.get_by_text("1,234").wait_for()
    assert tile.bounding_box() == before


def test_tiles_fill_their_rows_and_the_bar_fits_a_phone(page, client):
    client.create_queue("tiles")
    page.goto("/queues/tiles")
    boxes = [tile.bounding_box() for tile in page.locator(".tile").all()]
    assert len({box["y"] for box in boxes}) == 1
    page.set_viewport_size({"width": 360, "height": 800})
    boxes = [tile.bounding_box() for tile in page.locator(".tile").all()]
    rights = {max(box["x"] + box["width"] for box in boxes if box["y"] == y) for y in {box["y"] for box in boxes}}
    assert max(rights) - min(rights) < 1
    assert len({box["y"] for box in (link.bounding_box() for link in page.locator(".bar nav a").all())}) == 1
    search, theme = page.locator("#find").bounding_box(), page.locator("#theme").bounding_box()
    assert search["x"] + search["width"] <= theme["x"]
    assert abs(search["y"] + search["height"] / 2 - theme["y"] - theme["height"] / 2) < 3


@pytest.mark.parametrize("width", [360, 1280])
def test_no_value_is_cut_off_by_its_tile(page, client, width):
    client.create_queue("tiles")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/queues/tiles")
    cut = page.evaluate("""() => [...document.querySelectorAll(".tile b")].filter(value => {
        value.textContent = "23 min 55 s";
        return value.scrollWidth > value.clientWidth;
    }).length""")
    assert cut == 0
    oldest = page.locator(".tile", has_text="oldest").locator("b")
    assert oldest.evaluate("value => value.getClientRects()[0].height") < 40, "in one line"


def test_the_menu_of_all_jobs_is_in_sight_on_a_phone(page, client):
    fail(client, "menu", "OSError: no")
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto("/jobs?queue=menu&state=failed")
    page.get_by_text("All 1…").click()
    box = page.locator(".menu > div").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360


def test_what_is_open_stays_open_while_the_page_refreshes(page, client):
    client.create_queue("open")
    [descriptor] = client.enqueue_jobs("open", [NewJob(b"{}")])
    page.goto(f"/job?id={descriptor}")
    page.get_by_role("button", name="Delete…").click()
    with page.expect_response(lambda answer: "/job?id=" in answer.url):
        pass
    page.locator(".htmx-request").first.wait_for(state="detached")
    assert page.get_by_role("button", name="Delete", exact=True).is_visible()


def test_an_event_is_written_and_sent_once_while_the_page_refreshes(page, client):
    """Without its key, the form that is sent by the second click of a double click would be another one."""
    client.create_queue("events")
    [descriptor] = client.enqueue_jobs("events", [NewJob(b"{}")])
    [job] = client.dequeue_jobs("events", 1)
    waits = [MessageWait(event_name("approval"), 1)]
    asleep = Checkpoint(descriptor, job.claim, move_to_pending=True, run_after_ms=2**53, waits_for=waits)
    client.checkpoint("events", [asleep])
    page.goto(f"/job?id={descriptor}")
    page.get_by_role("button", name="Send event…").click()
    value, key = page.get_by_label("Value, as JSON"), page.locator("#send input[name=once]")
    value.fill('{"by": "ada"}')
    before = key.input_value()
    with page.expect_response(lambda answer: "/job?id=" in answer.url):
        pass
    page.locator(".htmx-request").first.wait_for(state="detached")
    assert (value.input_value(), key.input_value()) == ('{"by": "ada"}', before)
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_text("The event was sent.").wait_for()
    assert len(client.read_messages(descriptor, event_name("approval"))) == 1


def test_charts_are_drawn(page, client):
    client.create_queue("charts")
    page.goto("/queues/charts")
    assert page.locator("canvas").count() == 2
    page.goto("/server")
    assert page.locator("canvas").count() == 4
    page.locator(".chart.empty").first.wait_for(state="detached", timeout=30_000)


def test_a_zoom_stays_through_refreshes_and_in_the_address(page, client):
    client.create_queue("zoom")
    page.goto("/queues/zoom?range=24h")
    chart = page.locator(".u-over").first
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 50, steps=4)
    page.mouse.up()
    reset = page.get_by_role("button", name="Reset zoom")
    reset.wait_for()
    zoomed = page.url
    assert "from=" in zoomed
    with page.expect_response(lambda answer: "/queues/zoom" in answer.url):
        pass
    assert reset.is_visible()
    page.goto(zoomed)
    reset.click()
    assert "from=" not in page.url
    assert "range=24h" in page.url


def test_texts_of_jobs_are_no_part_of_the_page(page, client):
    hostile = b"</pre><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
    client.create_queue("hostile")
    [descriptor] = client.enqueue_jobs("hostile", [NewJob(hostile, status=hostile.decode())])
    for path in (f"/job?id={descriptor}", "/jobs?queue=hostile", "/find?q=onerror"):
        page.goto(path)
        assert page.title() != "owned"
        assert page.locator("main img").count() == 0
    page.goto(f"/job?id={descriptor}")
    assert page.get_by_text("document.title = 'owned'").first.is_visible()


def test_light_and_dark(page, client):
    page.goto("/")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Switch between light and dark theme").click()
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    assert page.evaluate(background) == dark


def test_by_keyboard(page, client):
    client.create_queue("keys")
    page.goto("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("/")
    page.keyboard.type("keys")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="keys").wait_for()
    page.goto("/queues/keys")
    page.get_by_role("button", name="Limits…").press("Enter")
    page.keyboard.type("7")
    assert page.get_by_label("Maximum jobs per second").input_value() == "7"
    page.keyboard.press("Escape")
    assert not page.get_by_label("Maximum running jobs").is_visible()


def test_rows_and_pages_by_single_keys(page, client):
    for name in ("rows_a", "rows_b", "rows_c"):
        client.create_queue(name)
    page.goto("/?q=rows_")
    focused = "document.activeElement.textContent"
    for key, there in (("j", "rows_a"), ("j", "rows_b"), ("j", "rows_c"), ("j", "rows_c"), ("k", "rows_b")):
        page.keyboard.press(key)
        assert page.evaluate(focused) == there
    with page.expect_response(lambda answer: "q=rows_" in answer.url):  # a refresh leaves the focus where it is
        pass
    page.locator(".htmx-request").first.wait_for(state="detached")
    assert page.evaluate(focused) == "rows_b"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="rows_b").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("w")
    page.get_by_role("heading", name="Workers").wait_for()
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keys").wait_for()
    page.get_by_label("Use these keys").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") != "find"


def test_exact_times_on_demand_and_in_utc(page, client):
    client.create_queue("times")
    [descriptor] = client.enqueue_jobs("times", [NewJob(b"{}")])
    page.goto(f"/job?id={descriptor}")
    time = page.locator("main time").first
    exact = time.get_attribute("datetime")[:19].replace("T", " ")
    time.hover()
    assert f"{exact} UTC" in page.locator("#tip").inner_text()
    page.keyboard.press("t")
    page.keyboard.press("t")
    assert time.inner_text() == f"{exact} UTC"
    with page.expect_response(lambda answer: "/job?id=" in answer.url):
        pass
    page.locator(".htmx-request").first.wait_for(state="detached")
    assert time.inner_text() == f"{exact} UTC"
    page.goto("/server")
    page.goto(f"/job?id={descriptor}")
    assert time.inner_text() == f"{exact} UTC"


def test_a_page_from_before_a_start_of_the_server_loads_itself_anew(page, server, client):
    client.create_queue("restart")
    page.goto("/queues/restart")
    before = page.locator("html").get_attribute("data-mark")
    assert server.stop() == 0
    page.locator("#stale").wait_for(state="visible", timeout=30_000)
    box = page.locator("#stale").bounding_box()
    assert box["width"] == page.evaluate("document.documentElement.clientWidth")
    server.start()
    page.wait_for_function("old => document.documentElement.dataset.mark !== old", arg=before, timeout=40_000)
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("The queue is paused").wait_for()
    page.complaints[:] = [text for text in page.complaints if "Failed to" not in text and "503" not in text]


def test_a_server_that_hangs_is_shown_and_the_page_recovers(page, server, client):
    client.create_queue("away")
    page.goto("/queues/away")
    hung = server.child().pid
    os.kill(hung, signal.SIGSTOP)
    try:
        page.locator("#stale").wait_for(state="visible", timeout=30_000)
    finally:
        os.kill(hung, signal.SIGCONT)
    page.locator("#stale").wait_for(state="hidden")
    wait_for(lambda: server.page("/readyz")[0] == 200)
    page.complaints[:] = [text for text in page.complaints if "503" not in text]
