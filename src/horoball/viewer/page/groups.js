// Groups: a table of contents of the map, their names on it, and the card of one.

const MOST_GROUPS = 300; // that are listed; there may be thousands of small ones

const share = (part, whole) => `${((100 * part) / whole).toFixed(part === whole ? 0 : 1)} % (${part.toLocaleString("en-GB")})`;

// The rows of a category, and what a list says of it.
function rowsOfGroup(column, k) {
  const rows = [];
  for (let i = 0; i < n; i++) if (column.values[i] === k) rows.push(i);
  return Uint32Array.from(rows);
}

const nodeOfGroup = (column, k) => (clades && column.derived ? branchOfGroup(column, k) : -1);

function groupEntry(column, k, level) {
  const node = nodeOfGroup(column, k);
  const support = node >= 0 && clades.support && isInner(node) ? clades.support[node] : NaN;
  return { name: column.categories[k], rows: counts(column)[k], support, level, column, k, node };
}

// Those of the levels, finer ones under the coarse one that their first row is in; without levels those of the tree, and
// without a tree the categories of the coloring.
let listed = null;
let listedFor = -1;
function listedGroups() {
  const by = meta.levels || clades ? 0 : state.color;
  if (listed && listedFor === by) return listed;
  listedFor = by;
  if (meta.levels) listed = levelGroups(meta.levels.map((k) => columns[k]));
  else if (clades) listed = treeGroups();
  else listed = namedColumns().flatMap((column) => column.categories.map((_, k) => groupEntry(column, k, 0)).filter(({ k }) => k !== column.missing));
  return listed;
}

function levelGroups(levels) {
  const under = levels.map((column, level) => {
    const above = column.categories.map(() => -2);
    for (let i = 0; i < n; i++) if (above[column.values[i]] === -2) above[column.values[i]] = level ? levels[level - 1].values[i] : -1;
    return above;
  });
  const out = [];
  const add = (level, parent) => {
    const column = levels[level];
    const own = [...column.categories.keys()].filter((k) => under[level][k] === parent && (k !== column.missing || level + 1 < levels.length));
    own.sort((a, b) => (a === column.missing) - (b === column.missing) || counts(column)[b] - counts(column)[a]);
    for (const k of own) {
      if (k !== column.missing) out.push(groupEntry(column, k, level));
      if (level + 1 < levels.length) add(level + 1, k);
    }
  };
  add(0, -1);
  return out;
}

function showContents() {
  if (!element("contents").open) return;
  const groups = listedGroups();
  const rows = groups.slice(0, MOST_GROUPS).map((group) => {
    const row = make("button", undefined, "entry");
    row.type = "button";
    row.title = group.name.slice(0, 300);
    row.style.paddingLeft = `${6 + 12 * Math.min(6, group.level)}px`;
    row.append(make("span", cut(group.name), "text"), make("span", group.rows.toLocaleString("en-GB"), "count"));
    if (hasSupport()) row.append(make("span", Number.isNaN(group.support) ? "" : group.support.toFixed(2), "count wide"));
    const support = Number.isNaN(group.support) ? "" : `, support ${group.support.toFixed(2)}`;
    row.setAttribute("aria-label", `${cut(group.name)}, ${group.rows} rows${support}`);
    row.addEventListener("click", () => visitGroup(group));
    return row;
  });
  if (groups.length > MOST_GROUPS) rows.push(make("p", `and ${groups.length - MOST_GROUPS} smaller ones; search finds them`, "hint"));
  if (!groups.length) rows.push(make("p", clades ? "No branch is above chance." : "No groups.", "hint"));
  const head = make("p", undefined, "entry head hint");
  head.append(make("span", "name", "text"), make("span", "rows"));
  if (hasSupport()) head.append(term("support", "span", "wide"));
  element("groups").replaceChildren(head, ...rows);
}

const hasSupport = () => Boolean(clades && clades.support);

function startContents() {
  const named = hasDisc && columns.some((column) => column.kind === "category");
  element("contents").hidden = !meta.levels && !clades && !named;
  // The names of branches are found by comparing rows, which takes a moment where there are many.
  element("contents").open = Boolean(meta.levels || (clades && n <= 20000));
  element("contents").addEventListener("toggle", showContents);
  showContents();
}

// Selects the rows of a group, shows its card and goes there.
function visitGroup({ column, k, node }) {
  if (node >= 0) {
    keepBranch(node);
    if (node !== clades.root) reveal(node);
  } else {
    keepGroup(column, k);
  }
  if (!hasDisc) return;
  const rows = node >= 0 ? rowsOfBranch(node) : rowsOfGroup(column, k);
  const step = Math.max(1, Math.floor(rows.length / SAMPLE));
  const place = { rows: Array.from(rows.filter((_, m) => m % step === 0)), anchor: rows[0], spread: 0 };
  settle(place);
  recenter(shownAt(place.anchor), { radius: Math.min(radii[place.anchor], FARTHEST), angle: angleOf(place.anchor) });
}

function keepGroup(column, k) {
  state.pinned = state.kept = -1;
  state.group = { column, k };
  const chosen = new Uint8Array(n);
  let count = 0;
  for (const i of rowsOfGroup(column, k)) {
    if (!allowed(i)) continue;
    chosen[i] = 1;
    count++;
  }
  select(count ? chosen : null, count);
  state.group = { column, k };
  showPinned();
  showSelection();
  say(`${cut(column.categories[k])}, ${counts(column)[k]} rows`);
  changed();
}

// A group's card: beside the pointer in few lines, in the panel with all that is known.
function groupRow({ column, k }, whole = false) {
  const box = document.createDocumentFragment();
  box.append(make("p", column.categories[k].slice(0, 200), "name"));
  const list = make("dl");
  const many = counts(column)[k];
  list.append(make("dt", "rows"), make("dd", share(many, n)));
  const { support } = groupEntry(column, k, 0);
  if (!Number.isNaN(support)) list.append(term("support"), make("dd", support.toFixed(2)));
  list.append(term("group"), make("dd", `of ${cut(column.name)}`));
  const rows = rowsOfGroup(column, k);
  const lines = whole ? [] : apartLines(rows, column);
  if (lines.length) list.append(make("dt", "set apart by", "wide"));
  for (const [name, text] of lines) list.append(make("dt", name), make("dd", text));
  box.append(list);
  if (whole) box.append(apartCard(rows, column));
  return box;
}

// The name of a group at a place of the map. Where points are large enough to aim at, they come first.
function labelAt(p) {
  if (!state.names || !hasDisc) return null;
  const found = labels.find(({ box }) => p[0] >= box[0] && p[0] <= box[2] && p[1] >= box[1] && p[1] <= box[3]);
  return found && !(pointSize() >= 6 && pick(p, 0) >= 0) ? found : null;
}

function hoverLabel(label, p) {
  if (state.hover >= 0) hover(-1, p);
  if (state.label !== label) {
    state.label = label;
    tip.replaceChildren(groupRow(label));
    tip.hidden = false;
  }
  putBeside(tip, p, size.width, size.height);
}

function leaveLabel() {
  if (!state.label) return;
  state.label = null;
  tip.hidden = state.hover < 0;
}
