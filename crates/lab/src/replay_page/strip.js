// ---- The curves -----------------------------------------------------------------------------------------------------

const strip = $("strip");
const panels = [
  { name: "reward", unit: "reward per step", data: rewards, from: 1, ink: "--reward", fill: true },
  { name: "return", unit: "return so far", data: returns, from: 0, ink: "--return" },
];
if (risks) {
  // A policy that is hardly ever at risk would draw a flat line on the whole range of a probability.
  let most = 0.01;
  for (const r of risks) if (r > most) most = r;
  const power = 10 ** Math.floor(Math.log10(most));
  const top = Math.min(1, power * [1, 2, 5, 10].find(f => f * power >= most * 0.999999));
  panels.push({ name: "risk", unit: "predicted risk of the chosen skill", data: risks, from: 0, ink: "--risk", range: [0, top], steps: true });
}
for (const g of gauges) {
  let low = Infinity, high = -Infinity;
  for (const v of g.data) if (Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
  const bounds = [g.low, g.high].filter(b => b !== null);
  // The bounds are always in sight, unless they are far away from all that happened.
  for (const b of bounds) if (margin({ ...g, low: b, high: null }, low) < 8 || margin({ ...g, low: null, high: b }, high) < 8) { low = Math.min(low, b); high = Math.max(high, b); }
  panels.push({ name: "gauge", unit: g.name, data: g.data, from: 0, ink: "--reward", range: low < high ? [low, high] : [low - 1, low + 1], bounds, gauge: g });
}
for (const p of panels) {
  if (p.range) continue;
  let low = 0, high = 0;
  for (let i = p.from; i < N; i++) if (Number.isFinite(p.data[i])) { low = Math.min(low, p.data[i]); high = Math.max(high, p.data[i]); }
  p.range = low === high ? [low - 1, high + 1] : [low, high];
}
const LEFT = 12, RIGHT = 52, TOP = 22, GAP = 8, AXIS = 20;
const panelHeight = () => innerHeight < 640 || innerWidth <= 640 ? 30 : 40;
const x_of = (f, width) => LEFT + (last ? f / last : 0) * (width - LEFT - RIGHT);
function frame_of(x, width) { return Math.max(0, Math.min(last, Math.round((x - LEFT) / (width - LEFT - RIGHT) * last))); }

function drawStrip() {
  const density = devicePixelRatio || 1, width = strip.clientWidth, h = panelHeight();
  const height = panels.length * (TOP + h + GAP) + AXIS;
  strip.style.height = height + "px";
  strip.width = Math.round(width * density);
  strip.height = Math.round(height * density);
  const c = strip.getContext("2d"), css = getComputedStyle(document.documentElement), ink = name => css.getPropertyValue(name).trim();
  const font = size => size + "px " + getComputedStyle(document.body).fontFamily;
  c.scale(density, density);
  const i = Math.round(now), right = width - RIGHT;
  panels.forEach((p, k) => {
    const top = k * (TOP + h + GAP) + TOP, [low, high] = p.range, y_of = v => top + h - (v - low) / (high - low) * h;
    c.strokeStyle = ink("--line");
    c.lineWidth = 1;
    c.beginPath();
    for (const v of low < 0 && high > 0 ? [low, 0, high] : [low, high]) {
      c.moveTo(LEFT, Math.round(y_of(v)) + 0.5);
      c.lineTo(right, Math.round(y_of(v)) + 0.5);
    }
    c.stroke();
    c.fillStyle = ink("--soft");
    c.font = font(11);
    c.textBaseline = "middle";
    c.textAlign = "left";
    const label = v => v ? short(v) : "0";
    c.fillText(label(high), right + 6, top + 1);
    c.fillText(label(low), right + 6, top + h);
    if (low < 0 && high > 0 && Math.min(y_of(0) - top, top + h - y_of(0)) > 14) c.fillText("0", right + 6, y_of(0));
    // The curve.
    c.beginPath();
    let drawing = false;
    for (let f = p.from; f < N; f++) {
      const v = p.data[f];
      if (!Number.isFinite(v)) { drawing = false; continue; }
      const x = x_of(f, width), y = y_of(v);
      if (!drawing) c.moveTo(x, y);
      else { if (p.steps) c.lineTo(x, y_of(p.data[f - 1])); c.lineTo(x, y); }
      drawing = true;
    }
    c.strokeStyle = ink(p.ink);
    c.lineWidth = 1.5;
    c.lineJoin = "round";
    c.stroke();
    if (p.fill && N > p.from) {
      c.lineTo(x_of(Math.min(last, D.steps), width), y_of(0));
      c.lineTo(x_of(p.from, width), y_of(0));
      c.globalAlpha = 0.18;
      c.fillStyle = ink(p.ink);
      c.fill();
      c.globalAlpha = 1;
    }
    // The bounds, and the quantity in red where it is near one.
    for (const b of p.bounds || []) if (b >= low && b <= high) {
      c.setLineDash([5, 4]);
      c.strokeStyle = ink("--bad");
      c.beginPath();
      c.moveTo(LEFT, y_of(b));
      c.lineTo(right, y_of(b));
      c.stroke();
      c.setLineDash([]);
    }
    if (p.gauge) for (let f = 1; f < N; f++) {
      const near = 1 - margin(p.gauge, p.data[f]);
      if (!(near > 0) || !Number.isFinite(p.data[f - 1])) continue;
      c.globalAlpha = Math.min(1, 0.25 + 0.75 * near);
      c.strokeStyle = ink("--bad");
      c.lineWidth = 2.5;
      c.beginPath();
      c.moveTo(x_of(f - 1, width), y_of(p.data[f - 1]));
      c.lineTo(x_of(f, width), y_of(p.data[f]));
      c.stroke();
      c.globalAlpha = 1;
    }
    // Where skills begin.
    if (p.name === "risk" || (p.name === "reward" && !risks)) for (const f of D.choices) {
      c.fillStyle = ink("--risk");
      c.globalAlpha = 0.55;
      c.fillRect(x_of(f, width) - 0.5, top + h - 4, 1, 7);
      c.globalAlpha = 1;
    }
    c.fillStyle = ink("--soft");
    // The legend, with the value under the cursor.
    c.textBaseline = "alphabetic";
    c.font = font(12);
    c.fillStyle = ink(p.ink);
    c.fillRect(LEFT, top - 11, 9, 3);
    c.fillStyle = ink("--soft");
    c.fillText(p.unit, LEFT + 14, top - 6);
    const value = p.data[i], after = LEFT + 14 + c.measureText(p.unit).width + 8;
    c.fillStyle = ink("--ink");
    c.font = "600 " + font(12);
    c.fillText(i < p.from || !Number.isFinite(value) ? "–" : short(value), after, top - 6);
  });
  // The cursor, left out where the legends are.
  const x = x_of(now, width);
  c.strokeStyle = c.fillStyle = ink("--ink");
  c.lineWidth = 1.25;
  for (const [k, p] of panels.entries()) {
    const value = p.data[i], [low, high] = p.range, top = k * (TOP + h + GAP) + TOP;
    c.beginPath();
    c.moveTo(x, top - 2);
    c.lineTo(x, top + h + 3);
    c.stroke();
    if (i < p.from || !Number.isFinite(value)) continue;
    c.beginPath();
    c.arc(x, top + h - (value - low) / (high - low) * h, 3, 0, 7);
    c.fill();
  }
  const bottom = height - AXIS;
  for (const v of violations) {
    const x = Math.round(x_of(v, width)) + 0.5;
    c.strokeStyle = c.fillStyle = ink("--bad");
    c.lineWidth = 2;
    c.beginPath();
    c.moveTo(x, TOP - 4);
    c.lineTo(x, bottom - GAP);
    c.stroke();
    c.beginPath();
    c.moveTo(x - 5, TOP - 10);
    c.lineTo(x + 5, TOP - 10);
    c.lineTo(x, TOP - 2);
    c.fill();
    c.font = "600 " + font(11);
    c.textAlign = x > width / 2 ? "right" : "left";
    c.fillText("violation", x + (x > width / 2 ? -9 : 9), TOP - 5);
  }
  // Time, at a round distance that leaves room for the words.
  const seconds = last * D.dt, room = Math.max(2, Math.floor((right - LEFT) / 80));
  const rough = seconds / room || 1, ten = 10 ** Math.floor(Math.log10(rough));
  const tick = [1, 2, 5, 10].map(m => m * ten).find(t => t >= rough) || rough;
  c.font = font(11);
  c.fillStyle = ink("--soft");
  c.strokeStyle = ink("--line");
  c.lineWidth = 1;
  const digits = Math.max(0, -Math.floor(Math.log10(tick) + 1e-9));
  for (let k = 0; k * tick <= seconds + 1e-9; k++) {
    const x = Math.round(x_of(k * tick / D.dt, width)) + 0.5;
    c.beginPath();
    c.moveTo(x, bottom - GAP + 2);
    c.lineTo(x, bottom - GAP + 6);
    c.stroke();
    c.textAlign = k ? "center" : "left";
    c.fillText((k * tick).toFixed(digits) + " s", x, bottom + 9);
  }
}

