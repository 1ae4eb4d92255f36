// The shaders. `shown` is `place` of mobius.js in float32: nothing in it cancels.

const PLACE = `#version 300 es
precision highp float;
precision highp int;
uniform vec2 center;      // distance of the view's center from the origin: its high and low part
uniform vec2 half_center; // cosh and sinh of half of it
uniform uint turn_center; // its angle, in 2^-32 turns
uniform float turn_rest;
uniform vec2 spin;
uniform vec4 screen;      // from the disc to clip space: scale, offset

uniform float reach;      // of a flat map: the distance shown at the rim of the window; 0 for the disc

vec3 shown(float radius, uint turn) {
  if (reach > 0.0) {
    float angle = float(int(turn)) * 1.4629180792671596e-9;
    return vec3(radius / reach * vec2(cos(angle), sin(angle)), 1.0);
  }
  float delta = (float(int(turn - turn_center)) - turn_rest) * 1.4629180792671596e-9;
  float h = 0.5 * delta, q = h * h;
  // Hardware sines have an absolute error; the sine of a small angle is wanted to a relative one.
  float s = q < 0.06 ? h * (1.0 - q / 6.0 * (1.0 - q / 20.0 * (1.0 - q / 42.0))) : sin(h);
  vec2 bend = vec2(-2.0 * s * s, 2.0 * s * (q < 0.06 ? sqrt(1.0 - s * s) : cos(h)));
  float r = min(radius, 40.0), gap = 0.5 * ((r - center.x) - center.y), e = exp(0.5 * r), f = exp(gap);
  float sr = 0.5 * (e - 1.0 / e);
  vec2 top = vec2(0.5 * (f - 1.0 / f), 0.0) + sr * half_center.x * bend;
  vec2 bottom = vec2(0.5 * (f + 1.0 / f), 0.0) - sr * half_center.y * bend;
  float k = 1.0 / dot(bottom, bottom);
  vec2 w = k * vec2(dot(top, bottom), top.y * bottom.x - top.x * bottom.y);
  return vec3(w.x * spin.x - w.y * spin.y, w.x * spin.y + w.y * spin.x, k);
}
vec4 on_screen(vec2 w) { return vec4(w * screen.xy + screen.zw, 0.0, 1.0); }
`;

const POINT_VERTEX = `${PLACE}
layout(location = 0) in float radius;
layout(location = 1) in uint turn;
layout(location = 2) in vec4 color;
uniform float size;
flat out vec4 tint;
flat out float diameter;
void main() {
  vec3 w = shown(radius, turn);
  tint = color;
  diameter = size * max(0.4, sqrt(w.z)); // smaller toward the rim, where lengths shrink
  gl_Position = color.a == 0.0 ? vec4(2.0, 2.0, 2.0, 1.0) : on_screen(w.xy);
  gl_PointSize = diameter + 1.0;
}`;

const POINT_FRAGMENT = `#version 300 es
precision mediump float;
flat in vec4 tint;
flat in float diameter;
uniform vec3 ground;
out vec4 color;
void main() {
  float d = length(gl_PointCoord - 0.5) * (diameter + 1.0);
  float inside = clamp(0.5 * diameter + 0.5 - d, 0.0, 1.0);
  if (inside == 0.0) discard;
  // A rim in the ground's color keeps large points apart.
  float rim = clamp(d - 0.5 * diameter + 1.5, 0.0, 1.0) * clamp(0.2 * diameter - 1.2, 0.0, 0.75);
  float alpha = inside * tint.a;
  color = vec4(mix(tint.rgb, ground, rim) * alpha, alpha);
}`;

const EDGE_ROW = 2048; // edges of a row of the texture

// Edges have no attributes: each vertex finds its edge in a texture, and its step along it in its number.
const EDGE_VERTEX = `${PLACE}
uniform highp usampler2D ends; // of an edge: radius and turn of both ends
uniform sampler2D seen;        // how strongly each is drawn
uniform int steps;
flat out float strength;
void main() {
  int edge = gl_VertexID / (2 * steps), k = (gl_VertexID % (2 * steps) + 1) / 2;
  ivec2 at = ivec2(edge % ${EDGE_ROW}, edge / ${EDGE_ROW});
  uvec4 e = texelFetch(ends, at, 0);
  vec3 p = shown(uintBitsToFloat(e.x), e.y), q = shown(uintBitsToFloat(e.z), e.w);
  float s = sin(1.5707963 * float(k) / float(steps));
  // On the hyperboloid a geodesic lies in a plane: mix there, with more steps at the ends. All terms are positive.
  vec2 m = vec2(1.0 - s * s, s * s);
  float time = m.x * (2.0 - p.z) + m.y * (2.0 - q.z);
  vec2 space = 2.0 * (m.x * p.xy + m.y * q.xy), apart = p.xy - q.xy;
  float norm = m.x * m.x * p.z * p.z + m.y * m.y * q.z * q.z + 2.0 * m.x * m.y * (p.z * q.z + 2.0 * dot(apart, apart));
  strength = texelFetch(seen, at, 0).r;
  vec2 at_step = reach > 0.0 ? mix(p.xy, q.xy, s * s) : space / (time + sqrt(norm));
  gl_Position = strength == 0.0 ? vec4(2.0, 2.0, 2.0, 1.0) : on_screen(at_step);
}`;

const EDGE_FRAGMENT = `#version 300 es
precision mediump float;
flat in float strength;
uniform vec4 ink;
out vec4 color;
void main() { color = vec4(ink.rgb, 1.0) * (ink.a * strength); }`;

// The ground: the disc and its grid, as strips in pixels whose sides fade out.
const STRIP_VERTEX = `#version 300 es
layout(location = 0) in vec3 corner; // x, y and −1 or 1 for the side
uniform vec2 window;
out float side;
void main() {
  side = corner.z;
  gl_Position = vec4(2.0 * corner.x / window.x - 1.0, 1.0 - 2.0 * corner.y / window.y, 0.0, 1.0);
}`;

const STRIP_FRAGMENT = `#version 300 es
precision mediump float;
in float side;
uniform vec3 ink;
uniform float soft; // pixels over which a side fades; 0 for a strip with hard sides
out vec4 color;
void main() {
  float alpha = soft == 0.0 ? 1.0 : clamp((1.0 - abs(side)) * soft, 0.0, 1.0);
  color = vec4(ink * alpha, alpha);
}`;
