// Color by a column: a legend of categories that are switched on and off, or a bar for numbers.

const legend = element("legend");
const picker = element("color");

function fillPicker() {
  columns.forEach((column, k) => {
    if (column.kind === "text") return; // too many values for a legend
    const option = make("option", column.name);
    option.value = String(k);
    picker.append(option);
  });
  if (columns[state.color].kind === "text") state.color = Number(picker.options[0].value);
  picker.value = String(state.color);
}

function colorBy(k) {
  state.color = k;
  state.hidden.clear();
  state.emphasis = -1;
  picker.value = String(k);
  showLegend();
  showContents();
  showPinned();
  recolor();
  changed();
}

function counts(column) {
  if (!column.counts) {
    column.counts = new Uint32Array(column.categories.length);
    for (let i = 0; i < n; i++) column.counts[column.get(i)]++;
  }
  return column.counts;
}

function showLegend() {
  const column = columns[state.color];
  legend.replaceChildren(...(column.kind === "category" ? categories(column) : bar(column)));
  element("switches").hidden = column.kind !== "category";
}

function categories(column) {
  const { lookup } = coloring(column);
  const total = counts(column);
  return column.categories.map((name, k) => {
    const row = make("button", undefined, "entry");
    const dot = make("span", "", "dot");
    dot.style.background = css(lookup[k]);
    row.append(dot, make("span", name, "text"), make("span", total[k].toLocaleString("en-GB"), "count"));
    row.type = "button";
    row.title = name;
    row.setAttribute("aria-pressed", String(!state.hidden.has(k)));
    row.setAttribute("aria-label", `${name}, ${total[k]} points`);
    row.addEventListener("click", () => toggle(k));
    row.addEventListener("pointerenter", () => emphasize(k));
    row.addEventListener("pointerleave", () => emphasize(-1));
    return row;
  });
}

function refresh() {
  [...legend.children].forEach((row, k) => row.setAttribute("aria-pressed", String(!state.hidden.has(k))));
  recolor();
  changed();
}

function toggle(k) {
  if (state.hidden.has(k)) state.hidden.delete(k);
  else state.hidden.add(k);
  state.emphasis = -1;
  refresh();
  say(`${columns[state.color].categories[k]} ${state.hidden.has(k) ? "hidden" : "shown"}`);
}

function showAll(shown) {
  state.hidden = new Set(shown ? [] : columns[state.color].categories.keys());
  state.emphasis = -1;
  refresh();
}

// A moment's rest on an entry dims the others; passing over the list does not.
let resting = 0;
function emphasize(k) {
  clearTimeout(resting);
  resting = setTimeout(() => {
    const next = state.hidden.has(k) ? -1 : k;
    if (next === state.emphasis) return;
    state.emphasis = next;
    recolor();
  }, 140);
}

function bar(column) {
  const [low, high] = rangeOf(column);
  const strip = make("canvas", "", "bar");
  strip.width = 256;
  strip.height = 1;
  const context = strip.getContext("2d");
  for (let k = 0; k < 256; k++) {
    context.fillStyle = css(scaleColor(k / 255, theme()));
    context.fillRect(k, 0, 1, 1);
  }
  strip.setAttribute("role", "img");
  strip.setAttribute("aria-label", `${column.name}, from ${column.said(low)} to ${column.said(high)}`);
  const ends = make("div", undefined, "ends");
  ends.append(...[low, (low + high) / 2, high].map((x) => make("span", column.said(x))));
  return [strip, ends];
}
