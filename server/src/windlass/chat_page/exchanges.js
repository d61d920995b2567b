// One exchange, a question and its answer, as values and as nodes of the conversation.

const one = (selector, within = document) => within.querySelector(selector);
const copyOf = (template) => one(`#${template}`).content.firstElementChild.cloneNode(true);

const freshAnswer = () => ({
  text: "",
  thought: "",
  running: true,
  stopped: false,
  problem: null, // a ServerError
  measure: { tokens: 0, exact: false, asked: 0, first: null, seconds: 0, finish: "" },
});

function makeExchange(text, images) {
  const exchange = { text, images, answer: freshAnswer(), question: copyOf("question-turn"), reply: copyOf("answer-turn") };
  one(".words", exchange.question).textContent = text;
  const pictures = one(".pictures", exchange.question);
  pictures.hidden = !images.length;
  pictures.append(...images.map((image, at) => element("li", {}, picture(image, at))));
  return exchange;
}

const picture = (image, at) => element("img", { src: image, alt: `Image ${at + 1}` });

const NOTES = {
  length: "The answer ends here because it reached its largest number of tokens.",
  content_filter: "The server’s filter ended this answer.",
};

function noteOf(answer) {
  if (answer.stopped) return answer.text || answer.thought ? "Stopped." : "Stopped before the first word.";
  if (answer.running || answer.problem) return "";
  return NOTES[answer.measure.finish] ?? (answer.text || answer.thought ? "" : "The model gave an empty answer.");
}

function showAnswer({ answer, reply }, model) {
  reply.setAttribute("aria-label", `Answer${model ? ` of ${model}` : ""}`);
  showMarkdown(one(".words", reply), answer.text);
  showThought(answer, one(".thought", reply));
  one(".waits", reply).hidden = !answer.running || Boolean(answer.text || answer.thought);
  showText(one(".note", reply), noteOf(answer));
  one(".problem", reply).hidden = !answer.problem;
  one(".problem p", reply).textContent = answer.problem?.message ?? "";
  one(".does", reply).hidden = answer.running || Boolean(answer.problem && !answer.text);
  one("[data-do=copy]", reply).hidden = !answer.text;
  one(".measure", reply).textContent = answer.running ? "" : tellMeasure(answer.measure);
  one(".measure", reply).title = answer.measure.asked ? `${answer.measure.asked} tokens were read before` : "";
  reply.classList.toggle("running", answer.running);
}

function showThought(answer, place) {
  place.hidden = !answer.thought;
  one("summary", place).textContent = answer.running && !answer.text ? "Reasoning …" : "Reasoning";
  one(".thinking", place).textContent = answer.thought;
}

function showText(place, text) {
  place.hidden = !text;
  place.textContent = text;
}

const content = ({ text, images }) =>
  images.length
    ? [...(text ? [{ type: "text", text }] : []), ...images.map((url) => ({ type: "image_url", image_url: { url } }))]
    : text;

// The messages of a request: a question that got no answer is left out, for chat templates want turns to alternate.
function messagesOf(exchanges, system) {
  const messages = exchanges.flatMap((exchange, at) => {
    const question = { role: "user", content: content(exchange) };
    if (exchange.answer.text) return [question, { role: "assistant", content: exchange.answer.text }];
    return at === exchanges.length - 1 ? [question] : [];
  });
  return system ? [{ role: "system", content: system }, ...messages] : messages;
}
