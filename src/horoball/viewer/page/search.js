// Search by name: a list to choose from, rings around all that match.

const box = element("search");
const list = element("results");
const MOST = { listed: 12, ringed: 2000 };
let lower = null;
let foundLeaves = []; // of a tree whose leaves are groups of rows, and have names of their own
let active = -1;

function matches(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  if (!names) {
    const i = Number(wanted.replace(/^row\s*/, ""));
    return Number.isInteger(i) && i >= 0 && i < n ? [i] : [];
  }
  lower ||= names.map((name) => name.toLowerCase());
  const found = [];
  for (let i = 0; i < n && found.length < MOST.ringed; i++) if (lower[i].includes(wanted)) found.push(i);
  // Names that begin with the text come first, then shorter ones.
  const rank = (i) => (lower[i].startsWith(wanted) ? 0 : 1e6) + lower[i].length;
  return found.sort((i, j) => rank(i) - rank(j) || i - j);
}

function search() {
  state.found = matches(box.value);
  foundLeaves = matchingLeaves(box.value);
  const entries = [...foundLeaves.map((v) => clades.nameOf(v)), ...state.found.slice(0, MOST.listed).map(nameOf)];
  active = entries.length ? 0 : -1;
  list.replaceChildren(
    ...entries.slice(0, MOST.listed).map((text, k) => {
      const row = make("li", text);
      row.id = `result-${k}`;
      row.setAttribute("role", "option");
      row.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        choose(k);
      });
      return row;
    }),
  );
  const total = state.found.length + foundLeaves.length;
  const many = total >= MOST.ringed ? `${MOST.ringed.toLocaleString("en-GB")} or more` : total;
  if (box.value.trim()) {
    if (!total) list.append(make("li", names ? "No such name" : "No such row", "hint"));
    say(`${many} found`);
  }
  open(Boolean(box.value.trim()));
  mark();
  requestDraw();
  if (clades) requestTree(false);
}

function matchingLeaves(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted || !clades || !clades.names) return [];
  const found = [];
  clades.names.forEach((name, v) => found.length < MOST.listed && name.toLowerCase().includes(wanted) && found.push(v));
  return found;
}

function open(shown) {
  list.hidden = !shown;
  box.setAttribute("aria-expanded", String(shown));
}

function mark() {
  [...list.children].forEach((row, k) => row.setAttribute("aria-selected", String(k === active)));
  if (active >= 0) box.setAttribute("aria-activedescendant", `result-${active}`);
  else box.removeAttribute("aria-activedescendant");
}

function choose(k) {
  if (k >= 0 && k < foundLeaves.length) {
    open(false);
    keepBranch(foundLeaves[k]);
    return reveal(foundLeaves[k]);
  }
  const i = state.found[k - foundLeaves.length];
  if (i === undefined) return;
  open(false);
  pin(i);
  goTo(i);
}

function clearSearch() {
  box.value = "";
  search();
}

let typing = 0;
box.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(search, n > 100000 ? 200 : 0);
});
box.addEventListener("blur", () => open(false));
box.addEventListener("keydown", (event) => {
  const most = Math.min(state.found.length + foundLeaves.length, MOST.listed);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && most) {
    active = (active + step + most) % most;
    open(true);
    mark();
    event.preventDefault();
  } else if (event.key === "Enter") {
    choose(active);
  } else if (event.key === "Escape") {
    clearSearch();
    stage.focus();
    event.stopPropagation();
  }
});
