// A k-d tree of the points in the disc, built once: the cursor goes to them by the inverse isometry, they never move.

const LEAF = 32;

function buildTree() {
  const ids = new Uint32Array(n);
  const x = [new Float64Array(n), new Float64Array(n)];
  for (let i = 0; i < n; i++) {
    ids[i] = i;
    const t = isFlat ? radii[i] / reach : Math.tanh(radii[i] / 2);
    x[0][i] = t * Math.cos(angleOf(i));
    x[1][i] = t * Math.sin(angleOf(i));
  }
  const swap = (values, i, j) => {
    const kept = values[i];
    values[i] = values[j];
    values[j] = kept;
  };
  const swapAll = (i, j) => {
    swap(ids, i, j);
    swap(x[0], i, j);
    swap(x[1], i, j);
  };
  // Hoare's selection with the median of three: the k-th smallest along an axis goes to place k.
  function select(axis, left, right, k) {
    const values = x[axis];
    while (right > left) {
      const mid = (left + right) >> 1;
      if (values[mid] < values[left]) swapAll(mid, left);
      if (values[right] < values[left]) swapAll(right, left);
      if (values[right] < values[mid]) swapAll(right, mid);
      const pivot = values[mid];
      let [i, j] = [left, right];
      while (i <= j) {
        while (values[i] < pivot) i++;
        while (values[j] > pivot) j--;
        if (i <= j) swapAll(i++, j--);
      }
      if (k <= j) right = j;
      else if (k >= i) left = i;
      else return;
    }
  }
  const stack = [[0, n - 1, 0]];
  while (stack.length) {
    const [left, right, axis] = stack.pop();
    if (right - left <= LEAF) continue;
    const mid = (left + right) >> 1;
    select(axis, left, right, mid);
    stack.push([left, mid - 1, 1 - axis], [mid + 1, right, 1 - axis]);
  }
  return { ids, x };
}

// The point shown nearest to q, no farther than rho in the disc's units; −1 if there is none.
function nearest(tree, g, q, rho, allowed) {
  const frame = frameOf(g);
  const back = inverse(g);
  let best = -1;
  let circle = null;
  const shrink = (to) => {
    rho = to;
    circle = circleImage(back, q, rho);
    const gap = circle.pole ? abs(sub(circle.pole, q)) : Infinity;
    if (rho >= gap) shrink(0.99 * gap); // the image would be the outside of a circle
    circle.radius = circle.radius * (1 + 1e-9) + 1e-15;
  };
  shrink(rho);
  const visit = (k) => {
    const i = tree.ids[k];
    if (!allowed(i)) return;
    const w = place(frame, radii[i], turns[i]);
    const d = Math.hypot(w[0] - q[0], w[1] - q[1]);
    if (d > rho) return;
    best = i;
    shrink(Math.max(d, 1e-12));
  };
  const stack = [[0, n - 1, 0]];
  while (stack.length) {
    const [left, right, axis] = stack.pop();
    if (right - left <= LEAF) {
      for (let k = left; k <= right; k++) visit(k);
      continue;
    }
    const mid = (left + right) >> 1;
    const away = circle.center[axis] - tree.x[axis][mid];
    const sides = [[left, mid - 1, 1 - axis], [mid + 1, right, 1 - axis]];
    if (away < 0) sides.reverse();
    // The near side is pushed last, so that it is searched first. A visit moves the circle, so it comes after the test.
    if (Math.abs(away) <= circle.radius) {
      stack.push(sides[0]);
      visit(mid);
    }
    stack.push(sides[1]);
  }
  return best;
}
