// What the page was given: arrays from base64, names and columns from JSON.

const meta = JSON.parse(document.getElementById("meta").textContent);

const bytes = (() => {
  const block = document.getElementById("arrays");
  const text = block.textContent.trim();
  block.remove(); // its megabytes are not needed twice
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text).buffer;
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out.buffer;
})();

const ARRAYS = { Float32: Float32Array, Float64: Float64Array, Int16: Int16Array, Int32: Int32Array };
Object.assign(ARRAYS, { Uint8: Uint8Array, Uint16: Uint16Array, Uint32: Uint32Array });
const arrayAt = (where) => new ARRAYS[where.type](bytes, where.offset, where.length);

const n = meta.n;
const hasDisc = Boolean(meta.radius); // a tree can be shown without coordinates
const rootC = Math.sqrt(meta.c || 1);
const radii = hasDisc ? arrayAt(meta.radius) : null;
const turns = hasDisc ? arrayAt(meta.angle) : null;
const edges = meta.edges ? arrayAt(meta.edges) : new Uint32Array(0);
const names = meta.names || null;

const scaleSteps = meta.scale ? arrayAt(meta.scale) : null;
const scaleOf = (i) => meta.scale.low * Math.pow(meta.scale.high / meta.scale.low, scaleSteps[i] / 65535);

const nameOf = (i) => (names ? names[i] : `row ${i}`);
const angleOf = (i) => (turns[i] / TURN) * 2 * Math.PI;

// Ball coordinates, in units where the ball has radius 1/√c.
const ballOf = (i) => polar(Math.tanh(radii[i] / 2) / rootC, angleOf(i));

// A column gives a value for a row: `get` the number or the category's number, `text` what is read.
const columns = meta.columns.map((column) => {
  const values = arrayAt(column.values);
  const get = (i) => values[i];
  const text = column.kind === "number" ? (i) => formatted(values[i]) : (i) => column.categories[values[i]];
  return { ...column, get, text };
});
const clades = meta.tree ? readTree(meta.tree) : null;
if (hasDisc) columns.push({ name: "distance from origin", kind: "number", own: true, get: (i) => radii[i] / rootC });
if (clades) columns.push({ name: "depth in the tree", kind: "number", own: true, get: (i) => clades.depth[clades.leafOf(i)] });
if (scaleSteps) columns.push({ name: "posterior scale", kind: "number", own: true, get: scaleOf });
for (const column of columns) column.text ||= (i) => formatted(column.get(i));

function formatted(x) {
  if (Number.isNaN(x)) return "missing";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (Number.isInteger(x) && Math.abs(x) < 1e15) return x.toLocaleString("en-GB").replace("-", "−");
  const size = Math.abs(x);
  const text = size >= 1e6 || size < 1e-4 ? x.toExponential(3) : String(Number(x.toPrecision(4)));
  return text.replace("-", "−");
}
