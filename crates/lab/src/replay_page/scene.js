const SHADOW = 2048;
const sun = V.unit([-0.42, -0.62, 1.0]);
let gl = null, programs = {}, shadowMap = null;
function say(text) { $("message").hidden = false; $("message").firstElementChild.textContent = text; }

function start() {
  gl = canvas.getContext("webgl2", { antialias: true, alpha: false, powerPreference: "high-performance" });
  if (!gl) {
    status.webgl = "missing";
    say("This browser does not offer WebGL2, so the robot cannot be drawn. The curves below and the controls still work; " +
      "a current Firefox, Chrome, Edge or Safari shows the rest.");
    return;
  }
  status.webgl = "ok";
  for (const name in SHADERS) {
    const program = gl.createProgram();
    SHADERS[name].forEach((text, i) => {
      const shader = gl.createShader(i ? gl.FRAGMENT_SHADER : gl.VERTEX_SHADER);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(name + ": " + gl.getShaderInfoLog(shader));
      gl.attachShader(program, shader);
    });
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(name + ": " + gl.getProgramInfoLog(program));
    const uniforms = {};
    for (let i = 0; i < gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS); i++) {
      const { name } = gl.getActiveUniform(program, i);
      uniforms[name.replace("[0]", "")] = gl.getUniformLocation(program, name);
    }
    programs[name] = { program, u: uniforms };
  }
  gl.bindVertexArray(gl.createVertexArray());
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(mesh.vertices), gl.STATIC_DRAW);
  gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, new Uint16Array(mesh.indices), gl.STATIC_DRAW);
  [[0, 3, 0], [1, 3, 12], [2, 1, 24]].forEach(([slot, size, offset]) => {
    gl.enableVertexAttribArray(slot);
    gl.vertexAttribPointer(slot, size, gl.FLOAT, false, 28, offset);
  });
  const texture = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, texture);
  gl.texStorage2D(gl.TEXTURE_2D, 1, gl.DEPTH_COMPONENT24, SHADOW, SHADOW);
  for (const [key, value] of [["MIN_FILTER", gl.LINEAR], ["MAG_FILTER", gl.LINEAR], ["WRAP_S", gl.CLAMP_TO_EDGE],
    ["WRAP_T", gl.CLAMP_TO_EDGE], ["COMPARE_MODE", gl.COMPARE_REF_TO_TEXTURE], ["COMPARE_FUNC", gl.LEQUAL]])
    gl.texParameteri(gl.TEXTURE_2D, gl["TEXTURE_" + key], value);
  const frame = gl.createFramebuffer();
  gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, texture, 0);
  gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  shadowMap = { texture, frame };
}

function put(g, u, p, q) {
  const [name, scale, half] = drawable(g), [first, count] = mesh.parts[name];
  gl.uniform4fv(u.turn, q || quaternion(g));
  gl.uniform3fv(u.move, p || position(g));
  gl.uniform3fv(u.scale, scale);
  gl.uniform1f(u.half_length, half);
  gl.drawElements(gl.TRIANGLES, count, gl.UNSIGNED_SHORT, 2 * first);
}

