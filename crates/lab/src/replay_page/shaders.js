const CAPSULES = 32;
const POSE = `
layout(location = 0) in vec3 point; layout(location = 1) in vec3 normal; layout(location = 2) in float end;
uniform mat4 project; uniform vec4 turn; uniform vec3 move, scale; uniform float half_length;
vec3 turned(vec3 v) { return v + 2.0 * cross(turn.yzw, cross(turn.yzw, v) + turn.x * v); }
vec3 world() { return turned(point * scale + vec3(0, 0, end * half_length)) + move; }`;
const SHADERS = {
  scene: [`#version 300 es
precision highp float;
${POSE}
out vec3 where, facing;
void main() { where = world(); facing = turned(normal / scale); gl_Position = project * vec4(where, 1); }`,
`#version 300 es
precision highp float;
precision highp sampler2DShadow;
in vec3 where, facing;
out vec4 pixel;
uniform int kind; // 0 robot, 1 ground, 2 the robot's mask
uniform vec3 colour, other, eye, sun, haze, sky, ground_light;
uniform float sun_strength, alarm, fade, texel, opacity;
uniform sampler2DShadow shadows;
uniform mat4 shadow_project;
uniform vec4 capsule_a[${CAPSULES}]; uniform vec3 capsule_b[${CAPSULES}]; uniform int capsules;
uniform vec3 centre; uniform float reach;

// Twelve taps on a spiral, turned differently at each pixel: soft edges without bands.
float lit(vec3 n) {
  vec4 s = shadow_project * vec4(where + n * texel * 1.5, 1);
  vec3 p = s.xyz * 0.5 + 0.5;
  vec2 from_edge = abs(p.xy - 0.5);
  float inside = 1.0 - smoothstep(0.42, 0.5, max(from_edge.x, from_edge.y));
  if (inside <= 0.0) return 1.0;
  float spin = 6.2832 * fract(52.9829189 * fract(dot(gl_FragCoord.xy, vec2(0.06711056, 0.00583715))));
  float sum = 0.0;
  for (int i = 0; i < 12; i++) {
    float r = sqrt((float(i) + 0.5) / 12.0) * 0.0055, a = float(i) * 2.39996 + spin;
    sum += texture(shadows, vec3(p.xy + r * vec2(cos(a), sin(a)), p.z - 0.0015));
  }
  return mix(1.0, sum / 12.0, inside);
}
// How much of the sky the robot hides from a point on the ground.
float open_sky(vec3 n) {
  float open = 1.0;
  for (int i = 0; i < ${CAPSULES}; i++) {
    if (i >= capsules) break;
    vec3 a = capsule_a[i].xyz, b = capsule_b[i] - a, p = where - a;
    float r = capsule_a[i].w;
    vec3 d = p - b * clamp(dot(p, b) / max(dot(b, b), 1e-6), 0.0, 1.0);
    float l = max(length(d), r);
    open *= 1.0 - 0.75 * clamp(dot(-d, n) * r * r / (l * l * l) + 0.12 * r * r / (l * l), 0.0, 1.0);
  }
  return open;
}
// A chequered ground that stays smooth however far away it is.
float tiles(vec2 p) {
  vec2 w = max(fwidth(p), 1e-4);
  vec2 i = 2.0 * (abs(fract((p - 0.5 * w) * 0.5) - 0.5) - abs(fract((p + 0.5 * w) * 0.5) - 0.5)) / w;
  return 0.5 - 0.5 * i.x * i.y;
}
vec3 film(vec3 x) { return clamp(x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14), 0.0, 1.0); }
void main() {
  if (kind == 2) { pixel = vec4(1); return; }
  vec3 n = normalize(facing), v = normalize(eye - where);
  vec3 base = colour;
  float sky_share = 0.5 + 0.5 * n.z, shine = 0.22, open = 1.0;
  if (kind == 1) {
    base = n.z > 0.5 ? mix(colour, other, tiles(where.xy / 0.5)) : colour * 0.6;
    shine = 0.03;
    if (distance(where.xy, centre.xy) < reach * 4.0) open = open_sky(n);
  } else {
    base = mix(base, vec3(0.75, 0.03, 0.02), alarm);
    // The ground is close: the underside sees less light.
    open = 0.72 + 0.28 * smoothstep(0.0, 0.5, where.z + 0.25 * (n.z + 1.0));
  }
  float direct = max(dot(n, sun), 0.0);
  if (direct > 0.0) direct *= lit(n);
  vec3 half_way = normalize(sun + v);
  vec3 light = base * (direct * sun_strength + open * mix(ground_light, sky, sky_share));
  light += direct * shine * pow(max(dot(n, half_way), 0.0), 48.0) * sun_strength;
  if (kind == 0) light += 0.35 * pow(1.0 - max(dot(n, v), 0.0), 4.0) * open * sky;
  float far = 1.0 - exp(-pow(distance(where.xy, eye.xy) / fade, 2.0));
  pixel = vec4(pow(film(mix(light, haze, far)), vec3(1.0 / 2.2)), opacity);
}`],
  shadow: [`#version 300 es
precision highp float;
${POSE}
void main() { gl_Position = project * vec4(world(), 1); }`,
`#version 300 es
precision highp float;
void main() {}`],
  sky: [`#version 300 es
precision highp float;
uniform mat3 view; uniform vec2 spread;
out vec3 ray;
void main() {
  vec2 p = vec2(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0);
  ray = view * vec3(p * spread, -1.0);
  gl_Position = vec4(p, 0, 1);
}`,
`#version 300 es
precision highp float;
in vec3 ray;
out vec4 pixel;
uniform vec3 haze, zenith, deep;
vec3 film(vec3 x) { return clamp(x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14), 0.0, 1.0); }
void main() {
  float z = normalize(ray).z;
  vec3 c = z > 0.0 ? mix(haze, zenith, pow(smoothstep(0.0, 0.5, z), 0.6)) : mix(haze, deep, pow(smoothstep(0.0, 0.8, -z), 0.5));
  pixel = vec4(pow(film(c), vec3(1.0 / 2.2)), 1);
}`],
};

