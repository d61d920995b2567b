// Markdown to DOM nodes. Text of a model never meets an HTML parser: every node is made by name and every word is a
// text node, so that markup inside an answer shows as the characters it is.

const DEEPEST = 12; // quotes in lists in quotes: past this depth text stays text
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^([ \t]*)([-*+]|\d{1,9}[.)])(?:([ \t]+)(.*)|)$/;
const DASHES = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const LINK = /!?\[((?:[^[\]\\]|\\.)*)\]\([ \t]*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:[ \t]+(?:"[^"]*"|'[^']*'))?[ \t]*\)/y;
const ADDRESS = /https?:\/\/[^\s<>"`*]*[^\s<>"`*.,;:!?)\]'_]/iy;
const ESCAPED = /\\([!-/:-@[-`{-~])/y;
const BREAK = /[ \t]*(?:\\)?\n[ \t]*/y;
const TICKS = /`+/y;
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

const element = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

// ---- blocks: each reader looks at lines[at] and gives {end, build} or nothing

const indent = (line) => line.match(/^[ \t]*/)[0].replace(/\t/g, "    ").length;
const blank = (line) => line.trim() === "";

function unindent(line, width) {
  let taken = 0;
  let at = 0;
  while (at < line.length && taken < width && " \t".includes(line[at])) taken += line[at++] === "\t" ? 4 : 1;
  return line.slice(at);
}

function readFence(lines, at) {
  const opened = lines[at].match(FENCE);
  if (!opened) return null;
  const [, fence, words] = opened;
  const closes = new RegExp(`^ {0,3}\\${fence[0]}{${fence.length},}[ \\t]*$`);
  let end = at + 1;
  while (end < lines.length && !closes.test(lines[end])) end++;
  const text = lines.slice(at + 1, end).map((line) => unindent(line, indent(lines[at]))).join("\n");
  return { end: Math.min(end + 1, lines.length), build: () => codeBlock(text, words.trim().split(/\s/)[0]) };
}

function codeBlock(text, language) {
  const copy = element("button", { type: "button", class: "plain", "data-do": "copyCode" }, "Copy");
  const head = element("figcaption", {}, element("span", {}, language || "code"), copy);
  const body = element("pre", { tabindex: "0" }, element("code", {}, text));
  return element("figure", { class: "code" }, head, body);
}

function readHeading(lines, at, depth) {
  const found = lines[at].match(HEADING);
  if (!found) return null;
  const level = Math.min(found[1].length + 2, 6); // the page itself owns h1 and h2
  const name = `size-${found[1].length}`;
  return { end: at + 1, build: () => element(`h${level}`, { class: name, dir: "auto" }, ...inline(found[2] ?? "", depth)) };
}

const readRule = (lines, at) => (RULE.test(lines[at]) ? { end: at + 1, build: () => element("hr") } : null);

function readQuote(lines, at, depth) {
  if (!QUOTE.test(lines[at])) return null;
  let end = at;
  while (end < lines.length && (QUOTE.test(lines[end]) || (!blank(lines[end]) && !startsBlock(lines, end)))) end++;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return { end, build: () => element("blockquote", {}, ...nodes(inner, depth + 1)) };
}

function readList(lines, at, depth) {
  const first = lines[at].match(ITEM);
  if (!first || RULE.test(lines[at])) return null;
  const base = indent(lines[at]);
  const ordered = /\d/.test(first[2]);
  const items = [];
  let end = at;
  let loose = false;
  while (end < lines.length && continues(lines, end, base, ordered)) {
    const item = readItem(lines, end, base);
    items.push(item.lines);
    const next = skipBlank(lines, item.end);
    loose ||= item.loose || (next > item.end && next < lines.length && continues(lines, next, base, ordered));
    end = next < lines.length && continues(lines, next, base, ordered) ? next : item.end;
  }
  return { end, build: () => list(items, ordered ? parseInt(first[2], 10) : null, loose, depth + 1) };
}

function continues(lines, at, base, ordered) {
  const found = lines[at].match(ITEM);
  return Boolean(found) && !RULE.test(lines[at]) && indent(lines[at]) < base + 2 && /\d/.test(found[2]) === ordered;
}

function readItem(lines, at, base) {
  const [, before, marker, gap = " ", text = ""] = lines[at].match(ITEM);
  let inner = indent(before) + marker.length + Math.min(gap.length, 4);
  const taken = [text];
  let end = at + 1;
  let loose = false;
  for (; end < lines.length; end++) {
    const line = lines[end];
    const belongs = indent(line) >= base + 2; // models indent by 2, 3 or 4, whatever the marker's width
    if (blank(line)) {
      const next = skipBlank(lines, end);
      if (next >= lines.length || indent(lines[next]) < base + 2) break;
      loose ||= !ITEM.test(lines[next]);
    } else if (!belongs && (ITEM.test(line) || blank(lines[end - 1]) || startsBlock(lines, end))) break;
    if (belongs && !blank(line)) inner = Math.min(inner, indent(line)); // what lies deeper stays deeper
    taken.push(unindent(line, inner));
  }
  return { end, lines: taken, loose };
}

function skipBlank(lines, at) {
  while (at < lines.length && blank(lines[at])) at++;
  return at;
}

function list(items, start, loose, depth) {
  const attributes = start === null || start === 1 ? {} : { start: String(start) };
  return element(start === null ? "ul" : "ol", attributes, ...items.map((lines) => listItem(lines, loose, depth)));
}

function listItem(lines, loose, depth) {
  const [first, ...rest] = lines;
  const task = first.match(/^\[([ xX])\][ \t]+(.*)$/);
  const shown = task ? [(task[1] === " " ? "☐ " : "☑ ") + task[2], ...rest] : lines;
  const children = nodes(shown, depth);
  const flat = loose ? children : children.flatMap((child) => (child.tagName === "P" ? [...child.childNodes] : [child]));
  return element("li", { dir: "auto" }, ...flat);
}

function readTable(lines, at, depth) {
  if (!lines[at].includes("|") || at + 1 >= lines.length || !DASHES.test(lines[at + 1])) return null;
  const head = cells(lines[at]);
  const sides = cells(lines[at + 1]).map(side);
  if (head.length !== sides.length) return null;
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end++;
  const rows = lines.slice(at + 2, end).map(cells);
  return { end, build: () => table(head, rows, sides, depth) };
}

const cells = (line) =>
  line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

function side(dashes) {
  if (!dashes.endsWith(":")) return "";
  return dashes.startsWith(":") ? "middle" : "right";
}

function table(head, rows, sides, depth) {
  const cell = (tag) => (text, at) =>
    element(tag, { dir: "auto", ...(sides[at] ? { class: sides[at] } : {}) }, ...inline(text ?? "", depth));
  const row = (tag) => (words) => element("tr", {}, ...sides.map((_, at) => cell(tag)(words[at], at)));
  const whole = element("table", {}, element("thead", {}, row("th")(head)), element("tbody", {}, ...rows.map(row("td"))));
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table" }, whole);
}

function readParagraph(lines, at, depth) {
  let end = at + 1;
  while (end < lines.length && !blank(lines[end]) && !startsBlock(lines, end)) end++;
  const text = lines.slice(at, end).join("\n").trim();
  return { end, build: () => element("p", { dir: "auto" }, ...inline(text, depth)) };
}

const STARTERS = [readFence, readHeading, readRule, readQuote, readList, readTable];

function startsBlock(lines, at) {
  const item = lines[at].match(ITEM);
  if (item && /\d/.test(item[2]) && parseInt(item[2], 10) !== 1) return false; // "…in\n1984. It" is prose
  const cheap = FENCE.test(lines[at]) || HEADING.test(lines[at]) || RULE.test(lines[at]) || QUOTE.test(lines[at]);
  return cheap || Boolean(item?.[4]) || Boolean(readTable(lines, at));
}

function readBlocks(lines, depth) {
  const found = [];
  for (let at = skipBlank(lines, 0); at < lines.length; at = skipBlank(lines, at)) {
    const readers = depth > DEEPEST ? [] : STARTERS;
    let block = null;
    for (const reader of readers) if ((block = reader(lines, at, depth))) break;
    block ??= readParagraph(lines, at, depth);
    found.push({ source: lines.slice(at, block.end).join("\n"), build: block.build });
    at = block.end;
  }
  return found;
}

const nodes = (lines, depth) => readBlocks(lines, depth).map((block) => block.build());

// ---- words inside a block

function inline(text, depth = 0) {
  const out = [];
  const hopeless = new Set(); // marks that nothing closes from here on
  let words = "";
  const push = (...made) => {
    if (words) out.push(document.createTextNode(words));
    words = "";
    out.push(...made);
  };
  for (let at = 0; at < text.length; ) {
    const found = depth > DEEPEST ? null : readInline(text, at, depth, hopeless);
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

function readInline(text, at, depth, hopeless) {
  const reader = READERS[text[at]] ?? ("*_~".includes(text[at]) ? readSpan : null);
  return reader && reader(text, at, depth, hopeless);
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

function readCode(text, at, depth, hopeless) {
  const ticks = match(TICKS, text, at)[0];
  let end = hopeless.has(ticks) ? -1 : text.indexOf(ticks, at + ticks.length);
  while (end >= 0 && text[end + ticks.length] === "`") {
    const run = match(TICKS, text, end)[0].length; // a longer run of ticks closes nothing
    end = text.indexOf(ticks, end + run);
  }
  if (end < 0) {
    hopeless.add(ticks);
    return { end: at + ticks.length, words: ticks };
  }
  const inner = text.slice(at + ticks.length, end).replaceAll("\n", " ");
  const bare = /^ .*[^ ].* $|^ [^ ] $/.test(inner) ? inner.slice(1, -1) : inner;
  return { end: end + ticks.length, nodes: [element("code", {}, bare)] };
}

