// ---- The picture ----------------------------------------------------------------------------------------------------

const V = {
  sub: (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]],
  cross: (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]],
  dot: (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2],
  unit: a => { const l = Math.hypot(...a) || 1; return a.map(x => x / l); },
};
const canvas = $("view");
const home = hasFloor ? { turn: -1.12, lift: 0.2, zoom: 1 } : { turn: -2.65, lift: 0.42, zoom: 1 };
const camera = { ...home };
const FOV = 0.62;
// The distance from which the first view shows the whole robot in every frame, by the shape of the window.
const distances = new Map();
function fit(aspect) {
  if (distances.has(aspect)) return distances.get(aspect);
  const up = Math.tan(FOV / 2), across = up * aspect;
  const back = [Math.cos(home.lift) * Math.cos(home.turn), Math.cos(home.lift) * Math.sin(home.turn), Math.sin(home.lift)];
  const x = V.unit(V.cross([0, 0, 1], back)), y = V.cross(back, x);
  const needed = frames.map(i => {
    place(i);
    const c = target(i);
    let d = 0;
    for (const g of robot) {
      const [a, b, r] = capsule(g);
      for (const p of [V.sub(a, c), V.sub(b, c)])
        d = Math.max(d, V.dot(p, back) + Math.max((Math.abs(V.dot(p, x)) + r) / across, (Math.abs(V.dot(p, y)) + r) / up));
    }
    return d;
  });
  // A simulation that breaks flings limbs away: do not step back for that.
  let distance = Math.min(Math.max(...needed), 2.5 * median(needed)) * 1.12;
  if (!hasFloor) distance = Math.max(distance, 4 / Math.min(1, aspect));
  distances.set(aspect, distance);
  return distance;
}
const theme = () => dark.matches
  ? { sky: [0.012, 0.017, 0.027], rim: [0.050, 0.060, 0.076], deep: [0.008, 0.011, 0.018], tileA: [0.030, 0.036, 0.044], tileB: [0.052, 0.061, 0.073], light: 1.0, fill: 0.55 }
  : { sky: [0.25, 0.42, 0.66], rim: [0.66, 0.70, 0.72], deep: [0.16, 0.27, 0.42], tileA: [0.235, 0.25, 0.265], tileB: [0.36, 0.37, 0.375], light: 1.0, fill: 1.0 };

const product = (a, b) => {
  const m = new Float32Array(16);
  for (let c = 0; c < 4; c++) for (let r = 0; r < 4; r++)
    for (let k = 0; k < 4; k++) m[c * 4 + r] += a[k * 4 + r] * b[c * 4 + k];
  return m;
};
const perspective = (fov, aspect, near, far) => {
  const t = 1 / Math.tan(fov / 2), d = 1 / (near - far);
  return [t / aspect, 0, 0, 0, 0, t, 0, 0, 0, 0, (far + near) * d, -1, 0, 0, 2 * far * near * d, 0];
};
const orthographic = (half, depth) => [1 / half, 0, 0, 0, 0, 1 / half, 0, 0, 0, 0, -1 / depth, 0, 0, 0, 0, 1];
const lookAt = (eye, centre, up) => {
  const z = V.unit(V.sub(eye, centre)), x = V.unit(V.cross(up, z)), y = V.cross(z, x);
  return [x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0, -V.dot(x, eye), -V.dot(y, eye), -V.dot(z, eye), 1];
};
const linear = c => c.slice(0, 3).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);

