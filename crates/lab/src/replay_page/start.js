"use strict";
window.onerror = message => { document.body.dataset.error = String(message); };
const EPISODES = JSON.parse(document.getElementById("data").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
// One episode in one part of the page. Where there are several, the longest leads and the others follow it in time.
function viewer(root, D, leads, followers) {
// The controls of several are no longer inside of the one that leads.
const $ = id => root.querySelector(".v-" + id) || document.querySelector("body > .v-controls .v-" + id);
const status = leads ? document.body.dataset : {};