function draw(maskOnly) {
  if (!gl || gl.isContextLost()) return;
  const density = Math.min(2, devicePixelRatio || 1);
  const width = Math.max(1, Math.round(canvas.clientWidth * density)), height = Math.max(1, Math.round(canvas.clientHeight * density));
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  const look = theme(), centre = target(now), aspect = width / height;
  const distance = camera.zoom * fit(aspect);
  place(now);
  const eye = [
    centre[0] + distance * Math.cos(camera.lift) * Math.cos(camera.turn),
    centre[1] + distance * Math.cos(camera.lift) * Math.sin(camera.turn),
    centre[2] + distance * Math.sin(camera.lift),
  ];
  // Never below the ground: that view shows nothing.
  if (hasFloor) eye[2] = Math.max(eye[2], 0.06);
  const view = lookAt(eye, centre, [0, 0, 1]);
  const project = product(perspective(FOV, aspect, distance * 0.02, distance + 400), view);
  gl.enable(gl.DEPTH_TEST);
  gl.enable(gl.CULL_FACE);

  if (maskOnly) {
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const { program, u } = programs.scene;
    gl.useProgram(program);
    gl.uniformMatrix4fv(u.project, false, project);
    gl.uniform1i(u.kind, 2);
    for (const g of robot) put(g, u);
    return;
  }

  const half = radius * 2.2;
  const shadowProject = product(orthographic(half, half * 3), lookAt(centre.map((x, k) => x + sun[k]), centre, [1, 0, 0]));
  gl.bindFramebuffer(gl.FRAMEBUFFER, shadowMap.frame);
  gl.viewport(0, 0, SHADOW, SHADOW);
  gl.clear(gl.DEPTH_BUFFER_BIT);
  gl.useProgram(programs.shadow.program);
  gl.uniformMatrix4fv(programs.shadow.u.project, false, shadowProject);
  gl.enable(gl.POLYGON_OFFSET_FILL);
  gl.polygonOffset(2, 4);
  for (const g of robot) put(g, programs.shadow.u);
  gl.disable(gl.POLYGON_OFFSET_FILL);
  gl.bindFramebuffer(gl.FRAMEBUFFER, null);

  gl.viewport(0, 0, width, height);
  gl.clear(gl.DEPTH_BUFFER_BIT);
  gl.disable(gl.DEPTH_TEST);
  {
    const { program, u } = programs.sky, t = Math.tan(FOV / 2);
    gl.useProgram(program);
    // The view's rotation, transposed: from the camera's axes to the world's.
    gl.uniformMatrix3fv(u.view, false, [view[0], view[4], view[8], view[1], view[5], view[9], view[2], view[6], view[10]]);
    gl.uniform2f(u.spread, t * aspect, t);
    gl.uniform3fv(u.haze, look.rim);
    gl.uniform3fv(u.zenith, look.sky);
    gl.uniform3fv(u.deep, hasFloor ? look.rim : look.deep);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }
  gl.enable(gl.DEPTH_TEST);

  const { program, u } = programs.scene;
  gl.useProgram(program);
  gl.bindTexture(gl.TEXTURE_2D, shadowMap.texture);
  gl.uniform1i(u.shadows, 0);
  gl.uniformMatrix4fv(u.project, false, project);
  gl.uniformMatrix4fv(u.shadow_project, false, shadowProject);
  gl.uniform1f(u.texel, 2 * half / SHADOW);
  gl.uniform3fv(u.eye, eye);
  gl.uniform3fv(u.sun, sun);
  gl.uniform3fv(u.haze, look.rim);
  gl.uniform1f(u.sun_strength, 1.2 * look.light);
  gl.uniform3fv(u.sky, [0.35, 0.39, 0.45].map(x => x * look.fill));
  gl.uniform3fv(u.ground_light, [0.20, 0.18, 0.16].map(x => x * look.fill));
  gl.uniform1f(u.fade, distance + radius * 12);
  gl.uniform1f(u.alarm, now >= fallen ? 0.6 : 0.45 * Math.max(0, Math.min(1, 1 - nearness(now))));
  gl.uniform1f(u.opacity, 1);
  gl.uniform3fv(u.centre, centre);
  gl.uniform1f(u.reach, radius);
  const ends = robot.slice(0, CAPSULES).map(capsule);
  gl.uniform4fv(u.capsule_a, ends.flatMap(([a, , r]) => [...a, r]));
  gl.uniform3fv(u.capsule_b, ends.flatMap(([, b]) => b));
  gl.uniform1i(u.capsules, ends.length);

  gl.uniform1i(u.kind, 1);
  for (const g of geoms) {
    if (g.shape === "plane") {
      gl.uniform3fv(u.colour, look.tileA);
      gl.uniform3fv(u.other, look.tileB);
      gl.uniform4fv(u.turn, [1, 0, 0, 0]);
      // The ground is as large as one looks: it moves along, its tiles do not.
      gl.uniform3fv(u.move, [centre[0], centre[1], (g.fixed || [0, 0, 0])[2]]);
      gl.uniform3fv(u.scale, [distance + 300, distance + 300, 1]);
      gl.uniform1f(u.half_length, 0);
      const [first, count] = mesh.parts.plane;
      gl.drawElements(gl.TRIANGLES, count, gl.UNSIGNED_SHORT, 2 * first);
    } else if (g.fixed && moving.length) {
      gl.uniform3fv(u.colour, g.colour.map(x => x * (dark.matches ? 0.30 : 0.85)));
      gl.uniform3fv(u.other, g.colour.map(x => x * (dark.matches ? 0.42 : 1.08)));
      put(g, u);
    }
  }
  gl.uniform1i(u.kind, 0);
  for (const g of robot) {
    gl.uniform3fv(u.colour, g.colour);
    put(g, u);
  }
  const seen = ghosts.filter(ghost => now > ghost.from);
  if (!seen.length) return;
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  gl.depthMask(false);
  gl.uniform1f(u.alarm, 0);
  gl.uniform1f(u.opacity, 0.2);
  const p = [0, 0, 0], q = [1, 0, 0, 0];
  for (const ghost of seen) {
    gl.uniform3fv(u.colour, ghost.fell ? [0.75, 0.05, 0.03] : dark.matches ? [0.5, 0.62, 0.75] : [0.05, 0.20, 0.42]);
    for (const g of moving) { ghostPose(ghost, g.slot, now, p, q); put(g, u, p, q); }
  }
  gl.depthMask(true);
  gl.disable(gl.BLEND);
}