function readLink(text, at, depth) {
  const found = match(LINK, text, at);
  if (!found) return null;
  const address = webAddress(found[2]);
  if (!address) return { end: at + found[0].length, words: found[0] };
  return { end: at + found[0].length, nodes: [link(address, ...inline(found[1] || found[2], DEEPEST))] };
}

function readAddress(text, at) {
  if (at > 0 && WORD.test(text[at - 1])) return null;
  const found = match(ADDRESS, text, at);
  const address = found && webAddress(found[0]);
  return address && { end: at + found[0].length, nodes: [link(address, found[0])] };
}

const link = (address, ...words) =>
  element("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, ...words);

function webAddress(text) {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return null;
  const address = new URL(text);
  return ["http:", "https:"].includes(address.protocol) ? address.href : null;
}

function readSpan(text, at, depth, hopeless) {
  for (const { mark, tags } of SPANS) {
    if (!text.startsWith(mark, at) || hopeless.has(mark)) continue;
    const from = at + mark.length;
    if (from >= text.length || /\s/.test(text[from]) || text[from] === mark[0]) continue;
    if (mark[0] === "_" && at > 0 && WORD.test(text[at - 1])) continue;
    const end = closing(text, from, mark);
    if (end < 0) {
      hopeless.add(mark);
      continue;
    }
    const inner = inline(text.slice(from, end), depth + 1);
    return { end: end + mark.length, nodes: [tags.reduceRight((made, tag) => [element(tag, {}, ...made)], inner)[0]] };
  }
  const run = text.slice(at).match(/^[*_~]+/)[0];
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

// ---- into the page: what is unchanged stays, so that selections and scroll places survive a growing answer

const sources = new WeakMap();

function showMarkdown(place, text) {
  const blocks = readBlocks(text.replace(/\r\n?/g, "\n").split("\n"), 0);
  blocks.forEach((block, at) => {
    const old = place.children[at];
    if (old && sources.get(old) === block.source) return;
    const now = old ? changed(old, block.build()) : place.appendChild(block.build());
    sources.set(now, block.source);
  });
  while (place.children.length > blocks.length) place.lastElementChild.remove();
}

function changed(old, now) {
  if (old.nodeName !== now.nodeName || old.className !== now.className) {
    old.replaceWith(now);
    return now;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (now.data.startsWith(old.data)) old.appendData(now.data.slice(old.length));
    else if (old.data !== now.data) old.data = now.data;
    return old;
  }
  for (const { name, value } of now.attributes ?? []) old.setAttribute(name, value);
  const wanted = [...now.childNodes];
  wanted.forEach((child, at) => (at < old.childNodes.length ? changed(old.childNodes[at], child) : old.appendChild(child)));
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
  return old;
}
