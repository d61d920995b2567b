// The page: what is held in memory, what a person can do, and when the view changes. Nothing is ever stored.

const NEAR_END_PX = 60;
const LARGEST_IMAGE_MB = 10;
const [scroller, talk, question, notice] = ["scroll", "talk", "question", "notice"].map((id) => one(`#${id}`));

const held = { key: "", models: [], exchanges: [], images: [], running: null, follow: true, undo: null };
const last = () => held.exchanges.at(-1);
const model = () => (held.models.length ? one("#model").value : "");

// ---- asking

async function askLast() {
  const exchange = last();
  const answer = freshAnswer(); // another may take its place while this one still ends
  const running = new AbortController();
  exchange.answer = answer;
  held.running = running;
  held.follow = true;
  refresh();
  const onPiece = ({ text, thought }) => {
    answer.text += text;
    answer.thought += thought;
    drawSoon(exchange);
  };
  try {
    await ask(request(), held.key, running.signal, onPiece, answer.measure);
    tell("The answer is complete.");
  } catch (error) {
    if (error.name === "AbortError") answer.stopped = true;
    else if (error instanceof ServerError) answer.problem = explained(error);
    else throw error;
  } finally {
    answer.running = false;
    if (held.running === running) held.running = null;
    draw(exchange);
    refresh();
  }
}

function request() {
  const messages = messagesOf(held.exchanges, one("#system").value.trim());
  return { ...(model() ? { model: model() } : {}), messages, stream: true, stream_options: { include_usage: true }, ...sampling() };
}

function explained(error) {
  if (error.status !== 401) return error;
  const sentence = held.key ? "The server did not accept this API key. Please check it." : "This server asks for an API key.";
  askForKey(sentence);
  return new ServerError(sentence, 401);
}

function send(text, images) {
  if (!text && !images.length) return false;
  if (!settingsAreWell()) return false;
  stop();
  const exchange = makeExchange(text, images);
  held.exchanges.push(exchange);
  talk.append(exchange.question, exchange.reply);
  hideNotice();
  askLast();
  return true;
}

function stop() {
  held.running?.abort();
}

function again() {
  if (!last() || !settingsAreWell()) return;
  stop();
  askLast();
  focusQuestion();
}

// ---- the server's models and its key

async function loadModels() {
  try {
    held.models = await listModels(held.key);
    showModels();
    return true;
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    const shown = explained(error);
    if (shown.status !== 401) showNotice(shown.message, "Retry", loadModels);
    return false;
  }
}

function showModels() {
  const choice = one("#model");
  const before = choice.value;
  choice.replaceChildren(...held.models.map((name) => element("option", { value: name }, name)));
  if (held.models.includes(before)) choice.value = before;
  choice.disabled = held.models.length < 2;
  one("#welcome-model").textContent = model();
  document.title = `${model()} · Windlass`;
  hideNotice();
}

function askForKey(sentence) {
  one("#key-form").hidden = false;
  one("#key-title").textContent = sentence;
  one("#key").focus();
}

async function useKey(key) {
  held.key = key.trim();
  one("#key").value = one("#settings-key").value = "";
  one("#settings-key").placeholder = held.key ? "a key is set" : "none";
  one("#key-form").hidden = true;
  refresh();
  if (!(await loadModels())) return;
  if (settings.open) return;
  if (last()?.answer.problem?.status === 401) again();
  else focusQuestion();
}

// ---- what is seen

const REST = 3; // a drawing that takes long rests this many times as long, so that the page still hears its reader

let drawing = 0;
let restsUntil = 0;
function drawSoon(exchange) {
  drawing ||= requestAnimationFrame(function when(now) {
    drawing = now < restsUntil ? requestAnimationFrame(when) : 0;
    if (!drawing) draw(exchange);
  });
}

function draw(exchange) {
  const began = performance.now();
  showAnswer(exchange, model());
  toEnd();
  const ended = performance.now();
  restsUntil = ended + REST * (ended - began);
}

function toEnd() {
  if (held.follow) scroller.scrollTop = scroller.scrollHeight;
  one("#latest").hidden = held.follow;
}

function refresh() {
  const busy = Boolean(held.running);
  one("#welcome").hidden = held.exchanges.length > 0;
  one("#save").disabled = !held.exchanges.length || busy;
  one("#stop").hidden = !busy;
  one("#send").hidden = busy;
  one("#send").disabled = !question.value.trim() && !held.images.length;
  talk.setAttribute("aria-busy", String(busy)); // a reader of screens waits until the answer is whole
  one("#open-settings").classList.toggle("set", Boolean(one("#system").value.trim() || Object.keys(sampling()).length || held.key));
  fit(question);
  if (last()) draw(last());
}

