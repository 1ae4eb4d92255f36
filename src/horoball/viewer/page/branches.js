// What a branch is made of: its color, how strongly it is drawn, and its composition in words.

// A branch has the color of the category that more than half of its rows have, the paler the fewer, and gray if there is
// none; by numbers it has the color of their mean. Done when the coloring changes, never in a frame.
const tint = clades && { css: new Array(clades.nodes), rgb: new Array(clades.nodes), share: new Float32Array(clades.nodes), top: new Int32Array(clades.nodes), strong: new Uint8Array(clades.nodes) };

function colorBranches() {
  const column = columns[state.color];
  const { lookup, index } = coloring(column);
  const gray = rgb(palette.branch);
  const made = new Map();
  const paint = (v, key, color) => {
    if (!made.has(key)) made.set(key, [color(), css(color())]);
    [tint.rgb[v], tint.css[v]] = made.get(key);
  };
  const shown = new Uint32Array(n + 1); // rows drawn fully, counted along the order of the drawing; the pointer's branch stands out in the disc only
  clades.inOrder.forEach((i, k) => (shown[k + 1] = shown[k] + (strength(i, null) === 1 ? 1 : 0)));
  for (let v = 0; v < clades.nodes; v++) {
    const [from, to] = clades.range(v);
    tint.strong[v] = shown[to] > shown[from] ? 1 : 0;
  }
  if (column.kind === "category") {
    majorities(column);
    for (let v = 0; v < clades.nodes; v++) {
      const step = Math.round(4 * Math.max(0, 2 * tint.share[v] - 1));
      paint(v, step ? `${tint.top[v]} ${step}` : "", () => (step ? mix(gray, lookup[tint.top[v]], (1 + step) / 5) : gray));
    }
    return;
  }
  const [sum, count] = [new Float64Array(n + 1), new Uint32Array(n + 1)];
  clades.inOrder.forEach((i, k) => {
    const x = column.get(i);
    sum[k + 1] = sum[k] + (Number.isFinite(x) ? x : 0);
    count[k + 1] = count[k] + (Number.isFinite(x) ? 1 : 0);
  });
  const [low, high] = rangeOf(column);
  for (let v = 0; v < clades.nodes; v++) {
    const [from, to] = clades.range(v);
    const mean = (sum[to] - sum[from]) / (count[to] - count[from]);
    const k = Number.isFinite(mean) ? Math.round((255 * (mean - low)) / (high - low || 1)) : 256;
    const step = k === 256 ? 256 : Math.max(0, Math.min(255, k - (k % 8))); // few colors are drawn faster than many
    tint.share[v] = 0;
    paint(v, step, () => lookup[step]);
  }
}

// The category that can have more than half of a node's rows, by Boyer and Moore's vote, which joins two halves in one
// step; then how many it has, counted among the category's places.
function majorities(column) {
  const places = column.categories.map(() => []);
  clades.inOrder.forEach((i, k) => allowed(i) && places[column.get(i)].push(k));
  const [lead, all] = [new Int32Array(clades.nodes), new Uint32Array(clades.nodes)];
  tint.top.fill(-1);
  const vote = (v, category, count) => {
    if (category < 0) return;
    if (tint.top[v] === category) lead[v] += count;
    else if (lead[v] >= count) lead[v] -= count;
    else [tint.top[v], lead[v]] = [category, count - lead[v]];
  };
  const before = (list, place) => {
    let [low, high] = [0, list.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] < place) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  for (let v = 0; v < clades.nodes; v++) {
    const [from, to] = clades.range(v);
    if (v < clades.leaves) {
      for (let k = from; k < to; k++) {
        const i = clades.inOrder[k];
        if (!allowed(i)) continue;
        vote(v, column.get(i), 1);
        all[v]++;
      }
    }
    const p = clades.parent[v];
    if (p >= 0) {
      vote(p, tint.top[v], lead[v]);
      all[p] += all[v];
    }
    const list = tint.top[v] < 0 ? [] : places[tint.top[v]];
    tint.share[v] = all[v] ? (before(list, to) - before(list, from)) / all[v] : 0;
  }
}

const branchName = (v) => {
  if (v < clades.leaves) return clades.nameOf(v);
  const many = (clades.last[v] - clades.first[v]).toLocaleString("en-GB");
  const called = groupName(v);
  if (called !== undefined) return `${called.slice(0, 200)}, ${many} leaves`;
  return v === clades.root ? `Root, ${many} leaves` : `Branch of ${many} leaves`;
};

// Names of branches that are a group of a level: all of its rows and no others.
let namesOfBranches = null;
let nodesOfGroups = null;
function branchOfGroup(column, k) {
  groupName(clades.root);
  return nodesOfGroups.get(`${column.name} ${k}`) ?? -1;
}

