// Colors that people with color-blindness tell apart, for each theme: Okabe and Ito's first, then Tol's muted ones.

const CATEGORIES = {
  light: "#0072b2 #d55e00 #009e73 #c46a9b #e69f00 #3aa0dd #8a7a00 #332288 #882255 #44aa99 #999933 #aa4499 #cc6677 #117733",
  dark: "#4ea6e6 #f0803c #2cc295 #e39ac4 #f2b431 #8fd0f7 #f0e442 #9a8cf0 #d9679a #7fdccb #c9c95e #d88bd8 #f0a0ac #5fbf78",
};
const VIRIDIS = "#440154 #482878 #3e4989 #31688e #26828e #1f9e89 #35b779 #6ece58 #b5de2b #fde725";
const MISSING = { light: [176, 180, 190], dark: [96, 104, 120] };

const rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
const css = (color) => `rgb(${color[0]},${color[1]},${color[2]})`;

const mix = (from, to, t) => from.map((x, k) => Math.round(x + (to[k] - x) * t));

const LISTED = CATEGORIES.light.split(" ").length;

// A color of a hue, in one of three lightnesses.
function hueColor(hue, step, theme) {
  const level = (theme === "dark" ? 0.68 : 0.45) + 0.1 * (step - 1);
  const chroma = 0.55 * Math.min(level, 1 - level) * 2;
  return [0, 8, 4].map((m) => {
    const t = (m + hue / 30) % 12;
    return Math.round(255 * (level - (chroma / 2) * Math.max(-1, Math.min(t - 3, 9 - t, 1))));
  });
}

function categoryColor(k, theme) {
  const list = CATEGORIES[theme].split(" ");
  // Beyond the list hues go round by the golden angle, which never comes near the same one soon.
  return k < list.length ? rgb(list[k]) : hueColor((k * 137.508) % 360, k % 3, theme);
}

// The end that would vanish in the background is left out: dark violet at night, light yellow by day.
function scaleColor(t, theme) {
  const stops = VIRIDIS.split(" ").map(rgb);
  const [low, high] = theme === "dark" ? [0.2, 1] : [0, 0.9];
  const x = (low + (high - low) * Math.min(1, Math.max(0, t))) * (stops.length - 1);
  const k = Math.min(stops.length - 2, Math.floor(x));
  return stops[k].map((value, j) => Math.round(value + (stops[k + 1][j] - value) * (x - k)));
}
