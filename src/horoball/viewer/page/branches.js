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
  const shown = new Uint32Array(n + 1); // rows drawn fully, counted along the order of the drawing
  clades.inOrder.forEach((i, k) => (shown[k + 1] = shown[k] + (strength(i) === 1 ? 1 : 0)));
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
  return v === clades.root ? `Root, ${many} leaves` : `Branch of ${many} leaves`;
};

// Term and text of each thing to know about a branch: its size, its support, and what its rows are by the coloring.
function branchFacts(v) {
  const [from, to] = clades.range(v);
  const facts = [["rows", clades.rows[v].toLocaleString("en-GB")]];
  if (clades.support && isInner(v)) {
    facts.push(["support", isChance(v) ? "not above chance" : clades.support[v].toFixed(2)]);
    if (clades.chance) facts.push(["in flat data", `up to ${clades.chance[v].toFixed(2)}`]);
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
  if (count) facts.push([column.name, low === high ? formatted(low) : `${formatted(sum / count)} (${formatted(low)} to ${formatted(high)})`]);
  return facts;
}

const share = (part, whole) => `${((100 * part) / whole).toFixed(part === whole ? 0 : 1)} % (${part.toLocaleString("en-GB")})`;

function branchRow(v) {
  const box = document.createDocumentFragment();
  box.append(make("p", branchName(v), "name"));
  const list = make("dl");
  const { lookup } = coloring(columns[state.color]);
  for (const [term, text, category] of branchFacts(v)) {
    const name = make("dt");
    if (category !== undefined) {
      const dot = make("span", "", "dot");
      dot.style.background = css(lookup[category]);
      name.append(dot);
    }
    name.append(term);
    list.append(name, make("dd", text));
  }
  box.append(list);
  return box;
}

const branchText = (v) => `${branchName(v)}: ${branchFacts(v).map(([term, text]) => `${term} ${text}`).join(", ")}`;