function groupName(v) {
  if (!namesOfBranches) {
    [namesOfBranches, nodesOfGroups] = [new Map(), new Map()];
    const spans = new Map(); // from a range of rows to its node, the deepest of equal ones
    for (let u = clades.nodes - 1; u >= 0; u--) spans.set(String(clades.range(u)), u);
    for (const column of (meta.levels || []).map((k) => columns[k])) {
      const [from, to] = [column.categories.map(() => Infinity), column.categories.map(() => -1)];
      for (let i = 0; i < n; i++) {
        const [k, at] = [column.values[i], clades.placeOf[i]];
        [from[k], to[k]] = [Math.min(from[k], at), Math.max(to[k], at + 1)];
      }
      counts(column).forEach((count, k) => {
        const node = spans.get(`${from[k]},${to[k]}`);
        if (k === column.missing || count !== to[k] - from[k] || node === undefined) return;
        nodesOfGroups.set(`${column.name} ${k}`, node);
        if (!namesOfBranches.has(node)) namesOfBranches.set(node, column.categories[k]); // the coarse level's
      });
    }
  }
  return namesOfBranches.get(v);
}

// Term and text of each thing to know about a branch: its size, its support, and what its rows are by the coloring.
function branchFacts(v) {
  const [from, to] = clades.range(v);
  const facts = [["rows", clades.rows[v].toLocaleString("en-GB")]];
  if (clades.support && isInner(v)) {
    facts.push(["support", isChance(v) ? `${clades.support[v].toFixed(2)}, not above chance` : clades.support[v].toFixed(2)]);
    if (clades.chance) facts.push(["chance", `up to ${clades.chance[v].toFixed(2)}`]);
  }
  facts.push(["depth", formatted(clades.depth[v])]);
  const column = columns[state.color];
  if (column.kind === "category") {
    const total = new Uint32Array(column.categories.length);
    for (let k = from; k < to; k++) total[column.get(clades.inOrder[k])]++;
    const ranked = [...total.keys()].filter((k) => total[k]).sort((a, b) => total[b] - total[a]);
    for (const k of ranked.slice(0, 5)) facts.push([column.categories[k], share(total[k], to - from), k]);
    if (ranked.length > 5) facts.push([`${ranked.length - 5} others`, share(ranked.slice(5).reduce((sum, k) => sum + total[k], 0), to - from)]);
    return facts;
  }
  let [sum, count, low, high] = [0, 0, Infinity, -Infinity];
  for (let k = from; k < to; k++) {
    const x = column.get(clades.inOrder[k]);
    if (!Number.isFinite(x)) continue;
    [sum, count, low, high] = [sum + x, count + 1, Math.min(low, x), Math.max(high, x)];
  }
  if (count) facts.push([column.name, low === high ? column.said(low) : `${column.said(sum / count)} (${column.said(low)} to ${column.said(high)})`]);
  return facts;
}

// The branches worth a line in the contents: above chance and with a support of at least a half, or without support the
// largest; as the tree has them, each under the one that holds it. They are called by what sets them apart.
const MOST_LISTED = 40;
function treeGroups() {
  const worth = [];
  for (let v = clades.leaves; v < clades.root; v++) {
    if (clades.support ? !isChance(v) && clades.support[v] >= 0.5 && clades.last[v] - clades.first[v] > 1 : true) worth.push(v);
  }
  worth.sort((a, b) => clades.rows[b] - clades.rows[a]);
  const chosen = new Set(worth.slice(0, clades.support ? MOST_LISTED : 12));
  const levelOf = (v) => {
    let level = 0;
    for (let p = clades.parent[v]; p >= 0; p = clades.parent[p]) level += chosen.has(p) ? 1 : 0;
    return level;
  };
  const order = [...chosen].sort((a, b) => clades.first[a] - clades.first[b] || clades.rows[b] - clades.rows[a]);
  return order.map((v) => {
    const name = groupName(v) ?? (nickname(rowsOfBranch(v)) || branchName(v));
    return { name, rows: clades.rows[v], support: clades.support ? clades.support[v] : NaN, level: levelOf(v), node: v };
  });
}

const rowsOfBranch = (v) => clades.inOrder.slice(...clades.range(v));

// A branch's card: beside the pointer in few lines, in the panel with all that is known.
function branchRow(v, whole = false) {
  const box = document.createDocumentFragment();
  box.append(make("p", branchName(v), "name"));
  const list = make("dl");
  const { lookup } = coloring(columns[state.color]);
  for (const [word, text, category] of branchFacts(v)) {
    const name = category === undefined ? term(word) : make("dt");
    if (category !== undefined) {
      const dot = make("span", "", "dot");
      dot.style.background = css(lookup[category]);
      name.append(dot, word);
    }
    list.append(name, make("dd", text));
  }
  if (!whole) {
    const lines = apartLines(rowsOfBranch(v));
    if (lines.length) list.append(make("dt", "set apart by", "wide"));
    for (const [name, text] of lines) list.append(make("dt", name), make("dd", text));
  }
  box.append(list);
  if (!whole) return box;
  if (clades.chance && isInner(v)) {
    const flat = "flat data of the same covariance bring as good a branch back with";
    box.append(make("p", `Chance: ${flat} a support of up to ${clades.chance[v].toFixed(2)}.`, "hint"));
  }
  if (clades.verdict) {
    const verdict = make("p", "The ", "hint");
    verdict.append(term("verdict", "span"), ` on the whole tree: ${clades.verdict}`);
    box.append(verdict);
  }
  box.append(apartCard(rowsOfBranch(v)));
  return box;
}

const branchText = (v) => `${branchName(v)}: ${branchFacts(v).map(([term, text]) => `${term} ${text}`).join(", ")}`;