// Colours: limbs are told apart by the robot's left and right where it has sides, else by
// front and back, else from one to the next.
(() => {
  place(0);
  const torso = [...position(geoms[D.follow] || robot[0])];
  const from = (g, k) => position(g)[k] - torso[k];
  const sided = robot.some(g => Math.abs(from(g, 1)) > 0.03);
  const side = g => sided ? from(g, 1) / 0.03 : from(g, 2) < -0.03 ? -from(g, 0) / 0.15 : 0;
  const flanked = robot.some(g => Math.abs(side(g)) > 1);
  const mix = (a, b, t) => a.map((x, k) => x + (b[k] - x) * t);
  const TEAL = [0.06, 0.27, 0.33], RUST = [0.62, 0.17, 0.06];
  for (const g of geoms) g.colour = linear(g.rgba);
  // A robot's body has a colour of its own, not the one its model happens to have; a single thing keeps what it was given.
  if (moving.length > 1) for (const g of robot) g.colour = [0.42, 0.34, 0.25];
  robot.forEach((g, i) => {
    if (Math.abs(side(g)) > 1) g.colour = mix(g.colour, side(g) > 0 ? TEAL : RUST, 0.8);
    else if (!flanked && i % 2) g.colour = mix(g.colour, RUST, 0.55);
  });
})();

// Each vertex: where it is on the unit shape, its normal, and which end of a capsule it belongs to.
const mesh = { vertices: [], indices: [], parts: {} };
function part(name, build) {
  const start = mesh.indices.length, base = mesh.vertices.length / 7;
  const { vertices, indices } = build();
  for (const v of vertices) mesh.vertices.push(...v);
  for (const i of indices) mesh.indices.push(base + i);
  mesh.parts[name] = [start, mesh.indices.length - start];
}
const grid = (rows, columns) => {
  const indices = [], w = columns + 1;
  for (let r = 0; r < rows - 1; r++) for (let c = 0; c < columns; c++) {
    const a = r * w + c;
    indices.push(a, a + w, a + 1, a + 1, a + w, a + w + 1);
  }
  return indices;
};
part("round", () => {
  const vertices = [], columns = 40, half = 12;
  for (const end of [1, -1]) for (let r = 0; r <= half; r++) {
    const polar = (end > 0 ? r / half : 1 + r / half) * Math.PI / 2;
    for (let c = 0; c <= columns; c++) {
      const around = c / columns * 2 * Math.PI;
      const p = [Math.sin(polar) * Math.cos(around), Math.sin(polar) * Math.sin(around), Math.cos(polar)];
      vertices.push([...p, ...p, end]);
    }
  }
  return { vertices, indices: grid(2 * half + 2, columns) };
});
part("cylinder", () => {
  const vertices = [], columns = 40;
  for (const [r, z, normal] of [[0, 1, 1], [1, 1, 1], [1, 1, 0], [1, -1, 0], [1, -1, -1], [0, -1, -1]])
    for (let c = 0; c <= columns; c++) {
      const x = Math.cos(c / columns * 2 * Math.PI), y = Math.sin(c / columns * 2 * Math.PI);
      vertices.push([r * x, r * y, z, ...(normal ? [0, 0, normal] : [x, y, 0]), 0]);
    }
  return { vertices, indices: grid(6, columns) };
});
part("box", () => {
  const vertices = [], indices = [];
  for (const k of [0, 1, 2]) for (const s of [1, -1]) {
    const n = [0, 0, 0], base = vertices.length;
    n[k] = s;
    for (const [u, v] of [[-1, -1], [1, -1], [1, 1], [-1, 1]]) {
      const p = [0, 0, 0];
      p[k] = s; p[(k + 1) % 3] = u * s; p[(k + 2) % 3] = v;
      vertices.push([...p, ...n, 0]);
    }
    indices.push(base, base + 1, base + 2, base, base + 2, base + 3);
  }
  return { vertices, indices };
});
part("plane", () => ({
  vertices: [[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([x, y]) => [x, y, 0, 0, 0, 1, 0]),
  indices: [0, 1, 2, 0, 2, 3],
}));
const drawable = g => {
  const s = g.size;
  switch (g.shape) {
    case "capsule": return ["round", [s[0], s[0], s[0]], s[1]];
    case "ellipsoid": return ["round", s, 0];
    case "cylinder": return ["cylinder", [s[0], s[0], s[1]], 0];
    case "box": return ["box", s, 0];
    default: return ["round", [s[0], s[0], s[0]], 0];
  }
};

