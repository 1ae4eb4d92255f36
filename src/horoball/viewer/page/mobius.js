// Isometries of the disc, in float64. Complex numbers are pairs [x, y].
//
// An isometry is {a, b}: w = (a z + b) / (b̄ z + ā) with |a|² − |b|² = 1.

const add = (p, q) => [p[0] + q[0], p[1] + q[1]];
const sub = (p, q) => [p[0] - q[0], p[1] - q[1]];
const mul = (p, q) => [p[0] * q[0] - p[1] * q[1], p[0] * q[1] + p[1] * q[0]];
const conj = (p) => [p[0], -p[1]];
const times = (p, s) => [p[0] * s, p[1] * s];
const abs = (p) => Math.hypot(p[0], p[1]);
const abs2 = (p) => p[0] * p[0] + p[1] * p[1];
const div = (p, q) => times(mul(p, conj(q)), 1 / abs2(q));
const polar = (r, angle) => [r * Math.cos(angle), r * Math.sin(angle)];

const IDENTITY = { a: [1, 0], b: [0, 0] };
const FARTHEST = 38; // where float64 ends: |b|² and |a|² differ by 1 in 10¹⁶

// Rounding leaves the group slowly; |b| is kept and |a| follows from it, which has no cancellation.
function normalized(g) {
  const b = abs(g.b) > Math.sinh(FARTHEST / 2) ? times(g.b, Math.sinh(FARTHEST / 2) / abs(g.b)) : g.b;
  return { a: times(g.a, Math.hypot(1, abs(b)) / abs(g.a)), b };
}

const compose = (g, h) =>
  normalized({
    a: add(mul(g.a, h.a), mul(g.b, conj(h.b))),
    b: add(mul(g.a, h.b), mul(g.b, conj(h.a))),
  });

const inverse = (g) => ({ a: conj(g.a), b: times(g.b, -1) });
const apply = (g, z) => div(add(mul(g.a, z), g.b), add(mul(conj(g.b), z), conj(g.a)));

// The translation that takes 0 to p.
function translation(p) {
  const s = 1 / Math.sqrt(1 - abs2(p));
  return { a: [s, 0], b: times(p, s) };
}

const rotation = (angle) => ({ a: polar(1, angle / 2), b: [0, 0] });

// Half a turn about p.
const halfTurn = (p) => compose(translation(p), compose(rotation(Math.PI), translation(times(p, -1))));

function midpoint(p, q) {
  const u = apply(translation(times(p, -1)), q);
  return apply(translation(p), times(u, 1 / (1 + Math.sqrt(Math.max(0, 1 - abs2(u))))));
}

// The translation along the line from p to q that takes p to q: two half-turns.
const transvection = (p, q) => compose(halfTurn(midpoint(p, q)), halfTurn(p));

// The point at fraction s of the way from 0 to p.
function partOf(p, s) {
  const r = abs(p);
  return r === 0 ? [0, 0] : times(p, Math.tanh(s * Math.atanh(Math.min(r, 1 - 1e-15))) / r);
}

// What is at the middle of the view: its distance from the origin and its angle; spin turns the picture.
function centerOf(g) {
  const angle = Math.atan2(-g.b[1], -g.b[0]) - Math.atan2(g.a[1], g.a[0]);
  return { radius: 2 * Math.asinh(abs(g.b)), angle: abs(g.b) === 0 ? 0 : angle, spin: 2 * Math.atan2(g.a[1], g.a[0]) };
}

const fromCenter = ({ radius, angle, spin }) =>
  normalized({ a: polar(Math.cosh(radius / 2), spin / 2), b: polar(-Math.sinh(radius / 2), angle + spin / 2) });

const TURN = 4294967296; // an angle is a 32-bit part of a turn

// The view's center as the shader takes it.
function frameOf(g) {
  const { radius, angle, spin } = centerOf(g);
  const turns = (((angle / (2 * Math.PI)) % 1) + 1) % 1;
  const whole = Math.floor(turns * TURN) >>> 0;
  return {
    radius,
    whole,
    rest: turns * TURN - whole,
    cosh: Math.cosh(radius / 2),
    sinh: Math.sinh(radius / 2),
    spin: polar(1, spin + angle),
  };
}

// Where a point is shown: [x, y, 1 − x² − y²]. With δ the angle between the point and the view's center, both seen
// from the origin, all cancellation is in r − r₀ and in δ, which are exact; the shader does the same in float32.
function place(frame, radius, turn) {
  if (isFlat) return [...polar(radius / reach, (turn / TURN) * 2 * Math.PI), 1];
  const delta = ((((turn - frame.whole) | 0) - frame.rest) * 2 * Math.PI) / TURN;
  const s = Math.sin(delta / 2);
  const bend = [-2 * s * s, Math.sin(delta)]; // exp(iδ) − 1
  const r = Math.min(radius, 40);
  const gap = (r - frame.radius) / 2;
  const sr = Math.sinh(r / 2);
  const top = [Math.sinh(gap) + sr * frame.cosh * bend[0], sr * frame.cosh * bend[1]];
  const bottom = [Math.cosh(gap) - sr * frame.sinh * bend[0], -sr * frame.sinh * bend[1]];
  const w = mul(frame.spin, div(top, bottom));
  return [w[0], w[1], 1 / abs2(bottom)];
}

// The Euclidean circle that is the hyperbolic circle of a radius around a shown point [x, y, 1 − x² − y²].
function circleAround(w, radius) {
  if (isFlat) return { center: [w[0], w[1]], radius: radius / reach };
  const t = Math.tanh(radius / 2);
  const rest = 1 - t * t * (1 - w[2]);
  return { center: times(w, (1 - t * t) / rest), radius: (t * w[2]) / rest };
}

// The geodesic from p to q as a circle at right angles to the rim; null where it is straight.
function circleThrough(p, q) {
  if (isFlat) return null;
  const det = 2 * (p[0] * q[1] - p[1] * q[0]);
  const u = 1 + abs2(p);
  const v = 1 + abs2(q);
  if (Math.abs(det) < 1e-9 * Math.max(abs2(sub(p, q)), 1e-9)) return null;
  const center = [(u * q[1] - v * p[1]) / det, (v * p[0] - u * q[0]) / det];
  const radius = Math.sqrt(Math.max(0, abs2(center) - 1));
  return radius > 1e4 || radius === 0 ? null : { center, radius };
}

// The image of the disc |z − q| ≤ ρ; the caller keeps the pole of g out of it.
function circleImage(g, q, rho) {
  const pole = abs(g.b) < 1e-300 ? null : times(div(conj(g.a), conj(g.b)), -1);
  const inner = pole ? add(q, times(div([1, 0], conj(sub(pole, q))), rho * rho)) : q;
  const center = apply(g, inner);
  const away = pole ? sub(q, pole) : [1, 0];
  const edge = apply(g, add(q, times(away, rho / Math.max(abs(away), 1e-300))));
  return { center, radius: abs(sub(edge, center)), pole };
}
