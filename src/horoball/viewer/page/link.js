// The view in the address: after the #, so that nothing is sent anywhere when it is opened.

function viewAsHash() {
  const { radius, angle, spin } = centerOf(state.g);
  const view = [radius, angle, spin, state.zoom, ...state.offset].map((x) => Number(x.toPrecision(15)));
  const fields = [`view=${view.join(",")}`, `color=${state.color}`];
  if (state.hidden.size) fields.push(`hidden=${[...state.hidden].join(",")}`);
  if (state.pinned >= 0) fields.push(`point=${state.pinned}`);
  if (state.group) fields.push(`group=${columns.indexOf(state.group.column)},${state.group.k}`);
  if (state.theme) fields.push(`theme=${state.theme}`);
  if (clades) {
    const part = [window_.low / shape.total, window_.high / shape.total, window_.past];
    fields.push(`tree=${part.map((x) => Number(x.toPrecision(6))).join(",")}`);
    if (state.support) fields.push(`support=${state.support}`);
    if (state.folded.size) fields.push(`folded=${[...state.folded].slice(0, 300).join(",")}`);
    if (state.kept >= 0) fields.push(`branch=${state.kept}`);
  }
  return `#${fields.join("&")}`;
}

// Only numbers and known words are taken; the rest of an address is ignored.
function restore() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const numbers = (name) => (fields.get(name) || "").split(",").filter(Boolean).map(Number);
  const theme = fields.get("theme");
  if (theme === "dark" || theme === "light") setTheme(theme);
  const [color] = numbers("color");
  if (columns[color] && columns[color].kind !== "text") colorBy(color);
  const known = (columns[state.color].categories || []).length;
  const hidden = numbers("hidden").filter((k) => Number.isInteger(k) && k >= 0 && k < known);
  if (hidden.length) {
    state.hidden = new Set(hidden);
    refresh();
  }
  const [point] = numbers("point");
  if (Number.isInteger(point) && point >= 0 && point < n) pin(point);
  const [column, category] = numbers("group");
  if (columns[column] && columns[column].kind === "category" && columns[column].categories[category] !== undefined) keepGroup(columns[column], category);
  if (clades) restoreTree(numbers);
  const view = numbers("view");
  if (view.length !== 6 || !view.every(Number.isFinite) || view[0] < 0) return;
  const [radius, angle, spin, zoom, x, y] = view;
  setView(isFlat ? IDENTITY : fromCenter({ radius: Math.min(radius, FARTHEST), angle, spin }), zoom, [x, y]);
}

// Written a moment after the last change. A frame may refuse it; then there is no link.
let written = "";
let writing = 0;
function changed() {
  requestDraw();
  clearTimeout(writing);
  writing = setTimeout(writeHash, 250);
}

function writeHash() {
  clearTimeout(writing);
  written = viewAsHash();
  try {
    history.replaceState(null, "", written);
  } catch {
    element("link").hidden = true;
  }
}

function copyLink() {
  writeHash();
  const done = () => toast("Link copied");
  const failed = () => toast("The link to this view is in the address bar");
  if (navigator.clipboard) navigator.clipboard.writeText(location.href).then(done, failed);
  else failed();
}

let fading = 0;
function toast(text) {
  const box = element("toast");
  box.textContent = text;
  box.hidden = false;
  say(text);
  clearTimeout(fading);
  fading = setTimeout(() => (box.hidden = true), 2200);
}

window.addEventListener("hashchange", () => {
  if (location.hash !== written) restore();
});
