// The tree: its nodes in arrays, and how those that are shown are laid out. Leaves come first, a parent after its children.

function readTree(about) {
  const [parent, depth, first, size] = [about.parent, about.depth, about.first, about.size].map(arrayAt);
  const [nodes, leaves] = [parent.length, about.leaves];
  const sums = (ofLeaf) => {
    const total = new Uint32Array(nodes);
    for (let v = 0; v < nodes; v++) {
      if (v < leaves) total[v] = ofLeaf(v);
      if (parent[v] >= 0) total[parent[v]] += total[v];
    }
    return total;
  };
  const rows = sums((v) => size[v]);
  const last = sums(() => 1).map((count, v) => first[v] + count);
  const deepest = depth.slice();
  const start = new Uint32Array(nodes + 2);
  for (let v = 0; v < nodes - 1; v++) {
    deepest[parent[v]] = Math.max(deepest[parent[v]], deepest[v]);
    start[parent[v] + 2]++;
  }
  for (let v = 0; v < nodes; v++) start[v + 2] += start[v + 1];
  const children = new Uint32Array(Math.max(0, nodes - 1));
  for (let v = 0; v < nodes - 1; v++) children[start[parent[v] + 1]++] = v;
  // Rows in the order of the drawing: those of a node are a range of them.
  const leafOfRow = about.leaf ? arrayAt(about.leaf) : null;
  const leafOf = leafOfRow ? (i) => leafOfRow[i] : (i) => i;
  const offset = new Uint32Array(leaves + 1);
  for (let i = 0; i < n; i++) offset[first[leafOf(i)] + 1]++;
  for (let k = 0; k < leaves; k++) offset[k + 1] += offset[k];
  const next = offset.slice();
  const [inOrder, placeOf] = [new Uint32Array(n), new Uint32Array(n)];
  for (let i = 0; i < n; i++) {
    placeOf[i] = next[first[leafOf(i)]]++;
    inOrder[placeOf[i]] = i;
  }
  return {
    parent, depth, rows, first, last, deepest, nodes, leaves, leafOf, inOrder, placeOf,
    root: nodes - 1,
    grouped: Boolean(leafOfRow),
    support: about.support ? arrayAt(about.support) : null,
    chance: about.chance ? arrayAt(about.chance) : null,
    range: (v) => [offset[first[v]], offset[last[v]]], // of a node's rows in `inOrder`
    childrenOf: (v) => children.subarray(start[v], start[v + 1]),
    nameOf: (v) => (about.names ? about.names[v] : nameOf(v)),
    names: about.names || null,
    verdict: about.verdict || "",
  };
}

const isInner = (v) => v >= clades.leaves && v !== clades.root;
// A branch that comes back no more often than one of its size does in flat data: dashed, and without a number.
const isChance = (v) => clades.chance && isInner(v) && !(clades.support[v] > clades.chance[v]);
const isWeak = (v) => clades.support && isInner(v) && state.support > 0 && (clades.support[v] < state.support || isChance(v));
const isEnd = (v) => v < clades.leaves || state.folded.has(v);

// The nodes that are shown, from the root down: `end` is past a node's last descendant in `order`, `up` the parent shown,
// [low, high) the room of a node among the ends, `y` its place in it. A folded branch takes the room of a few leaves.
const shape = clades && {
  order: new Uint32Array(clades.nodes),
  count: 0,
  total: 0,
  at: new Int32Array(clades.nodes), // place in `order`; −1 if not shown
  end: new Uint32Array(clades.nodes),
  up: new Int32Array(clades.nodes),
  low: new Float64Array(clades.nodes),
  high: new Float64Array(clades.nodes),
  y: new Float64Array(clades.nodes),
};

function layOut() {
  const { order, at, end, up, low, high, y } = shape;
  at.fill(-1);
  let [count, total] = [0, 0];
  const [stack, above] = [[clades.root], [-1]];
  while (stack.length) {
    const [v, p] = [stack.pop(), above.pop()];
    let inside = p;
    if (!isWeak(v) || state.folded.has(v)) {
      [at[v], end[v], up[v], inside] = [count, count + 1, p, v];
      order[count++] = v;
      [low[v], high[v], y[v]] = [Infinity, -Infinity, NaN];
      if (isEnd(v)) {
        const many = clades.last[v] - clades.first[v];
        low[v] = total;
        total += v < clades.leaves ? 1 : Math.min(many, 2 + Math.log2(many));
        high[v] = total;
        continue;
      }
    }
    const below = clades.childrenOf(v);
    for (let k = below.length - 1; k >= 0; k--) {
      stack.push(below[k]);
      above.push(inside);
    }
  }
  // From the last to the first: a parent is in the middle between its first and its last child.
  const [nearest, farthest] = [new Float64Array(clades.nodes).fill(Infinity), new Float64Array(clades.nodes).fill(-Infinity)];
  for (let k = count - 1; k >= 0; k--) {
    const v = order[k];
    y[v] = isEnd(v) ? (low[v] + high[v]) / 2 : (nearest[v] + farthest[v]) / 2;
    const p = up[v];
    if (p < 0) continue;
    low[p] = Math.min(low[p], low[v]);
    high[p] = Math.max(high[p], high[v]);
    end[p] = Math.max(end[p], end[v]);
    nearest[p] = Math.min(nearest[p], y[v]);
    farthest[p] = Math.max(farthest[p], y[v]);
  }
  [shape.count, shape.total] = [count, total];
}

// The node itself where it is shown, else the nearest one above it that is.
function shownNode(v) {
  while (shape.at[v] < 0) v = clades.parent[v];
  return v;
}
