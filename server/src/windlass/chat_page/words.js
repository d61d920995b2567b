// Markdown inside a block: code, links, emphasis. The blocks are in markdown.js, and so is the rule for their work.

const LONGEST_RUN = 64; // backticks that open code: past it they stay text
const TARGET = /[^\s<>()]*/y;
const TITLE = /"[^"]*"|'[^']*'/y;
const BLANKS = /[ \t]*/y;
const ADDRESS = /https?:\/\/[^\s<>"`*]{1,2000}/iy;
const UNENDING = ".,;:!?)]'_"; // what stands behind an address in a sentence
const ESCAPED = /\\([!-/:-@[-`{-~])/y;
const BREAK = /(?:\\)?\n[ \t]*/y;
const TICKS = /`+/y;
const MARKS = /[*_~]+/y;
const WORD = /[\p{L}\p{N}]/u;

const SPANS = [
  { mark: "***", tags: ["strong", "em"] },
  { mark: "___", tags: ["strong", "em"] },
  { mark: "**", tags: ["strong"] },
  { mark: "__", tags: ["strong"] },
  { mark: "~~", tags: ["del"] },
  { mark: "*", tags: ["em"] },
  { mark: "_", tags: ["em"] },
];

function inline(text, depth = 0) {
  const out = [];
  const unclosed = new Set(); // marks that nothing closes from here on
  let words = "";
  const push = (...made) => {
    if (words) out.push(document.createTextNode(words));
    words = "";
    for (const one of made) out.push(one);
  };
  for (let at = 0; at < text.length; ) {
    const found = depth > DEEPEST || room <= 0 ? null : readInline(text, at, depth, unclosed);
    if (!found) words += text[at++];
    else {
      if (found.words) words += found.words;
      else push(...found.nodes);
      at = found.end;
    }
  }
  push();
  return out;
}

const match = (pattern, text, at) => {
  pattern.lastIndex = at;
  return pattern.exec(text);
};

const READERS = { "\\": readEscape, "`": readCode, "[": readLink, "!": readLink, "\n": readBreak, h: readAddress, H: readAddress };

function readInline(text, at, depth, unclosed) {
  const reader = READERS[text[at]] ?? ("*_~".includes(text[at]) ? readSpan : null);
  return reader && reader(text, at, depth, unclosed);
}

function readEscape(text, at) {
  if (text[at + 1] === "\n") return readBreak(text, at);
  const found = match(ESCAPED, text, at);
  return found && { end: at + 2, words: found[1] };
}

function readBreak(text, at) {
  const found = match(BREAK, text, at);
  return found && { end: at + found[0].length, nodes: [element("br")] };
}

function readCode(text, at, depth, unclosed) {
  const ticks = match(TICKS, text, at)[0];
  if (ticks.length > LONGEST_RUN) return { end: at + ticks.length, words: ticks };
  let end = unclosed.has(ticks) ? -1 : text.indexOf(ticks, at + ticks.length);
  while (end >= 0 && text[end + ticks.length] === "`") {
    const run = match(TICKS, text, end)[0].length; // a longer run of ticks closes nothing
    end = text.indexOf(ticks, end + run);
  }
  if (end < 0) {
    unclosed.add(ticks);
    return { end: at + ticks.length, words: ticks };
  }
  const inner = text.slice(at + ticks.length, end).replaceAll("\n", " ");
  const bare = inner.startsWith(" ") && inner.endsWith(" ") && inner.trim() !== "" ? inner.slice(1, -1) : inner;
  return { end: end + ticks.length, nodes: [element("code", {}, bare)] };
}

function readLink(text, at) {
  const opened = text.startsWith("![", at) ? at + 2 : text[at] === "[" ? at + 1 : -1;
  const closed = opened < 0 ? -1 : labelEnd(text, opened);
  const place = closed < 0 || text[closed + 1] !== "(" ? null : readTarget(text, closed + 2);
  if (!place) return null;
  const address = webAddress(place.target);
  if (!address) return { end: place.end, words: text.slice(at, place.end) };
  return { end: place.end, nodes: [link(address, inline(text.slice(opened, closed) || place.target, DEEPEST))] };
}

function labelEnd(text, from) {
  for (let at = from; at < text.length; at++) {
    if (text[at] === "]") return at;
    if (text[at] === "[") return -1;
    if (text[at] === "\\") at++;
  }
  return -1;
}

// What stands between the round brackets of a link: an address, and a title that nobody sees.
function readTarget(text, at) {
  let place = at + match(BLANKS, text, at)[0].length;
  if (text[place] === "<") place++;
  const from = place;
  place += match(TARGET, text, place)[0].length;
  while (text[place] === "(") {
    const inner = place + 1 + match(TARGET, text, place + 1)[0].length;
    if (text[inner] !== ")") return null;
    place = inner + 1 + match(TARGET, text, inner + 1)[0].length;
  }
  const target = text.slice(from, place);
  if (text[place] === ">") place++;
  const gap = match(BLANKS, text, place)[0].length;
  const title = gap ? match(TITLE, text, place + gap) : null;
  place += gap + (title ? title[0].length + match(BLANKS, text, place + gap + title[0].length)[0].length : 0);
  return text[place] === ")" ? { end: place + 1, target } : null;
}

function readAddress(text, at) {
  if (at > 0 && WORD.test(text[at - 1])) return null;
  let found = match(ADDRESS, text, at)?.[0];
  if (!found) return null;
  let length = found.length;
  while (UNENDING.includes(found[length - 1])) length--;
  found = found.slice(0, length);
  const address = webAddress(found);
  return address && { end: at + length, nodes: [link(address, found)] };
}

const link = (address, ...words) =>
  element("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, ...words);

function webAddress(text) {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return null;
  const address = new URL(text);
  return ["http:", "https:"].includes(address.protocol) ? address.href : null;
}

function readSpan(text, at, depth, unclosed) {
  for (const { mark, tags } of SPANS) {
    if (!text.startsWith(mark, at) || unclosed.has(mark)) continue;
    const from = at + mark.length;
    if (from >= text.length || /\s/.test(text[from]) || text[from] === mark[0]) continue;
    if (mark[0] === "_" && at > 0 && WORD.test(text[at - 1])) continue;
    const end = closing(text, from, mark);
    if (end < 0) {
      unclosed.add(mark);
      continue;
    }
    const inner = inline(text.slice(from, end), depth + 1);
    return { end: end + mark.length, nodes: [tags.reduceRight((made, tag) => [element(tag, {}, made)], inner)[0]] };
  }
  const run = match(MARKS, text, at)[0];
  return { end: at + run.length, words: run };
}

function closing(text, from, mark) {
  for (let at = text.indexOf(mark, from); at >= 0; ) {
    let run = mark.length;
    while (text[at + run] === mark[0]) run++;
    const fits = run === mark.length || (run === 3 && mark.length < 3);
    const word = mark[0] === "_" && WORD.test(text[at + run] ?? "");
    if (fits && !word && !/\s/.test(text[at - 1])) return at + run - mark.length;
    at = text.indexOf(mark, at + run);
  }
  return -1;
}
