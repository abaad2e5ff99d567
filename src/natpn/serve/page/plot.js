"use strict";
// The predictive distribution beside the prior: its 90 % interval, and where most targets of training were.

const HEIGHT = 250, LEFT = 10, RIGHT = 10, TOP = 26, BOTTOM = 44;
let WIDTH = 480; // as wide as it is shown, so that texts keep their size on a telephone
const MOST_BARS = 12;

function draw(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function plot(answer) {
  const curve = answer.curve;
  WIDTH = Math.min(Math.max(byId("plot").clientWidth, 260), 560);
  byId("plot").replaceChildren();
  byId("legend").replaceChildren();
  if (!curve) {
    byId("legend").textContent = "Vectors have no plot.";
    return;
  }
  const classes = curve.kind === "classes";
  byId("plot").append(classes ? bars(curve) : lines(curve, answer));
  const items = [["key", "what the model predicts"]];
  if (!classes) items.push(["key interval", `its ${percent(state.model.coverage)} interval`]);
  items.push(["key prior", "the prior: what it would say of anything"]);
  if (curve.usual) items.push(["key usual", "where nine of ten training targets were"]);
  for (const [style, text] of items) byId("legend").append(make("span", { class: "item" }, make("span", { class: style }), text), " ");
}

function frame(label, height = HEIGHT) {
  return draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label });
}

// One bar for each class in their order; of many classes the most probable ones, and the rest together.
function bars(curve) {
  const { x, y, prior } = curve;
  let kept = x.map((name, k) => [name, y[k], prior[k]]);
  if (kept.length > MOST_BARS) {
    kept.sort((a, b) => b[1] - a[1]);
    const rest = kept.splice(MOST_BARS - 1);
    kept.push([`${rest.length} others`, ...[1, 2].map((place) => rest.reduce((sum, one) => sum + one[place], 0))]);
  }
  const svg = frame(`Probabilities: ${kept.map(([label, p]) => `${label} ${percent(p)}`).join(", ")}`, 34 * kept.length + 10);
  const name = Math.min(130, WIDTH / 3), room = WIDTH - name - 100;
  kept.forEach(([label, p, before], i) => {
    const top = 34 * i + 8;
    svg.append(draw("text", { x: name - 8, y: top + 16, "text-anchor": "end" }, label.length > 18 ? `${label.slice(0, 17)}…` : label));
    svg.append(draw("rect", { class: "bar", x: name, y: top, width: Math.max(room * p, 1), height: 22, rx: 3 }));
    const at = name + room * before;
    svg.append(draw("path", { class: "prior", d: `M${at} ${top - 4}V${top + 26}` }));
    svg.append(draw("text", { x: name + room * Math.max(p, before) + 8, y: top + 16 }, percent(p)));
  });
  return svg;
}

function lines(curve, answer) {
  const { x, y, prior } = curve;
  const [low, high] = [x[0], x[x.length - 1]];
  const top = Math.max(...y, ...prior) || 1;
  const floor = HEIGHT - BOTTOM;
  const across = (v) => LEFT + ((WIDTH - LEFT - RIGHT) * (Math.min(Math.max(v, low), high) - low)) / (high - low || 1);
  const up = (v) => floor - ((floor - TOP) * v) / top;
  const path = (heights) => x.map((v, i) => `${i ? "L" : "M"}${across(v).toFixed(2)} ${up(heights[i]).toFixed(2)}`).join("");
  const ends = [answer.lower ?? low, answer.upper ?? high];
  const svg = frame(`The predictive distribution around ${sayPrediction(answer)}, its interval from ${sayLower(answer)} to ${sayUpper(answer)}, and the prior`);
  const [from, to] = ends.map(across);
  svg.append(draw("rect", { class: "interval", x: from, y: TOP, width: Math.max(to - from, 1), height: floor - TOP }));
  if (curve.kind === "density") {
    svg.append(draw("path", { class: "area", d: `${path(y)}L${across(high)} ${floor}L${across(low)} ${floor}Z` }));
    svg.append(draw("path", { class: "data", d: path(y) }));
  } else {
    const size = Math.min(3, Math.max(1, 150 / x.length));
    x.forEach((v, i) => {
      svg.append(draw("path", { class: "data", d: `M${across(v)} ${floor}V${up(y[i])}` }));
      svg.append(draw("circle", { class: "point", cx: across(v), cy: up(y[i]), r: size }));
    });
  }
  svg.append(draw("path", { class: "prior", d: path(prior) }));
  svg.append(draw("path", { class: "ends", d: `M${from} ${TOP - 6}V${floor}M${to} ${TOP - 6}V${floor}` }));
  // The ends of the interval are written beside it where there is room, and never over each other.
  const [lower, upper] = [sayLower(answer), sayUpper(answer)].map((text) => ({ text, width: 7.5 * text.length }));
  lower.at = Math.max(from - 4 - lower.width, 2);
  upper.at = Math.min(Math.max(to + 4, lower.at + lower.width + 10), WIDTH - upper.width - 2);
  lower.at = Math.min(lower.at, upper.at - lower.width - 10);
  for (const { text, at } of [lower, upper]) svg.append(draw("text", { class: "end", x: at, y: 15 }, text));
  svg.append(draw("path", { class: "axis", d: `M${LEFT} ${floor}H${WIDTH - RIGHT}` }));
  if (curve.usual) {
    const [start, end] = curve.usual.map(across);
    svg.append(draw("rect", { class: "usual", x: start, y: floor + 1, width: Math.max(end - start, 2), height: 6, rx: 2 }));
  }
  for (const tick of ticks(low, high)) {
    svg.append(draw("path", { class: "axis", d: `M${across(tick)} ${floor}v5` }));
    svg.append(draw("text", { x: across(tick), y: floor + 21, "text-anchor": "middle" }, sayTarget(tick, false)));
  }
  const { name, unit } = state.model.target ?? {};
  if (name) svg.append(draw("text", { x: WIDTH / 2, y: HEIGHT - 6, "text-anchor": "middle" }, unit ? `${name}, ${unit}` : name));
  return svg;
}

function ticks(low, high) {
  const rough = ((high - low) * 95) / WIDTH || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough) || rough;
  const found = [];
  const margin = (high - low) * 0.04;
  for (let k = Math.ceil((low + margin) / step); k * step <= high - margin; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}