function fit(area) {
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight}px`;
}

function focusQuestion() {
  if (matchMedia("(hover: hover)").matches) question.focus(); // elsewhere a keyboard would cover the answer
}

const tell = (text) => (one("#told").textContent = text);

function showNotice(text, label, onClick) {
  notice.hidden = false;
  one("span", notice).textContent = text;
  one("button", notice).textContent = label;
  one("button", notice).onclick = () => {
    hideNotice();
    onClick();
  };
}

const hideNotice = () => (notice.hidden = true);

// ---- images

function addImages(files) {
  for (const file of [...files].filter((each) => each.type.startsWith("image/"))) {
    if (file.size > LARGEST_IMAGE_MB * 1e6) {
      showNotice(`${file.name} is larger than ${LARGEST_IMAGE_MB} MB. Choose a smaller image.`, "OK", focusQuestion);
      continue;
    }
    const reader = new FileReader();
    reader.onload = () => {
      held.images.push(reader.result);
      showImages();
    };
    reader.readAsDataURL(file);
  }
}

function showImages() {
  const remove = (at) => element("button", { type: "button", "data-do": "drop", "data-at": at, title: "Remove", "aria-label": `Remove image ${at + 1}` }, "×");
  one("#images").replaceChildren(...held.images.map((image, at) => element("li", {}, picture(image, at), remove(at))));
  one("#images").hidden = !held.images.length;
  refresh();
}

// ---- what a person can do: `data-do` of a button names the row

const ACTIONS = {
  begin,
  save,
  settings: () => settings.showModal(),
  reset: resetSettings,
  stop() {
    stop();
    focusQuestion();
  },
  again,
  edit,
  leave: leaveEditor,
  example: (button) => send(button.textContent, []) && focusQuestion(),
  copy: (button) => copy(exchangeOf(button).answer.text, "Answer copied."),
  copyCode(button) {
    copy(one("code", button.closest(".code")).textContent, "Code copied.");
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  },
  attach: () => one("#file").click(),
  drop(button) {
    held.images.splice(Number(button.dataset.at), 1);
    showImages();
    question.focus();
  },
  latest() {
    held.follow = true;
    toEnd();
  },
};

const exchangeOf = (button) => held.exchanges.find(({ reply }) => reply.contains(button));

function begin() {
  stop();
  const before = held.exchanges;
  const put = (exchanges) => {
    held.exchanges = exchanges;
    talk.replaceChildren(...exchanges.flatMap((exchange) => [exchange.question, exchange.reply]));
    refresh();
    focusQuestion();
  };
  put([]);
  if (before.length) showNotice("A new conversation.", "Bring the last one back", () => put(before));
}

// The file is a request: `curl …/v1/chat/completions -d @chat.json` with a question added goes on where it ended.
function save() {
  const kept = { ...(model() ? { model: model() } : {}), ...sampling(), messages: messagesOf(held.exchanges, one("#system").value.trim()) };
  const address = URL.createObjectURL(new Blob([JSON.stringify(kept, null, 2) + "\n"], { type: "application/json" }));
  const when = new Date().toISOString().slice(0, 16).replace(/[T:]/g, "-");
  element("a", { href: address, download: `chat-${when}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  tell("Conversation downloaded.");
}

async function copy(text, note) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyPlainly(text); // browsers keep the clipboard from pages that came over plain HTTP
  }
  tell(note);
}

function copyPlainly(text) {
  const before = document.activeElement;
  const area = element("textarea", { class: "unseen", readonly: "" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  before?.focus();
}

function edit() {
  const exchange = last();
  if (!exchange || one(".editor", exchange.question)) return;
  const editor = copyOf("editor");
  const area = one("textarea", editor);
  area.value = exchange.text;
  exchange.question.classList.add("edited");
  exchange.question.append(editor);
  fit(area);
  area.focus();
  area.oninput = () => fit(area);
  editor.onsubmit = (event) => {
    event.preventDefault();
    sendEdited(exchange, area.value.trim());
  };
}

function sendEdited(exchange, text) {
  if (!text || !settingsAreWell()) return;
  stop();
  held.exchanges.pop();
  exchange.question.remove();
  exchange.reply.remove();
  send(text, exchange.images);
  focusQuestion();
}

function leaveEditor() {
  const exchange = last();
  one(".editor", exchange?.question ?? talk)?.remove();
  exchange?.question.classList.remove("edited");
  one("[data-do=edit]", exchange.question).focus();
}

// ---- keys and events

const plainEnter = (event) => event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.altKey && !event.isComposing;

function onKey(event) {
  const area = event.target.closest?.("#question, .editor textarea");
  if (event.key === "Escape" && !settings.open) {
    if (one(".editor", talk)) leaveEditor();
    else if (held.running) ACTIONS.stop();
  } else if (area && plainEnter(event)) {
    event.preventDefault();
    area.form.requestSubmit();
  } else if (event.key === "ArrowUp" && event.target === question && !question.value && !held.running && last()) {
    event.preventDefault();
    edit();
  }
}

function onAsk(event) {
  event.preventDefault();
  if (!send(question.value.trim(), held.images)) return;
  question.value = "";
  held.images = [];
  showImages();
  focusQuestion();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-do]");
  if (button) ACTIONS[button.dataset.do](button);
  else if (event.target === settings) settings.close(); // a click beside it
});
document.addEventListener("keydown", onKey);
scroller.addEventListener("scroll", () => {
  held.follow = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_END_PX;
  one("#latest").hidden = held.follow;
});
addEventListener("resize", toEnd);
question.addEventListener("input", () => refresh());
question.addEventListener("paste", (event) => addImages(event.clipboardData.files));
one("#ask").addEventListener("submit", onAsk);
one("#ask").addEventListener("dragover", (event) => event.preventDefault());
one("#ask").addEventListener("drop", (event) => {
  event.preventDefault();
  addImages(event.dataTransfer.files);
});
one("#file").addEventListener("change", (event) => {
  addImages(event.target.files);
  event.target.value = "";
});
one("#key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(one("#key").value);
});
one("#settings-key").addEventListener("change", (event) => event.target.value && useKey(event.target.value));
one("#model").addEventListener("change", () => (one("#welcome-model").textContent = model()));
settings.addEventListener("close", refresh);
settings.addEventListener("change", (event) => PARAMETERS.includes(event.target.id) && checkField(event.target));

refresh();
loadModels();
