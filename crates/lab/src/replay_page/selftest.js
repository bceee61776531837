// ---- Checks that a test asks for with #selftest ----------------------------------------------------------------------

function selftest() {
  const problems = [], must = (ok, what) => { if (!ok) problems.push(what); };
  setPlaying(false);
  if (gl) {
    const count = Math.min(N, 12), shares = [], box = [];
    let colours = 0, clipped = 0;
    for (let k = 0; k < count; k++) {
      seek(Math.round(last * (count > 1 ? k / (count - 1) : 0)));
      draw();
      const w = canvas.width, h = canvas.height, pixels = new Uint8Array(4 * w * h), seen = new Set();
      gl.readPixels(0, 0, w, h, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
      for (let i = 0; i < pixels.length; i += 4 * 7) seen.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
      colours = Math.max(colours, seen.size);
      draw(true);
      gl.readPixels(0, 0, w, h, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
      let inside = 0, edge = 0;
      for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) if (pixels[4 * (y * w + x)] > 127) {
        inside++;
        if (!x || !y || x === w - 1 || y === h - 1) edge++;
      }
      shares.push(inside / (w * h));
      if (edge) clipped++;
    }
    const error = gl.getError();
    must(error === gl.NO_ERROR, "WebGL error " + error);
    must(colours > 200, "only " + colours + " colours drawn");
    must(Math.min(...shares) > 0.002, "the robot is hardly visible: " + Math.min(...shares));
    must(!clipped, "the robot is cut off in " + clipped + " of " + count + " frames");
    status.colours = colours;
    status.share = Math.min(...shares).toFixed(4) + ".." + Math.max(...shares).toFixed(4);
  }
  // Playing, pausing, scrubbing, speed, the end.
  setLooping(true);
  setSpeed(1);
  seek(0);
  setPlaying(true);
  pass(D.dt * Math.min(last, 3));
  must(Math.round(now) === Math.min(last, 3), "playing for three frames came to frame " + now);
  setPlaying(false);
  const stopped = now;
  pass(1);
  must(now === stopped, "it moves while paused");
  $("scrub").value = last;
  $("scrub").dispatchEvent(new Event("input"));
  must(now === last && !playing, "the scrubber did not lead to the last frame");
  must($("alarm").hidden === !(last >= fallen), "the alarm disagrees with the data");
  $("play").click();
  must(playing && now === 0, "play at the end did not start again");
  setSpeed(0.25);
  pass(D.dt);
  must(Math.abs(now - Math.min(last, 0.25)) < 1e-6, "at a quarter of the speed one frame's time gave " + now);
  seek(last);
  pass(HOLD + 0.1);
  must(now === 0 && playing, "it does not loop");
  dispatchEvent(new KeyboardEvent("keydown", { key: " " }));
  must(!playing, "space does not pause");
  dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
  must(now === last, "End does not lead to the end");
  // Turning, zooming, and pointing at the strip. Made-up pointers cannot be captured, so nobody tries.
  const point = (what, on, x, y) => {
    const box = on.getBoundingClientRect();
    on.dispatchEvent(new PointerEvent(what, { pointerId: 7, clientX: box.left + x * box.width, clientY: box.top + y * box.height, bubbles: true }));
  };
  canvas.setPointerCapture = strip.setPointerCapture = () => {};
  point("pointerdown", canvas, 0.5, 0.5);
  point("pointermove", canvas, 0.6, 0.6);
  point("pointerup", canvas, 0.6, 0.6);
  must(camera.turn < home.turn && camera.lift > home.lift && !$("reset").hidden, "dragging does not turn the view");
  canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: 100, cancelable: true }));
  must(camera.zoom > 1, "the wheel does not zoom");
  $("reset").click();
  must(camera.turn === home.turn && camera.zoom === 1, "the view does not go back");
  point("pointerdown", strip, 0.5, 0.5);
  must(last < 4 || (now > 0 && now < last), "pointing at the strip did not lead there: " + now);
  delete canvas.setPointerCapture;
  delete strip.setPointerCapture;
  seek(last);
  // The violation's mark: red pixels in its column of the strip.
  drawStrip();
  let red = 0;
  const c = strip.getContext("2d"), [r, g, b] = [0, 1, 2].map(k => parseInt(getComputedStyle(document.documentElement).getPropertyValue("--bad").trim().slice(1 + 2 * k, 3 + 2 * k), 16));
  const pixels = c.getImageData(0, 0, strip.width, strip.height).data;
  // Elsewhere the bounds of the gauges are red, too.
  const ratio = strip.width / strip.clientWidth, column = x_of(last, strip.clientWidth) * ratio;
  for (let i = 0; i < pixels.length; i += 4) if (Math.abs((i / 4) % strip.width - column) <= 1.5 * ratio && Math.abs(pixels[i] - r) + Math.abs(pixels[i + 1] - g) + Math.abs(pixels[i + 2] - b) < 40) red++;
  status.redPixels = red;
  must((red > 20) === violations.size > 0, "the strip has " + red + " red pixels for " + violations.size + " violations");
  must(document.documentElement.scrollWidth <= innerWidth, "the page is wider than the window");
  must(!D.ghosts.length || (seek(D.ghosts[0].from + 1), D.ghosts.every(g => g.frames > 0)), "faint robots without frames");
  status.selftest = problems.length ? "failed: " + problems.join("; ") : "ok";
  seek(0);
}

