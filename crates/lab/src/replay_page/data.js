// ---- The data -------------------------------------------------------------------------------------------------------

const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer;
const N = D.frames, last = N - 1;
const origins = new Float32Array(bytes(D.origins));
const poses = new Int16Array(bytes(D.poses));
const rewards = new Float32Array(bytes(D.rewards));
const risks = D.risks && new Float32Array(bytes(D.risks));
const returns = new Float32Array(N);
for (let i = 1, sum = 0; i < N; i++) returns[i] = sum += rewards[i] || 0;
// A predicted risk stays in force until the next choice.
if (risks) for (let i = 1; i < N; i++) if (Number.isNaN(risks[i])) risks[i] = risks[i - 1];
const violations = new Set(D.violations);
const fallen = D.violations.length ? D.violations[0] : Infinity;
for (let i = fallen + 1; i < N; i++) returns[i] = NaN;
const gauges = D.gauges.map(g => ({ ...g, data: new Float32Array(bytes(g.data)) }));
const margin = (g, v) => Math.min(g.low === null ? Infinity : v - g.low, g.high === null ? Infinity : g.high - v) / g.near;
// How far the nearest quantity is from its bound: 0 at it, 1 and more where it is not near.
const nearness = f => {
  const i = Math.min(Math.round(f), D.steps);
  return gauges.reduce((least, g) => { const m = margin(g, g.data[i]); return m < least ? m : least; }, Infinity);
};

const geoms = D.geoms;
const moving = geoms.filter(g => !g.fixed);
moving.forEach((g, i) => { g.slot = i; });
const robot = moving.length ? moving : geoms.filter(g => g.shape !== "plane");
const hasFloor = geoms.some(g => g.shape === "plane");

const ends = { violation: "violation", truncated: "time limit reached" };
const clock = s => s.toFixed(D.dt < 0.1 ? 2 : 1) + " s";
const metres = x => x.toFixed(2).replace("-", "−") + " m";
const short = x => {
  const a = Math.abs(x);
  return (a >= 1000 ? x.toFixed(0) : a >= 100 ? x.toFixed(1) : a >= 1 || a === 0 ? x.toFixed(2) : x.toPrecision(2)).replace("-", "−");
};

$("title").textContent = D.title;
$("subtitle").textContent = D.subtitle;
const fact = (text, kind) => {
  const chip = document.createElement("span");
  chip.textContent = text;
  if (kind) chip.className = kind;
  $("facts").append(chip);
};
fact(D.steps + (D.steps === 1 ? " step" : " steps"));
if (D.total !== null) fact("return " + short(D.total));
// The faint robots go on a while after the moment: that is told apart, by a stride of ten steps.
if (D.ghosts.length) {
  const fell = D.ghosts.filter(g => g.fell), early = fell.filter(g => g.from + g.frames <= D.steps + 10).length, later = fell.length - early;
  fact(D.ghosts.length + " other choices: " + early + " fell by then" + (later ? ", " + later + " later" : ""));
}
if (D.end === "violation") fact("violation at step " + D.steps + (D.anomaly ? " (" + D.anomaly + ")" : ""), "bad");
else fact(D.end ? ends[D.end] || D.end : "stopped before the end", D.end === "truncated" && D.total > 0 ? "good" : "");
$("rule").textContent = D.rule ? "violation: " + D.rule.replace(/<=/g, "≤").replace(/>=/g, "≥") : "";

// ---- Where things are at a moment -----------------------------------------------------------------------------------

