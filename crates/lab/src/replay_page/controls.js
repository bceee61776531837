// ---- The controls ---------------------------------------------------------------------------------------------------

let now = 0, playing = false, looping = true, speed = 1, waited = 0, dirty = true, before = 0;
const HOLD = 1.2; // seconds at the end before the next round
const SPEEDS = [0.25, 0.5, 1, 2];
function show() {
  const i = Math.round(now);
  $("scrub").value = i;
  const b = text => { const e = document.createElement("b"); e.textContent = text; return e; };
  const along = document.createElement("span");
  along.className = "wide";
  along.append(" · x ", b(metres(origins[3 * i])));
  $("readout").replaceChildren("frame ", b(i), " / " + last + " · ", b(clock(i * D.dt)), along);
  $("alarm").hidden = i < fallen;
  const g = gauges.reduce((least, g) => !least || margin(g, g.data[Math.min(i, D.steps)]) < margin(least, least.data[Math.min(i, D.steps)]) ? g : least, null);
  if (g) {
    const value = g.data[Math.min(i, D.steps)], m = margin(g, value), lower = g.low !== null && (g.high === null || value - g.low < g.high - value);
    $("gauge").hidden = false;
    // Three figures: with two, what is just beyond the bound reads as the bound.
    const three = x => (Math.abs(x) >= 100 ? x.toFixed(0) : x.toPrecision(3)).replace("-", "−");
    $("gauge").textContent = g.name + " " + three(value) + ", bound " + three(lower ? g.low : g.high);
    $("gauge").classList.toggle("near", !(m >= 1));
  }
  dirty = true;
  for (const follow of followers) follow(now * D.dt);
}
function seek(f) { now = Math.max(0, Math.min(last, f)); waited = 0; show(); }
function setPlaying(yes) {
  if (yes && now >= last) now = 0;
  playing = yes;
  waited = 0;
  if (!yes) now = Math.round(now);
  $("play").classList.toggle("playing", yes);
  $("play").setAttribute("aria-label", yes ? "Pause" : "Play");
  show();
}
function setSpeed(s) {
  speed = s;
  [...$("speeds").children].forEach((b, k) => b.setAttribute("aria-pressed", SPEEDS[k] === s));
}
function setLooping(yes) { looping = yes; $("loop").setAttribute("aria-pressed", yes); }
function resetView() { Object.assign(camera, home); $("reset").hidden = true; dirty = true; }
function moved() { $("reset").hidden = false; dirty = true; }

// Lets `seconds` of the viewer's time pass.
function pass(seconds) {
  if (!playing) return;
  if (now >= last) {
    waited += seconds;
    if (!looping) setPlaying(false);
    else if (waited >= HOLD) seek(0);
    return;
  }
  now = Math.min(last, now + seconds * speed / D.dt);
  show();
}
function loop(time) {
  requestAnimationFrame(loop);
  const seconds = Math.min(0.1, (time - before) / 1000);
  before = time;
  pass(seconds);
  if (dirty) {
    dirty = false;
    draw();
    drawStrip();
    status.drawn = (+status.drawn || 0) + 1;
  }
}

for (const s of SPEEDS) {
  const button = document.createElement("button");
  button.textContent = s + "×";
  button.onclick = () => setSpeed(s);
  $("speeds").append(button);
}
$("play").onclick = () => setPlaying(!playing);
$("loop").onclick = () => setLooping(!looping);
$("reset").onclick = resetView;
$("scrub").max = last;
$("scrub").oninput = () => { const f = +$("scrub").value; setPlaying(false); seek(f); };
strip.addEventListener("pointerdown", e => {
  strip.setPointerCapture(e.pointerId);
  setPlaying(false);
  seek(frame_of(e.offsetX, strip.clientWidth));
});
strip.addEventListener("pointermove", e => {
  if (strip.hasPointerCapture(e.pointerId)) seek(frame_of(e.offsetX, strip.clientWidth));
});
const touches = new Map();
const spread = () => { const [a, b] = [...touches.values()]; return Math.hypot(a.x - b.x, a.y - b.y); };
const zoom = factor => { camera.zoom = Math.max(0.25, Math.min(8, camera.zoom * factor)); moved(); };
canvas.addEventListener("pointerdown", e => { canvas.setPointerCapture(e.pointerId); touches.set(e.pointerId, { x: e.clientX, y: e.clientY }); });
canvas.addEventListener("pointermove", e => {
  const p = touches.get(e.pointerId);
  if (!p) return;
  const apart = touches.size === 2 && spread();
  const dx = e.clientX - p.x, dy = e.clientY - p.y;
  p.x = e.clientX; p.y = e.clientY;
  if (touches.size === 2) zoom(apart / Math.max(1, spread()));
  else {
    camera.turn -= dx * 0.008;
    camera.lift = Math.max(hasFloor ? -0.1 : -1.4, Math.min(1.5, camera.lift + dy * 0.006));
    moved();
  }
});
for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, e => touches.delete(e.pointerId));
canvas.addEventListener("wheel", e => { e.preventDefault(); zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) * 0.002)); }, { passive: false });
canvas.addEventListener("dblclick", resetView);
canvas.addEventListener("webglcontextlost", e => { e.preventDefault(); say("The browser has taken the graphics away from this page. Reload it to see the robot again."); });
if (leads) addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const key = e.key;
  // A focused button keeps its own space bar, the slider its own arrows.
  if (key === " " && !(e.target instanceof HTMLButtonElement)) setPlaying(!playing);
  else if (key === "ArrowLeft" || key === "ArrowRight") { setPlaying(false); seek(Math.round(now) + (key === "ArrowLeft" ? -1 : 1) * (e.shiftKey ? 10 : 1)); }
  else if (key === "Home") { setPlaying(false); seek(0); }
  else if (key === "End") { setPlaying(false); seek(last); }
  else if (key === "r" || key === "R") resetView();
  else if (key === "l" || key === "L") setLooping(!looping);
  else return;
  e.preventDefault();
});
dark.addEventListener("change", () => { dirty = true; });
// Drawn at once, before the browser shows the old picture stretched.
new ResizeObserver(() => { draw(); drawStrip(); }).observe($("stage"));

