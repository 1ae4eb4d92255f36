// What sets rows apart from the rest: columns by the difference of means in standard deviations, categories and words by the
// difference of shares. It describes the rows, and tests nothing. The same for a branch, a group and a lasso.

const LEAST_APART = { spreads: 0.2, share: 0.05 }; // below which a difference is not worth reading
const LONGEST = 60; // letters of a name that is shown in a table

const compared = columns.filter((column) => !column.own && !column.derived && column.kind !== "text");
const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);
const percent = (x) => `${(100 * x).toFixed(x === 0 || x === 1 ? 0 : 1)} %`;
const signed = (x, digits) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(digits)}`;

// Count, sum and sum of squares of a column's finite values about a pivot, over some rows or all of them.
function moments(column, rows, pivot) {
  const { values, known } = column;
  let [count, sum, square] = [0, 0, 0];
  const many = rows ? rows.length : n;
  if (known) {
    const total = new Uint32Array(256);
    if (rows) for (let k = 0; k < many; k++) total[values[rows[k]]]++;
    else for (let i = 0; i < many; i++) total[values[i]]++;
    for (let code = 0; code < 256; code++) {
      if (!total[code] || Number.isNaN(known[code])) continue;
      const x = known[code] - pivot;
      count += total[code];
      sum += total[code] * x;
      square += total[code] * x * x;
    }
    return { count, sum, square };
  }
  for (let k = 0; k < many; k++) {
    const x = values[rows ? rows[k] : k] - pivot;
    if (!(Math.abs(x) < Infinity)) continue; // missing, or infinite
    count++;
    sum += x;
    square += x * x;
  }
  return { count, sum, square };
}

// Of all rows; kept, since it takes two passes over the column. About the mean, where squares do not cancel.
function wholeOf(column) {
  if (!column.whole) {
    const [low, high] = rangeOf(column);
    const first = moments(column, null, (low + high) / 2);
    const mean = (low + high) / 2 + (first.count ? first.sum / first.count : 0);
    const all = moments(column, null, mean);
    column.whole = { ...all, mean, sd: Math.sqrt(all.square / Math.max(1, all.count)) };
  }
  return column.whole;
}

function differenceOfMeans(column, rows) {
  const all = wholeOf(column);
  if (!(all.sd > 0)) return null;
  const own = moments(column, rows, all.mean);
  const others = all.count - own.count;
  if (!own.count || !others) return null;
  const [here, rest] = [own.sum / own.count, (all.sum - own.sum) / others];
  return { name: column.name, here: all.mean + here, rest: all.mean + rest, by: (here - rest) / all.sd, column };
}

function differencesOfShares(column, rows) {
  const all = counts(column);
  const own = new Uint32Array(all.length);
  for (let k = 0; k < rows.length; k++) own[column.values[rows[k]]]++;
  const [many, others] = [rows.length, n - rows.length];
  return Array.from(all, (total, k) => {
    const [here, rest] = [own[k] / many, (total - own[k]) / others];
    return { name: `${cut(column.name)}: ${cut(column.categories[k])}`, here, rest, by: here - rest, column, k };
  });
}

// The words of texts: of each text the numbers of its words, for words that several rows have.
const LETTERS = 400; // of a text that are read
const TEXTS_AT_ONCE = 500;
function* wordsOf(texts, countOf) {
  const seen = new Map();
  const split = (text) => new Set(text.slice(0, LETTERS).toLowerCase().match(/\p{L}[\p{L}\p{N}'’-]{2,}/gu));
  for (let t = 0; t < texts.length; t++) {
    for (const word of split(texts[t])) seen.set(word, (seen.get(word) || 0) + countOf(t));
    if (t % TEXTS_AT_ONCE === 0) yield;
  }
  const least = Math.max(3, n / 1000);
  const kept = [...seen].filter(([, count]) => count >= least && count < n).sort((a, b) => b[1] - a[1]).slice(0, 3000);
  const number = new Map(kept.map(([word], k) => [word, k]));
  const [start, ids] = [new Uint32Array(texts.length + 1), []];
  for (let t = 0; t < texts.length; t++) {
    if (number.size) for (const word of split(texts[t])) if (number.has(word)) ids.push(number.get(word));
    start[t + 1] = ids.length;
    if (t % TEXTS_AT_ONCE === 0) yield;
  }
  return { list: kept, start, ids: Uint32Array.from(ids) };
}

// Of names, and of columns of texts that are no categories.
function* readTexts() {
  const found = [];
  for (const column of columns.filter(({ kind }) => kind === "text")) {
    const many = counts(column);
    found.push({ name: column.name, at: column.get, words: yield* wordsOf(column.categories, (t) => many[t]) });
  }
  if (names) found.push({ name: "name", at: (i) => i, words: yield* wordsOf(names, () => 1) });
  return found.filter(({ words }) => words.list.length);
}

// Texts are read part by part while nothing else is to do, and what is left when it is asked for.
let wordy = null;
const reading = readTexts();
function readOn() {
  const { done, value } = reading.next();
  if (done) wordy = value;
}
function textSources() {
  while (!wordy) readOn();
  return wordy;
}

// What a first card needs of all rows, found while nothing else is to do.
function* ofAllRows() {
  for (const column of compared) {
    if (column.kind === "number") wholeOf(column);
    else counts(column);
    yield;
  }
  while (!wordy) yield readOn();
}

function prepareCards() {
  const steps = ofAllRows();
  const idle = window.requestIdleCallback || ((work) => setTimeout(work, 50, { timeRemaining: () => 10 })); // not in all browsers
  const work = (deadline) => {
    let over = false;
    while (!over && deadline.timeRemaining() > 1) over = steps.next().done;
    if (!over) idle(work);
  };
  idle(work);
}

function differencesOfWords({ name, at, words: { list, start, ids } }, rows) {
  const own = new Uint32Array(list.length);
  for (let k = 0; k < rows.length; k++) {
    const t = at(rows[k]);
    for (let m = start[t]; m < start[t + 1]; m++) own[ids[m]]++;
  }
  return list.map(([word, total], k) => {
    const [here, rest] = [own[k] / rows.length, (total - own[k]) / (n - rows.length)];
    return { name: `“${cut(word)}” in ${cut(name)}`, here, rest, by: here - rest };
  });
}

// The strongest differences first, at most `most` of each kind, without a column that the rows were chosen by.
function differences(rows, most = { numbers: 6, categories: 4, words: 4 }, skip = null) {
  if (!rows.length || rows.length === n) return { numbers: [], categories: [], words: [] };
  const best = (list, least, some) =>
    list.filter((one) => one && Math.abs(one.by) >= least).sort((a, b) => Math.abs(b.by) - Math.abs(a.by)).slice(0, some);
  const numbers = compared.filter((column) => column.kind === "number").map((column) => differenceOfMeans(column, rows));
  const categories = compared.filter((column) => column.kind === "category" && column !== skip).flatMap((column) => {
    const found = differencesOfShares(column, rows).filter(({ k }) => k !== column.missing);
    return found.length === 2 ? [found[found[0].by > 0 ? 0 : 1]] : found; // of two categories the more frequent one says all
  });
  const words = textSources().flatMap((source) => differencesOfWords(source, rows));
  return {
    numbers: best(numbers, LEAST_APART.spreads, most.numbers),
    categories: best(categories, LEAST_APART.share, most.categories),
    words: best(words, LEAST_APART.share, most.words),
  };
}

// Rows nearest to the average of some rows, the medoid first: by the columns, or without any by the map.
function typical(rows, most = 3) {
  if (rows.length <= most) return Array.from(rows);
  const step = Math.max(1, Math.floor(rows.length / 4000)); // of very many a part tells
  const some = rows.filter((_, k) => k % step === 0);
  const score = new Float64Array(some.length);
  for (const column of compared) {
    if (column.kind === "number") {
      const { mean, sd } = wholeOf(column);
      if (!(sd > 0)) continue;
      const own = moments(column, rows, mean);
      const middle = mean + own.sum / Math.max(1, own.count);
      some.forEach((i, k) => {
        const x = column.get(i);
        score[k] += Number.isFinite(x) ? ((x - middle) / sd) ** 2 : 1; // a gap is as far as a usual row
      });
    } else {
      const total = new Uint32Array(column.categories.length);
      rows.forEach((i) => total[column.values[i]]++);
      const usual = total.indexOf(Math.max(...total));
      some.forEach((i, k) => (score[k] += column.values[i] === usual ? 0 : 1));
    }
  }
  if (!compared.length && hasDisc) {
    const others = some.filter((_, k) => k % Math.max(1, Math.floor(some.length / 60)) === 0);
    some.forEach((i, k) => others.forEach((j) => (score[k] += apart(i, j))));
  }
  const order = Array.from(some.keys()).sort((a, b) => score[a] - score[b]);
  return order.slice(0, most).map((k) => some[k]);
}

// A name for rows that have none: what sets them apart most, in few words.
function nickname(rows) {
  const { numbers, categories, words } = differences(rows, { numbers: 2, categories: 1, words: 1 });
  const high = ({ name, by, column }) => `${(column.date ? ["late", "early"] : ["high", "low"])[by > 0 ? 0 : 1]} ${short(name)}`;
  const pure = categories.filter(({ here, by }) => here > 0.5 && by > 0.2).map(({ column, k }) => short(column.categories[k]));
  const parts = [...pure, ...numbers.filter(({ by }) => Math.abs(by) > 0.5).map(high)];
  if (!parts.length && words.length && words[0].by > 0.2) parts.push(short(words[0].name));
  return parts.slice(0, 2).join(", ");
}

const told = ({ column, here, rest, by }) =>
  column && column.kind === "number"
    ? [...means(column, here, rest), `${signed(by, 1)} spreads`]
    : [percent(here), percent(rest), `${signed(100 * by, 0)} points`];

// Two means in four digits, or in so many that they differ by two.
function means(column, here, rest) {
  const digits = Math.ceil(Math.log10(Math.max(Math.abs(here), Math.abs(rest)) / Math.abs(here - rest))) + 2;
  if (column.date || !(digits > 4)) return [here, rest].map((x) => column.said(column.date ? x : Number(x.toPrecision(4))));
  const form = { maximumSignificantDigits: Math.min(digits, 15) };
  return [here, rest].map((x) => x.toLocaleString("en-GB", form).replace("-", "−"));
}

const NO_TEST =
  "This describes the rows and is no test: a branch or a group that was found from these columns differs in them by construction.";

// The part of a card that says what sets rows apart, and three typical rows.
function apartCard(rows, skip = null) {
  const box = document.createDocumentFragment();
  box.append(make("h3", "What sets these rows apart"));
  const found = differences(rows, undefined, skip);
  const lines = [...found.numbers, ...found.categories, ...found.words];
  if (rows.length === n) {
    box.append(make("p", "These are all rows: there is no rest to compare them with.", "hint"));
  } else if (!compared.length && !textSources().length) {
    box.append(make("p", "The page holds no columns to compare rows by. In Python, give them with columns= or rows=.", "hint"));
  } else if (!lines.length) {
    box.append(make("p", `Nothing much: no mean differs by ${LEAST_APART.spreads} spreads, and no share by ${100 * LEAST_APART.share} points.`, "hint"));
  } else {
    const frame = make("div", undefined, "scroll");
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", "What sets these rows apart");
    const table = make("table");
    const head = make("tr");
    head.append(make("th", ""), term("here", "th"), term("rest", "th"));
    table.append(head);
    for (const one of lines) {
      const line = make("tr");
      const name = make("th", cut(one.name));
      name.title = one.name.slice(0, 300);
      const [here, rest, by] = told(one);
      name.append(make("small", by));
      line.append(name, make("td", here), make("td", rest));
      table.append(line);
    }
    frame.append(table);
    box.append(frame);
  }
  if (rows.length < n && lines.length) box.append(make("p", NO_TEST, "hint"));
  if (meta.compared && meta.compared.held < meta.compared.of) {
    const [held, of] = [meta.compared.held, meta.compared.of].map((x) => x.toLocaleString("en-GB"));
    box.append(make("p", `The page holds ${held} of ${of} further columns, those that differ most across the map; the others were left out to keep it small.`, "hint"));
  }
  const some = typical(rows);
  if (some.length && rows.length > 1) {
    box.append(make("h3", "Typical rows"));
    const list = make("p", undefined, "examples");
    for (const i of some) {
      const button = make("button", cut(nameOf(i)));
      button.type = "button";
      button.addEventListener("click", () => {
        pin(i);
        goTo(i);
      });
      list.append(button);
    }
    box.append(list);
  }
  return box;
}

// The same in a few lines, for a card beside the pointer: only where it is found in no time.
const QUICK = 2e6; // values read
function apartLines(rows, skip = null) {
  if (rows.length === n || rows.length * compared.length > QUICK) return [];
  const { numbers, categories } = differences(rows, { numbers: 3, categories: 2, words: 0 }, skip);
  return [...numbers, ...categories].slice(0, 4).map((one) => [cut(one.name), `${told(one)[0]}, rest ${told(one)[1]}`]);
}

function selectedRows() {
  const rows = [];
  for (let i = 0; i < n; i++) if (state.selected[i]) rows.push(i);
  return Uint32Array.from(rows);
}
