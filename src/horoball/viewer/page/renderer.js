// WebGL: one draw call for the points, one for the edges. A frame changes a few uniforms and nothing else.

// Points lie in the buffers in steps of the golden section of n, so that any first part of them is a fair sample of all,
// and no category covers another because it comes later in the data.
const stride = (() => {
  const coprime = (a, b) => (b === 0 ? a === 1 : coprime(b, a % b));
  let step = Math.max(1, Math.round(n * 0.6180339887));
  while (n > 1 && !coprime(step, n)) step++;
  return step;
})();

function inDrawingOrder(values) {
  const out = new values.constructor(n);
  for (let k = 0, i = 0; k < n; k++, i = (i + stride) % n) out[k] = values[i];
  return out;
}

function createRenderer(canvas) {
  const gl = canvas.getContext("webgl2", { antialias: false, alpha: false, depth: false });
  if (!gl) return null;
  const steps = edges.length > 200000 ? 10 : edges.length > 20000 ? 20 : 32;
  const edgeCount = edges.length / 2;
  const edgeRows = Math.ceil(edgeCount / EDGE_ROW);
  let points, lines, strips, buffers, textures;

  function program(vertex, fragment) {
    const made = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(made, shader);
    }
    gl.linkProgram(made);
    if (!gl.getProgramParameter(made, gl.LINK_STATUS) && !gl.isContextLost()) {
      throw new Error(`Shader: ${gl.getProgramInfoLog(made)}`);
    }
    const at = {};
    for (let k = 0; k < gl.getProgramParameter(made, gl.ACTIVE_UNIFORMS); k++) {
      const { name } = gl.getActiveUniform(made, k);
      at[name] = gl.getUniformLocation(made, name);
    }
    return { made, at, array: gl.createVertexArray() };
  }

  function buffer(values, location, attribute) {
    const made = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, made);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(location);
    attribute(location);
    return made;
  }

  function texture(unit, inner, format, type, values) {
    textures[unit] ||= gl.createTexture();
    gl.activeTexture(gl.TEXTURE0 + unit);
    gl.bindTexture(gl.TEXTURE_2D, textures[unit]);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
    gl.texImage2D(gl.TEXTURE_2D, 0, inner, EDGE_ROW, edgeRows, 0, format, type, values);
  }

  function build() {
    buffers = {};
    textures = [];
    points = program(POINT_VERTEX, POINT_FRAGMENT);
    gl.bindVertexArray(points.array);
    buffer(inDrawingOrder(radii), 0, (k) => gl.vertexAttribPointer(k, 1, gl.FLOAT, false, 0, 0));
    buffer(inDrawingOrder(turns), 1, (k) => gl.vertexAttribIPointer(k, 1, gl.UNSIGNED_INT, 0, 0));
    const colors = (k) => gl.vertexAttribPointer(k, 4, gl.UNSIGNED_BYTE, true, 0, 0);
    buffers.color = buffer(new Uint8Array(4 * n), 2, colors);
    strips = program(STRIP_VERTEX, STRIP_FRAGMENT);
    gl.bindVertexArray(strips.array);
    buffers.strip = buffer(new Float32Array(3), 0, (k) => gl.vertexAttribPointer(k, 3, gl.FLOAT, false, 0, 0));
    if (edgeCount) {
      lines = program(EDGE_VERTEX, EDGE_FRAGMENT);
      const ends = new Uint32Array(4 * EDGE_ROW * edgeRows);
      const asFloat = new Float32Array(ends.buffer);
      for (let k = 0; k < edges.length; k++) {
        asFloat[2 * k] = radii[edges[k]];
        ends[2 * k + 1] = turns[edges[k]];
      }
      texture(0, gl.RGBA32UI, gl.RGBA_INTEGER, gl.UNSIGNED_INT, ends);
    }
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  function use({ made, at, array }, frame, screen) {
    gl.useProgram(made);
    gl.bindVertexArray(array);
    const high = Math.fround(frame.radius);
    gl.uniform2f(at.center, high, frame.radius - high);
    gl.uniform2f(at.half_center, frame.cosh, frame.sinh);
    gl.uniform1ui(at.turn_center, frame.whole);
    gl.uniform1f(at.turn_rest, frame.rest);
    gl.uniform2f(at.spin, frame.spin[0], frame.spin[1]);
    gl.uniform1f(at.reach, isFlat ? reach : 0);
    gl.uniform4f(at.screen, ...screen);
  }

  build();
  return {
    gl,
    rebuild: build,
    // `values` are in the drawing order; `seen` has a byte for each edge.
    colors(values, seen) {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffers.color);
      gl.bufferSubData(gl.ARRAY_BUFFER, 0, values);
      if (edgeCount) texture(1, gl.R8, gl.RED, gl.UNSIGNED_BYTE, seen);
    },
    clear(color) {
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clearColor(...color, 1);
      gl.clear(gl.COLOR_BUFFER_BIT);
    },
    strip(corners, color, soft) {
      gl.useProgram(strips.made);
      gl.bindVertexArray(strips.array);
      gl.bindBuffer(gl.ARRAY_BUFFER, buffers.strip);
      gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(corners), gl.STREAM_DRAW);
      gl.uniform2f(strips.at.window, size.width, size.height);
      gl.uniform3f(strips.at.ink, ...color);
      gl.uniform1f(strips.at.soft, soft);
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, corners.length / 3);
    },
    edges({ frame, screen, ink }) {
      use(lines, frame, screen);
      gl.uniform1i(lines.at.ends, 0);
      gl.uniform1i(lines.at.seen, 1);
      gl.uniform1i(lines.at.steps, steps);
      gl.uniform4f(lines.at.ink, ...ink);
      gl.drawArrays(gl.LINES, 0, edgeCount * 2 * steps);
    },
    points({ frame, screen, diameter, ground, count }) {
      use(points, frame, screen);
      gl.uniform1f(points.at.size, diameter);
      gl.uniform3f(points.at.ground, ...ground);
      gl.drawArrays(gl.POINTS, 0, count);
    },
  };
}
