// The tree in the disc: a node lies at the centroid of its rows on the hyperboloid, a branch is a geodesic.

// The centroid of weighted points is the direction of their sum. Of two it is found from their distance, with which
// nothing cancels even far out: mass² = a² + b² + 2ab cosh d, and the new radius has sinh r = |sum of the space parts| / mass.
function join(a, b) {
  if (!a.mass) return b;
  if (isFlat) {
    const mass = a.mass + b.mass;
    const at = times(add(polar(a.mass * a.radius, a.angle), polar(b.mass * b.radius, b.angle)), 1 / mass);
    return { mass, radius: abs(at), angle: Math.atan2(at[1], at[0]) };
  }
  const delta = b.angle - a.angle;
  const gap = Math.sinh((a.radius - b.radius) / 2);
  const bend = Math.sin(delta / 2);
  const [sa, sb] = [Math.sinh(a.radius), Math.sinh(b.radius)];
  const mass = Math.sqrt((a.mass + b.mass) ** 2 + 4 * a.mass * b.mass * (gap * gap + sa * sb * bend * bend));
  const along = a.mass * sa + b.mass * sb * Math.cos(delta);
  const aside = b.mass * sb * Math.sin(delta);
  return { mass, radius: Math.asinh(Math.hypot(along, aside) / mass), angle: a.angle + Math.atan2(aside, along) };
}

let joints = null;
function jointsOf() {
  if (joints) return joints;
  const sums = Array.from({ length: clades.nodes }, () => ({ mass: 0, radius: 0, angle: 0 }));
  for (let i = 0; i < n; i++) {
    const leaf = clades.leafOf(i);
    sums[leaf] = join(sums[leaf], { mass: 1, radius: isFlat ? radii[i] : Math.min(radii[i], FARTHEST), angle: angleOf(i) });
  }
  for (let v = 0; v < clades.root; v++) if (sums[v].mass) sums[clades.parent[v]] = join(sums[clades.parent[v]], sums[v]);
  const radius = Float64Array.from(sums, (sum) => sum.radius);
  const turn = Uint32Array.from(sums, (sum) => Math.round(((((sum.angle / (2 * Math.PI)) % 1) + 1) % 1) * TURN) % TURN);
  const bySize = Uint32Array.from({ length: clades.nodes }, (_, v) => v).sort((v, w) => clades.rows[w] - clades.rows[v]);
  joints = { radius, turn, bySize, empty: Uint8Array.from(sums, (sum) => (sum.mass ? 0 : 1)) };
  return joints;
}

const jointAt = (v) => place(frame, jointsOf().radius[v], jointsOf().turn[v]);

// The largest branches that can be seen, as pairs of places; zoomed in, smaller ones are large enough.
const MOST_BRANCHES = 400;
function seenBranches() {
  const { bySize, empty } = jointsOf();
  const least = clades.nodes <= MOST_BRANCHES ? 1 : Math.max(2, clades.rows[clades.root] / (300 * Math.max(1, state.zoom) ** 2));
  const found = [];
  for (const v of bySize) {
    if (clades.rows[v] < least || found.length >= MOST_BRANCHES) break;
    const p = shape.up[v];
    if (shape.at[v] < 0 || p < 0 || empty[v]) continue;
    const [from, to] = [jointAt(p), jointAt(v)];
    const [a, b] = [toScreen(from), toScreen(to)];
    const out = (k, most) => Math.max(a[k], b[k]) < 0 || Math.min(a[k], b[k]) > most;
    if (Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1]) < 1.5 || out(0, size.width) || out(1, size.height)) continue;
    found.push({ v, from, to });
  }
  return found;
}

function drawSkeleton(ratio) {
  const groups = new Map(); // branches of one look are one strip
  for (const { v, from, to } of seenBranches()) {
    const weak = isChance(v);
    const strong = tint.strong[v] && !weak;
    const wide = widthOf(v, 9) / 2 + 0.25;
    const key = `${tint.css[v]} ${wide} ${strong}`;
    if (!groups.has(key)) groups.set(key, { corners: [], wide, color: mix(tint.rgb[v], rgb(palette.disc), strong ? 0 : 0.72), strong });
    alongGeodesic(groups.get(key).corners, from, to, wide + 0.5 / ratio);
  }
  const faintFirst = [...groups.values()].sort((a, b) => a.strong - b.strong || a.wide - b.wide);
  for (const { corners, wide, color } of faintFirst) renderer.strip(corners, color.map((x) => x / 255), 0.5 + wide * ratio);
}

// The node of the branch at hand, over the points.
function drawJoint(context) {
  for (const v of new Set([state.kept, state.branch])) {
    if (v < 0 || jointsOf().empty[v]) continue;
    const [x, y] = toScreen(jointAt(v));
    context.beginPath();
    context.arc(x, y, 6, 0, 2 * Math.PI);
    context.fillStyle = palette.accent;
    context.fill();
    context.lineWidth = 2;
    context.strokeStyle = palette.disc;
    context.stroke();
  }
}
