// Search by name: a list to choose from, rings around all that match.

const box = element("search");
const list = element("results");
const MOST = { listed: 12, ringed: 2000 };
let lower = null;
let foundLeaves = []; // of a tree whose leaves are groups of rows, and have names of their own
let foundGroups = [];
let choices = []; // what the list offers: a text, and what choosing it does
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
  foundGroups = matchingGroups(box.value);
  const groups = foundGroups.map((group) => ({ text: group.name, kind: `group of ${group.rows.toLocaleString("en-GB")}`, go: () => visitGroup(group) }));
  const leaves = foundLeaves.map((v) => ({ text: clades.nameOf(v), go: () => visitLeaf(v) }));
  const rows = state.found.slice(0, MOST.listed).map((i) => ({ text: nameOf(i), go: () => visitRow(i) }));
  choices = [...groups, ...leaves, ...rows].slice(0, MOST.listed);
  active = choices.length ? 0 : -1;
  list.replaceChildren(
    ...choices.map(({ text, kind }, k) => {
      const row = make("li", text.slice(0, 200));
      if (kind) row.append(make("span", kind, "hint"));
      row.id = `result-${k}`;
      row.setAttribute("role", "option");
      row.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        choose(k);
      });
      return row;
    }),
  );
  const total = state.found.length + foundLeaves.length + foundGroups.length;
  const many = total >= MOST.ringed ? `${MOST.ringed.toLocaleString("en-GB")} or more` : total;
  if (box.value.trim()) {
    if (!total) list.append(make("li", names ? "No such name" : `No such row: they have numbers here, from 0 to ${n - 1}, and no names`, "hint"));
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

// A few groups: rows are listed after them.
function matchingGroups(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted || element("contents").hidden) return [];
  return listedGroups().filter((group) => group.name.toLowerCase().includes(wanted)).slice(0, 5);
}

function visitLeaf(v) {
  keepBranch(v);
  reveal(v);
}

function visitRow(i) {
  pin(i);
  goTo(i);
}

function choose(k) {
  if (!choices[k]) return;
  open(false);
  choices[k].go();
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
  const most = choices.length;
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
