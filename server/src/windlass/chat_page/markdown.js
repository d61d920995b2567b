// Markdown to DOM nodes. Text of a model never meets an HTML parser: every node is made by name and every word is a
// text node, so that markup inside an answer shows as the characters it is.

// The work of every reader is linear in what it reads: a pattern has no two neighbours that take the same character, no
// reader looks again at what one before it has passed, and what a text may become is bounded below.

const DEEPEST = 12; // quotes in lists in quotes: past this depth text stays text
const LONGEST = 200_000; // characters: an answer of some 50,000 tokens; what follows is shown as one plain text
const MOST = 4_000; // elements of an answer: what follows is shown as plain text, for a page lays out no 100,000 in time
const WIDEST = 100; // columns of a table: past it lines with bars stay text
const FENCE = /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^([ \t]*)([-*+]|\d{1,9}[.)])(?:([ \t]+)(?![ \t])(.*)|)$/s;
const TASK = /^\[([ xX])\][ \t]+(?![ \t])(.*)$/s;
const DASHES = /^:?-+:?$/;

let room = MOST; // elements that the answer at hand may still have

const element = (tag, attributes = {}, ...children) => {
  room--;
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  for (const child of children.flat()) node.append(child); // a list of any length: a call takes some 100,000 words
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
  const opened = fenceOf(lines[at]);
  if (!opened) return null;
  const width = indent(lines[at]);
  let end = at + 1;
  while (end < lines.length && !closes(fenceOf(lines[end]), opened)) end++;
  const text = lines.slice(at + 1, end).map((line) => unindent(line, width)).join("\n");
  return { end: Math.min(end + 1, lines.length), build: () => codeBlock(text, opened.words.trim().split(/\s/)[0]) };
}

function fenceOf(line) {
  const fence = line.match(FENCE)?.[1];
  if (!fence) return null;
  const words = line.slice(line.indexOf(fence) + fence.length);
  return words.includes("`") ? null : { fence, words };
}

const closes = (found, opened) =>
  Boolean(found) && found.fence.startsWith(opened.fence) && blank(found.words);

function codeBlock(text, language) {
  const copy = element("button", { type: "button", class: "plain", "data-do": "copyCode" }, "Copy");
  const head = element("figcaption", {}, element("span", {}, language || "code"), copy);
  const body = element("pre", { tabindex: "0" }, element("code", {}, text));
  return element("figure", { class: "code" }, head, body);
}

function readHeading(lines, at, depth) {
  const marks = lines[at].match(HEADING)?.[1];
  if (!marks) return null;
  const level = Math.min(marks.length + 2, 6); // the page itself owns h1 and h2
  const text = withoutMarks(lines[at].slice(lines[at].indexOf(marks) + marks.length).trim());
  return { end: at + 1, build: () => element(`h${level}`, { class: `size-${marks.length}`, dir: "auto" }, inline(text, depth)) };
}

// "Title ##" is "Title", "C#" stays.
function withoutMarks(text) {
  let end = text.length;
  while (end > 0 && text[end - 1] === "#") end--;
  return end === 0 || " \t".includes(text[end - 1]) ? text.slice(0, end).trimEnd() : text;
}

const readRule = (lines, at) => (RULE.test(lines[at]) ? { end: at + 1, build: () => element("hr") } : null);

function readQuote(lines, at, depth) {
  if (!QUOTE.test(lines[at])) return null;
  let end = at;
  while (end < lines.length && (QUOTE.test(lines[end]) || (!blank(lines[end]) && !startsBlock(lines, end)))) end++;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return { end, build: () => element("blockquote", {}, nodes(inner, depth + 1)) };
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
      for (; end < next - 1; end++) taken.push(""); // the rest of the blank lines, all at once
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
  return element(start === null ? "ul" : "ol", attributes, whileRoom(items, (lines) => listItem(lines, loose, depth), (rest) => element("li", { dir: "auto" }, rest.flat().join("\n"))));
}

function listItem(lines, loose, depth) {
  const [first, ...rest] = lines;
  const task = first.match(TASK);
  const shown = task ? [(task[1] === " " ? "☐ " : "☑ ") + task[2], ...rest] : lines;
  const children = nodes(shown, depth);
  const flat = loose ? children : children.flatMap((child) => (child.tagName === "P" ? [...child.childNodes] : [child]));
  return element("li", { dir: "auto" }, flat);
}

