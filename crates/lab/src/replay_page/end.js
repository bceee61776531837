if (leads) {
  window.__sskp = {
    ready: false, frames: N, frame: () => Math.round(now), seek, play: () => setPlaying(true), pause: () => setPlaying(false),
    playing: () => playing, setSpeed, selftest, panels: panels.map(p => p.name), saveVideo, gif, faint: () => ghosts.filter(g => now > g.from).length,
  };
  status.frames = N;
  status.episodes = EPISODES.length;
  status.panels = window.__sskp.panels.join(" ");
}
try { start(); } catch (error) { gl = null; document.body.dataset.error = String(error); say("The robot cannot be drawn: " + error.message); }
setLooping(true);
// A fall of a fifth of a second is over before one has looked.
setSpeed(last * D.dt < 1 ? 0.25 : 1);
const asked = new URLSearchParams(location.hash.slice(1));
if (leads) {
  if (asked.has("frame")) { setPlaying(false); seek(Math.round(+asked.get("frame")) || 0); }
  else setPlaying(!matchMedia("(prefers-reduced-motion: reduce)").matches && !asked.has("selftest"));
} else { looping = false; seek(0); }
drawStrip();
if (leads && asked.has("selftest")) selftest();
if (leads) window.__sskp.ready = true;
status.ready = "yes";
requestAnimationFrame(time => { before = time; loop(time); });
return seconds => { playing = false; seek(seconds / D.dt); };
}
(() => {
  const roots = EPISODES.map(() => {
    const root = document.createElement("section");
    root.className = "viewer";
    root.append(document.getElementById("viewer").content.cloneNode(true));
    document.body.append(root);
    return root;
  });
  const longest = EPISODES.reduce((most, D, i) => D.frames * D.dt > EPISODES[most].frames * EPISODES[most].dt ? i : most, 0);
  if (EPISODES.length > 1) {
    document.body.className = "many";
    // One set of controls for all of them, below.
    roots.forEach((root, i) => { if (i !== longest) root.querySelector(".v-controls").hidden = true; });
  }
  const followers = roots.map((root, i) => i === longest ? null : viewer(root, EPISODES[i], false, [])).filter(f => f);
  viewer(roots[longest], EPISODES[longest], true, followers);
  if (EPISODES.length > 1) document.body.append(roots[longest].querySelector(".v-controls"));
})();