// `f` may lie between two frames: the display runs at its own rate. Everything that is measured is a whole frame.
const at = { f: -1, pos: moving.map(() => [0, 0, 0]), quat: moving.map(() => [1, 0, 0, 0]) };
function place(f) {
  if (at.f === f) return;
  at.f = f;
  const i = Math.min(last, Math.floor(f)), j = Math.min(last, i + 1), t = f - i, n = moving.length;
  for (let g = 0; g < n; g++) {
    const a = (i * n + g) * 7, b = (j * n + g) * 7, p = at.pos[g], q = at.quat[g];
    for (let k = 0; k < 3; k++) {
      const x = origins[i * 3 + k] + poses[a + k] * D.unit, y = origins[j * 3 + k] + poses[b + k] * D.unit;
      p[k] = x + (y - x) * t;
    }
    // q and −q are the same turn: take the nearer one.
    let dot = 0, length = 0;
    for (let k = 3; k < 7; k++) dot += poses[a + k] * poses[b + k];
    const sign = dot < 0 ? -t : t;
    for (let k = 0; k < 4; k++) { q[k] = poses[a + 3 + k] * (1 - t) + poses[b + 3 + k] * sign; length += q[k] * q[k]; }
    length = Math.sqrt(length) || 1;
    for (let k = 0; k < 4; k++) q[k] /= length;
  }
}
// Faint robots: what would have happened.
const ghosts = D.ghosts.map(g => ({ ...g, origins: new Float32Array(bytes(g.origins)), poses: new Int16Array(bytes(g.poses)) }));
function ghostPose(ghost, slot, f, p, q) {
  const n = moving.length, i = Math.max(0, Math.min(ghost.frames - 1, Math.round(f) - ghost.from - 1)), a = (i * n + slot) * 7;
  for (let k = 0; k < 3; k++) p[k] = ghost.origins[i * 3 + k] + ghost.poses[a + k] * D.unit;
  for (let k = 0; k < 4; k++) q[k] = ghost.poses[a + 3 + k] / 32767;
}
const position = g => g.fixed ? g.fixed.slice(0, 3) : at.pos[g.slot];
const quaternion = g => g.fixed ? g.fixed.slice(3) : at.quat[g.slot];
const axis = ([w, x, y, z]) => [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)];
// Every shape as a capsule around it: two ends and a radius.
function capsule(g) {
  const p = position(g), s = g.size;
  if (g.shape !== "capsule" && g.shape !== "cylinder") {
    const r = g.shape === "box" ? Math.hypot(s[0], s[1], s[2]) : g.shape === "ellipsoid" ? Math.max(...s) : s[0];
    return [p, p, r];
  }
  const z = axis(quaternion(g)), h = s[1];
  return [p.map((x, k) => x + z[k] * h), p.map((x, k) => x - z[k] * h), s[0]];
}

// The camera's path: the torso over the ground and the middle of the robot in height, smoothed forwards and backwards
// so that it neither shakes nor lags, and is the same whichever way a frame is reached.
const path = [new Float32Array(N), new Float32Array(N), new Float32Array(N)];
for (let i = 0; i < N; i++) {
  place(i);
  let low = Infinity, high = -Infinity;
  for (const g of robot) {
    const [a, b, r] = capsule(g);
    low = Math.min(low, a[2] - r, b[2] - r);
    high = Math.max(high, a[2] + r, b[2] + r);
  }
  const centre = position(geoms[D.follow] || robot[0]);
  path[0][i] = centre[0]; path[1][i] = centre[1]; path[2][i] = (low + high) / 2;
}
const keep = Math.exp(-D.dt / 0.3);
for (const line of path) {
  for (let i = 1; i < N; i++) line[i] = line[i - 1] * keep + line[i] * (1 - keep);
  for (let i = N - 2; i >= 0; i--) line[i] = line[i + 1] * keep + line[i] * (1 - keep);
}
const target = f => {
  const i = Math.min(last, Math.floor(f)), j = Math.min(last, i + 1);
  return path.map(line => line[i] + (line[j] - line[i]) * (f - i));
};
// How far the robot reaches from where the camera looks: sets the scale of shadows and haze.
const median = list => [...list].sort((a, b) => a - b)[list.length >> 1];
const frames = Array.from({ length: N }, (_, i) => i);
const radius = Math.max(hasFloor ? 0.5 : 1.3, median(frames.map(i => {
  place(i);
  const c = target(i), far = p => Math.hypot(p[0] - c[0], p[1] - c[1], p[2] - c[2]);
  return Math.max(...robot.map(g => { const [a, b, r] = capsule(g); return Math.max(far(a), far(b)) + r; }));
})));

