// What the page was given: arrays from base64, names and columns from JSON.

const meta = JSON.parse(document.getElementById("meta").textContent);

const bytes = await (async () => {
  const block = document.getElementById("arrays");
  const text = block.textContent.trim();
  block.remove(); // its megabytes are not needed twice
  const raw = atob(text);
  const packed = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) packed[i] = raw.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
})();

const ARRAYS = { Float32: Float32Array, Float64: Float64Array, Int16: Int16Array, Int32: Int32Array };
Object.assign(ARRAYS, { Uint8: Uint8Array, Uint16: Uint16Array, Uint32: Uint32Array });

// The first bytes of all numbers come first, then the second ones and so on, which packs better.
function arrayAt({ type, offset, length }) {
  const out = new ARRAYS[type](length);
  const [own, wide] = [new Uint8Array(out.buffer), out.BYTES_PER_ELEMENT];
  for (let b = 0; b < wide; b++) {
    for (let i = 0, from = offset + b * length; i < length; i++) own[i * wide + b] = bytes[from + i];
  }
  return out;
}

const n = meta.n;
const hasDisc = Boolean(meta.radius); // a tree can be shown without coordinates
const rootC = Math.sqrt(meta.c || 1);
const radii = hasDisc ? arrayAt(meta.radius) : null;
const turns = hasDisc ? arrayAt(meta.angle) : null;
// A map of curvature 0 is a plane: places are shown at their distance over `reach`, and moving is panning, never a bend.
const isFlat = hasDisc && meta.c === 0;
const reach = isFlat ? 1.04 * radii.reduce((most, r) => Math.max(most, r), 0) || 1 : 1;
const edges = meta.edges ? arrayAt(meta.edges) : new Uint32Array(0);
const names = meta.names || null;

const scaleSteps = meta.scale ? arrayAt(meta.scale) : null;
const scaleOf = (i) => meta.scale.low * Math.pow(meta.scale.high / meta.scale.low, scaleSteps[i] / 65535);

const nameOf = (i) => (names ? names[i] : `row ${i}`);
const angleOf = (i) => (turns[i] / TURN) * 2 * Math.PI;

// Ball coordinates, in units where the ball has radius 1/√c; of c = 0 they are half of what distances are measured in.
const ballOf = (i) => (isFlat ? times(add(meta.center, polar(radii[i], angleOf(i))), 0.5) : polar(Math.tanh(radii[i] / 2) / rootC, angleOf(i)));
const ORIGIN = isFlat ? "distance from the middle" : "distance from origin";

// Codes of one byte as numbers, see Note [Compared]: even steps, or steps that grow away from the middle.
function decoded({ low, high, last, middle, spread }) {
  return Float64Array.from({ length: 256 }, (_, k) => {
    if (k > last) return NaN; // missing
    const x = low + ((high - low) * k) / last;
    return spread ? middle + spread * Math.sinh(x) : Number(x.toPrecision(12));
  });
}

// A column gives a value for a row: `get` the number or the category's number, `text` what is read. Numbers with steps that
// are not on a grid are rounded, and say so.
const columns = meta.columns.map((column) => {
  const values = arrayAt(column.values);
  const known = column.steps ? decoded(column.steps) : null;
  const get = known ? (i) => known[values[i]] : (i) => values[i];
  const said = column.date ? dated : formatted; // a value, or a mean of some
  const digits = column.date ? 15 : 3;
  const about = column.steps && column.steps.spread ? (x) => `≈ ${said(Number(x.toPrecision(digits)))}` : said;
  const text = column.kind === "number" ? (i) => (Number.isNaN(get(i)) ? "missing" : about(get(i))) : (i) => column.categories[values[i]];
  return { ...column, values, known, get, text, said };
});
const clades = meta.tree ? readTree(meta.tree) : null;
if (hasDisc) columns.push({ name: ORIGIN, kind: "number", own: true, get: (i) => radii[i] / rootC });
if (clades) columns.push({ name: "depth in the tree", kind: "number", own: true, get: (i) => clades.depth[clades.leafOf(i)] });
if (scaleSteps) columns.push({ name: "posterior scale", kind: "number", own: true, get: scaleOf });
for (const column of columns) {
  column.said ||= formatted;
  column.text ||= (i) => formatted(column.get(i));
}

// Days since 1970 as a date.
function dated(days) {
  const date = new Date(days * 864e5);
  return Number.isNaN(date.getTime()) ? "missing" : date.toISOString().slice(0, 10);
}

function formatted(x) {
  if (Number.isNaN(x)) return "missing";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (Number.isInteger(x) && Math.abs(x) < 1e15) return x.toLocaleString("en-GB").replace("-", "−");
  const size = Math.abs(x);
  const text = size >= 1e6 || size < 1e-4 ? x.toExponential(3) : String(Number(x.toPrecision(4)));
  return text.replace("-", "−");
}
