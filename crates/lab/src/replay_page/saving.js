// ---- Saving what is seen ---------------------------------------------------------------------------------------------

const saving = text => { root.querySelector(".v-save span").textContent = text; };
const download = (blob, ending) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = (D.env || "episode") + ending;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
};
// The browser's own encoder, while the episode is played once from the start.
function saveVideo() {
  const kinds = ["video/mp4;codecs=avc1.42E01E", "video/mp4", "video/webm;codecs=vp9", "video/webm"];
  const kind = window.MediaRecorder && canvas.captureStream && kinds.find(k => MediaRecorder.isTypeSupported(k));
  if (!gl || !kind) { saving("this browser records no video"); return Promise.resolve(null); }
  return new Promise(done => {
    const recorder = new MediaRecorder(canvas.captureStream(30), { mimeType: kind, videoBitsPerSecond: 6e6 }), parts = [];
    recorder.ondataavailable = e => { if (e.data.size) parts.push(e.data); };
    recorder.onstop = () => {
      setLooping(before);
      const blob = new Blob(parts, { type: kind });
      saving("");
      done(blob);
    };
    const before = looping;
    setLooping(false);
    setPlaying(false);
    seek(0);
    recorder.start();
    setPlaying(true);
    const watch = setInterval(() => {
      saving(Math.round(100 * now / Math.max(1, last)) + " %");
      if (now < last && playing) return;
      clearInterval(watch);
      setTimeout(() => recorder.stop(), 300);
    }, 100);
  });
}
// GIF89a: a fixed cube of 6 × 7 × 6 colours with ordered dither, and LZW.
function gif(width = 480, rate = 20) {
  if (!gl) return null;
  const height = Math.max(2, Math.round(width * canvas.clientHeight / Math.max(1, canvas.clientWidth)));
  const small = document.createElement("canvas");
  small.width = width; small.height = height;
  const c = small.getContext("2d", { willReadFrequently: true }), out = [];
  const two = n => out.push(n & 255, n >> 8);
  out.push(...[..."GIF89a"].map(x => x.charCodeAt(0)));
  two(width); two(height);
  out.push(0xF7, 0, 0);
  for (let k = 0; k < 256; k++) {
    const r = Math.floor(k / 42), g = Math.floor(k / 6) % 7, b = k % 6;
    out.push(k < 252 ? Math.round(r * 51) : 0, k < 252 ? Math.round(g * 42.5) : 0, k < 252 ? Math.round(b * 51) : 0);
  }
  out.push(0x21, 0xFF, 11, ...[..."NETSCAPE2.0"].map(x => x.charCodeAt(0)), 3, 1, 0, 0, 0);
  const held = now, was = playing, hundredths = Math.max(2, Math.round(100 / rate));
  playing = false;
  const bayer = [0, 8, 2, 10, 12, 4, 14, 6, 3, 11, 1, 9, 15, 7, 13, 5], pixels = new Uint8Array(width * height);
  for (let t = 0; t <= last * D.dt + 1e-9; t += hundredths / 100) {
    now = Math.min(last, t / D.dt);
    draw();
    c.drawImage(canvas, 0, 0, width, height);
    const data = c.getImageData(0, 0, width, height).data;
    for (let i = 0; i < pixels.length; i++) {
      const d = (bayer[(i % width & 3) + 4 * (Math.floor(i / width) & 3)] + 0.5) / 16;
      const level = (v, n) => Math.min(n, Math.floor(v / 255 * n + d));
      pixels[i] = level(data[4 * i], 5) * 42 + level(data[4 * i + 1], 6) * 6 + level(data[4 * i + 2], 5);
    }
    out.push(0x21, 0xF9, 4, 0);
    two(hundredths);
    out.push(0, 0, 0x2C);
    two(0); two(0); two(width); two(height);
    out.push(0, 8);
    lzw(pixels, out);
  }
  out.push(0x3B);
  now = held;
  playing = was;
  show();
  return new Blob([Uint8Array.from(out)], { type: "image/gif" });
}
function lzw(pixels, out) {
  const block = [];
  let bits = 0, room = 0, width = 9, next = 258, table = new Map(), prefix = pixels[0];
  const put = code => {
    bits |= code << room;
    for (room += width; room >= 8; room -= 8, bits >>>= 8) {
      block.push(bits & 255);
      if (block.length === 255) out.push(255, ...block.splice(0));
    }
  };
  put(256);
  for (let i = 1; i < pixels.length; i++) {
    const key = prefix << 8 | pixels[i], code = table.get(key);
    if (code !== undefined) { prefix = code; continue; }
    put(prefix);
    if (next < 4096) {
      table.set(key, next);
      if (next++ === 1 << width) width++;
    } else { put(256); table = new Map(); width = 9; next = 258; }
    prefix = pixels[i];
  }
  put(prefix);
  put(257);
  if (room) block.push(bits & 255);
  if (block.length) out.push(block.length, ...block);
  out.push(0);
}
root.querySelector("[data-save=video]").onclick = async () => { const blob = await saveVideo(); if (blob) download(blob, blob.type.includes("mp4") ? ".mp4" : ".webm"); };
root.querySelector("[data-save=gif]").onclick = () => {
  saving("…");
  setTimeout(() => { const blob = gif(); saving(blob ? "" : "there is no picture to save"); if (blob) download(blob, ".gif"); }, 30);
};