function readTable(lines, at, depth) {
  if (!startsTable(lines, at)) return null;
  const head = cells(lines[at]);
  const sides = cells(lines[at + 1]).map(side);
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end++;
  const rows = lines.slice(at + 2, end).map(cells);
  return { end, build: () => table(head, rows, sides, depth) };
}

function startsTable(lines, at) {
  if (at + 1 >= lines.length || !lines[at].includes("|") || !" -|:".includes(lines[at + 1][0] ?? "x")) return false;
  const dashes = cells(lines[at + 1]);
  return dashes.length <= WIDEST && dashes.every((text) => DASHES.test(text)) && dashes.length === cells(lines[at]).length;
}

const cells = (line) =>
  line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

function side(dashes) {
  if (!dashes.endsWith(":")) return "";
  return dashes.startsWith(":") ? "middle" : "right";
}

function table(head, rows, sides, depth) {
  const cell = (tag) => (text, at) =>
    element(tag, { dir: "auto", ...(sides[at] ? { class: sides[at] } : {}) }, inline(text ?? "", depth));
  const row = (tag) => (words) => element("tr", {}, words.slice(0, sides.length).map(cell(tag))); // never wider than it was written
  const whole = element("table", {}, element("thead", {}, row("th")(head)), element("tbody", {}, whileRoom(rows, row("td"), (rest) => row("td")([rest.map((words) => words.join(" | ")).join("\n")]))));
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table" }, whole);
}

function readParagraph(lines, at, depth) {
  let end = at + 1;
  while (end < lines.length && !blank(lines[end]) && !startsBlock(lines, end)) end++;
  const text = lines.slice(at, end).join("\n").trim();
  return { end, build: () => element("p", { dir: "auto" }, inline(text, depth)) };
}

const STARTERS = [readFence, readHeading, readRule, readQuote, readList, readTable];

function startsBlock(lines, at) {
  const item = lines[at].match(ITEM);
  if (item && /\d/.test(item[2]) && parseInt(item[2], 10) !== 1) return false; // "…in\n1984. It" is prose
  const cheap = Boolean(fenceOf(lines[at])) || HEADING.test(lines[at]) || RULE.test(lines[at]) || QUOTE.test(lines[at]);
  return cheap || Boolean(item?.[4]) || startsTable(lines, at);
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

function nodes(lines, depth) {
  const blocks = readBlocks(lines, depth);
  return whileRoom(blocks, (block) => block.build(), (rest) => plain(rest.map((block) => block.source).join("\n\n")));
}

// What becomes of each, and of all the rest at once when there is no more room.
function whileRoom(all, make, makeRest) {
  const made = [];
  for (let at = 0; at < all.length; at++) {
    if (room <= 0) return [...made, makeRest(all.slice(at))];
    made.push(make(all[at], at));
  }
  return made;
}

const plain = (text) => element("p", { dir: "auto", class: "plain-rest" }, text);

// ---- into the page: what is unchanged stays, so that selections and scroll places survive a growing answer

const sources = new WeakMap();
const sizes = new WeakMap(); // elements of a block

function showMarkdown(place, text) {
  const blocks = readBlocks(text.slice(0, LONGEST).replace(/\r\n?/g, "\n").split("\n"), 0);
  if (text.length > LONGEST) blocks.push({ source: text.slice(LONGEST), build: () => plain(text.slice(LONGEST)) });
  room = MOST;
  const kept = whileRoom(blocks, (block, at) => showBlock(place, block, at), (rest) => {
    const source = rest.map((block) => block.source).join("\n\n");
    return showBlock(place, { source, build: () => plain(source) }, blocks.length - rest.length);
  });
  while (place.children.length > kept.length) place.lastElementChild.remove();
}

function showBlock(place, block, at) {
  const old = place.children[at];
  if (old && sources.get(old) === block.source && sizes.get(old) <= room) {
    room -= sizes.get(old);
    return old;
  }
  const before = room;
  const made = block.build();
  const now = old ? changed(old, made) : place.appendChild(made);
  sources.set(now, block.source);
  sizes.set(now, before - room);
  return now;
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
