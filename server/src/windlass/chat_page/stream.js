// The server: where it is, its models, and one streamed answer. Knows nothing of the page's looks.

const DONE = "[DONE]";
// "/any/prefix/chat" or "/any/prefix/chat/" → "/any/prefix/"
const folderOf = (path) => path.slice(0, path.lastIndexOf("/", path.endsWith("/") ? path.length - 2 : path.length) + 1);
const API = new URL(folderOf(location.pathname) + "v1/", location.origin);

class ServerError extends Error {
  constructor(sentence, status = 0) {
    super(sentence);
    this.status = status;
  }
}

async function call(path, key, options = {}) {
  const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  const response = await fetch(new URL(path, API), { ...options, headers, credentials: "same-origin" }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server cannot be reached. Is it still running, and are you online?");
  });
  if (!response.ok) throw new ServerError(sentence(await response.text(), response), response.status);
  return response;
}

function sentence(body, response) {
  const sentence = sentenceIn(body);
  return sentence || `The server answered ${response.status} ${response.statusText}`.trim() + ".";
}

function sentenceIn(body) {
  try {
    const { error, message, detail } = JSON.parse(body);
    const sentence = error?.message ?? error ?? message ?? detail;
    return typeof sentence === "string" ? sentence : sentence && JSON.stringify(sentence);
  } catch {
    const text = body.trim();
    return text.startsWith("<") ? "" : text.slice(0, 300); // a proxy's HTML page says nothing to a reader
  }
}

async function listModels(key) {
  const listed = await (await call("models", key)).json();
  const names = (listed.data ?? []).map((model) => model.id);
  if (!names.length) throw new ServerError("The server lists no model.");
  return names;
}

// Server-sent events: the text after "data:". A chunk may end anywhere, even inside a character.
async function* events(body) {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "";
  let data = [];
  for (let ended = false; !ended; ) {
    const { value, done } = await reader.read();
    ended = done;
    rest += done ? decoder.decode() + "\n\n" : decoder.decode(value, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines.map((text) => text.replace(/\r$/, ""))) {
      if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      if (line !== "" || !data.length) continue;
      yield data.join("\n");
      data = [];
    }
  }
}

// Asks and calls onPiece({text, thought}) as words come; gives the measure of the answer.
async function ask(request, key, signal, onPiece, measure) {
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  const options = { method: "POST", body: JSON.stringify(request), headers: { "Content-Type": "application/json" }, signal };
  try {
    const response = await call("chat/completions", key, options);
    let whole = false;
    for await (const data of events(response.body)) {
      if (data === DONE) whole = true;
      else readEvent(JSON.parse(data), measure, seconds, onPiece);
    }
    if (!whole && !measure.finish) throw new ServerError("The connection broke before the answer was complete.");
  } catch (error) {
    const ours = error instanceof ServerError || error.name === "AbortError";
    throw ours ? error : new ServerError(`The connection broke before the answer was complete (${error.message}).`);
  } finally {
    measure.seconds = seconds();
  }
}

function readEvent(event, measure, seconds, onPiece) {
  if (event.error) throw new ServerError(sentenceIn(JSON.stringify(event)), event.error.code ?? 0);
  if (event.usage) Object.assign(measure, { asked: event.usage.prompt_tokens, tokens: event.usage.completion_tokens, exact: true });
  for (const { delta = {}, finish_reason: finish } of event.choices ?? []) {
    if (finish) measure.finish = finish;
    const text = delta.content ?? "";
    const thought = delta.reasoning ?? delta.reasoning_content ?? "";
    if (!text && !thought) continue;
    measure.first ??= seconds();
    if (!measure.exact) measure.tokens += 1; // a stopped answer has no usage: servers send a token a piece
    onPiece({ text, thought });
  }
}

function tellMeasure({ tokens, exact, first, seconds }) {
  if (first === null) return "";
  const count = `${exact ? "" : "≈ "}${tokens} token${tokens === 1 ? "" : "s"}`;
  const after = seconds - first;
  const speed = tokens > 1 && after > 0 ? `${((tokens - 1) / after).toFixed(1)} tokens/s` : null;
  const start = first < 1 ? `first token ${Math.round(first * 1000)} ms` : `first token ${first.toFixed(2)} s`;
  return [count, speed, start].filter(Boolean).join(" · ");
}
