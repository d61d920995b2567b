"""The console without a mouse, without sight of colours, in Chinese, in the dark, and against texts that attack."""

import pytest
from playwright.sync_api import expect

from .conftest import StoodInConsole

SCRIPT = "<img src=x onerror=window.broken=1><script>window.broken=1</script>"
RUN_TOGETHER = r"""() => {
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const [text, next] = [walk.currentNode, walk.currentNode.nextSibling];
    if (!(next instanceof Text) || text.parentElement.closest('pre, script')) continue;
    if (/[\p{L}.,;:]$/u.test(text.data) && /^[\p{L}\d]/u.test(next.data)) found.push(text.data + '|' + next.data);
  }
  return found;
}"""
PLACES = (
    "services",
    "new",
    "services/chat/qwen2-7b",
    "services/chat/baichuan2-13b",
    "services/chat/qwen2-7b/graphs",
    "services/chat/qwen2-7b/logs",
    "services/chat/qwen2-7b/events",
    "services/chat/qwen2-7b/chat",
    "services/chat/qwen2-7b/call",
    "capacity",
    "licenses",
    "benchmarks",
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(stand_in, visit, scheme):
    """Every place, light and dark; contrast AA is among axe's rules."""
    console = visit.open(stand_in(), color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    found = {}
    for place in PLACES:
        console.go(place)
        expect(console.page.get_by_role("heading", level=1)).to_be_visible()
        expect(console.page.locator(".plan")).to_be_visible() if place == "new" else None
        found[place] = console.findings()
    assert found == {place: [] for place in PLACES}
    console.page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert [line.split(":")[0] for line in console.findings()] == ["button-name"]  # axe would have told


@pytest.mark.parametrize("rights", ["all", "some"])
def test_no_words_run_together(stand_in, visit, rights):
    """Two texts beside each other in a sentence have a blank between them, in every place."""
    console, found = visit.open(stand_in("--rights", rights)), {}
    for place in PLACES:
        console.go(place)
        expect(console.page.get_by_role("heading", level=1)).to_be_visible()
        expect(console.page.locator(".plan")).to_be_visible() if place == "new" else None
        found[place] = console.page.evaluate(RUN_TOGETHER)
    assert found == {place: [] for place in PLACES}


def test_the_keyboard_alone(console):
    """From the list to a service, to its pages, to a dialog and back; the focus is always seen."""
    page, keys = console.page, console.page.keyboard
    keys.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    keys.press("Enter")
    keys.press("/")
    keys.type("qwen2-7b")
    expect(console.rows()).to_have_count(3)
    for _ in range(12):  # over the chips and the head to the first row
        keys.press("Tab")
        if page.evaluate("document.activeElement.closest('.all') !== null"):
            break
    expect(page.get_by_role("link", name="qwen2-7b", exact=True)).to_be_focused()
    keys.press("ArrowDown")
    expect(page.get_by_role("link", name="qwen2-7b-1", exact=True)).to_be_focused()
    keys.press("ArrowUp")
    keys.press("Enter")
    expect(page.get_by_role("heading", name="qwen2-7b")).to_be_visible()
    page.get_by_role("button", name="Delete").focus()
    keys.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    for _ in range(6):  # the focus stays inside
        keys.press("Tab")
        assert page.evaluate(
            "document.activeElement === document.body || document.activeElement.closest('dialog') !== null"
        )
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Delete")).to_be_focused()


def test_chinese(stand_in, visit):
    """A browser in Chinese gets Chinese; the choice turns back at once and is kept."""
    console = visit.open(stand_in(), locale="zh-CN")
    page = console.page
    expect(page.get_by_role("heading", name="在线服务")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    expect(console.rows().first).to_contain_text("路径不存在")
    page.get_by_label("语言").select_option("en")
    expect(page.get_by_role("heading", name="Services")).to_be_visible()
    expect(console.rows().first).to_contain_text("Path not found")
    page.reload()
    expect(page.get_by_role("heading", name="Services")).to_be_visible()


def test_the_colours_follow_the_system_or_the_choice(console):
    """Dark by the system, light by choice, kept over a reload."""
    page = console.page
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(colour)
    assert dark != light
    page.get_by_label("Colours").select_option("light")
    assert page.evaluate(colour) == light
    page.reload()
    expect(console.rows().first).to_be_visible()
    assert page.evaluate(colour) == light


def test_a_reader_is_offered_nothing_more(stand_in, visit):
    """Who may only read sees no way to change, no chat, no licenses."""
    console = visit.open(stand_in("--rights", "read"))
    page = console.page
    expect(console.rows().first).to_be_visible()
    expect(page.get_by_role("link", name="Capacity")).to_be_visible()
    for name in ("New service", "Licenses"):
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    console.go("services/chat/qwen2-7b")
    expect(page.get_by_role("link", name="Logs")).to_be_visible()
    for role, name in (
        ("button", "Delete"),
        ("button", "Scale"),
        ("link", "Edit"),
        ("link", "Chat"),
        ("link", "Graphs"),
    ):
        expect(page.get_by_role(role, name=name, exact=True)).to_have_count(0)


def attacked(console: StoodInConsole) -> None:
    """No script of a text ran."""
    assert console.page.evaluate("window.broken") is None
    assert console.page.locator("main img, main script").count() == 0


def test_a_script_in_a_text_does_not_run(console):
    """In a log line, an answer of the model, a model's name of the YAML: it is text."""
    page = console.page
    console.go("services/chat/qwen2-7b/logs")
    expect(page.get_by_role("region", name="Logs")).to_contain_text("<script>window.broken=1</script>")
    attacked(console)
    console.go("services/chat/qwen2-7b/chat")
    page.get_by_label("Your question").fill(SCRIPT)
    page.keyboard.press("Enter")
    expect(page.get_by_role("log", name="Conversation")).to_contain_text("<b>not bold</b>")
    expect(page.get_by_role("log", name="Conversation")).to_contain_text("5 tokens")
    assert page.locator(".talk b").count() == 0
    attacked(console)
    console.go("new")
    console.type_yaml(f"metadata: {{name: '{SCRIPT}'}}\nspec: {{model: {{id: '{SCRIPT}'}}}}\n")
    expect(console.field("spec.model.id")).to_have_value(SCRIPT)
    attacked(console)


def test_the_policy_holds_against_the_pages_themselves(console, visit):
    """No markup from text, no script from text, and nothing asked of another host."""
    page = console.page
    passed = page.evaluate(
        """() => {
          const out = [];
          const attempt = (name, act) => { try { act(); out.push(name); } catch { } };
          attempt('innerHTML', () => { document.body.innerHTML = '<p>x</p>'; });
          attempt('script', () => { document.createElement('script').textContent = 'window.broken = 1'; });
          attempt('source', () => { document.createElement('script').src = 'https://example.com/x.js'; });
          return out;
        }"""
    )
    assert passed == []
    attacked(console)
    hosts = page.evaluate("performance.getEntriesByType('resource').map((one) => new URL(one.name).host)")
    assert set(hosts) == {console.address.split("/")[2]}
    assert len(visit.errors) == 3
    assert all("requires 'Trusted" in line for line in visit.errors)
    visit.errors.clear()


def test_graphs_come_from_totals(console):
    """Rates appear after two readings; the picture has the same in words."""
    page = console.page
    console.go("services/chat/qwen2-7b/graphs")
    graph = page.get_by_role("img", name="Tokens a second")
    expect(graph).to_have_attribute("aria-label", "Tokens a second. generated: –; read: –")
    console.until("document.querySelectorAll('.graph path.line0').length >= 6")
    assert "tok/s" in (graph.get_attribute("aria-label") or "")
