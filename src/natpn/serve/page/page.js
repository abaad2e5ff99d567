"use strict";
// A form from the model's features; the answer as a sentence, a mark and a plot. Texts of the model are only ever set as text.

const byId = (id) => document.getElementById(id);
const state = { model: null, token: null, asked: 0, timer: null };

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function draw(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function say(number) {
  if (number === null || number === undefined) return "∞";
  if (typeof number !== "number") return String(number);
  if (number !== 0 && (Math.abs(number) >= 1e7 || Math.abs(number) < 1e-3)) return number.toExponential(2).replace("-", "−");
  return new Intl.NumberFormat("en", { maximumSignificantDigits: 4 }).format(number).replace("-", "−");
}

const percent = (share) => (share > 0 && share < 0.01 ? "below 1 %" : share < 1 && share > 0.99 ? "above 99 %" : `${Math.round(100 * share)} %`);

function complain(text) {
  byId("problem").textContent = text || "";
  byId("problem").hidden = !text;
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (state.token) headers.Authorization = `Bearer ${state.token}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  const body = await response.json();
  if (response.status === 401) byId("token-form").hidden = false;
  if (!response.ok) throw new Error(body.error);
  return body;
}

// The form.

function numberField(feature, id) {
  const { minimum, maximum, quantiles } = feature;
  const width = maximum - minimum || Math.abs(minimum) || 1;
  const [low, high] = [minimum - width, maximum + width];
  const step = feature.whole && width >= 1 ? 1 : 10 ** Math.floor(Math.log10(width / 200));
  const slider = make("input", { type: "range", min: low, max: high, step, "aria-label": `${feature.name}, slider`, tabindex: 0 });
  const box = make("input", { type: "number", id, step: "any" });
  const band = make("div", { class: "band" });
  band.style.left = `${(100 * (quantiles["5%"] - low)) / (high - low)}%`;
  band.style.width = `${Math.max((100 * (quantiles["95%"] - quantiles["5%"])) / (high - low), 1)}%`;
  slider.addEventListener("input", () => { box.value = Number(Number(slider.value).toPrecision(10)); });
  box.addEventListener("input", () => { if (box.value !== "") slider.value = box.value; });
  return {
    parts: [box, make("div", { class: "slider" }, slider, band), hint(`in training ${say(minimum)} to ${say(maximum)}`)],
    set: (value) => { box.value = Number(value.toPrecision(6)); slider.value = value; },
    get: () => (box.value === "" ? null : Number(box.value)),
    outside: (value) => value !== null && (value < minimum || value > maximum),
  };
}

function choiceField(id, choices, other) {
  const select = make("select", { id });
  for (const [text, value] of choices) select.append(make("option", { value: JSON.stringify(value) }, text));
  select.append(make("option", { value: "null" }, "not known"));
  const parts = [select];
  let text = null;
  if (other) {
    select.append(make("option", { value: "other" }, "another value …"));
    text = make("input", { type: "text", class: "other", "aria-label": "another value", hidden: "" });
    for (const kind of ["input", "change"]) select.addEventListener(kind, () => { text.hidden = select.value !== "other"; });
    parts.push(text);
  }
  return {
    parts,
    set: (value) => { select.value = JSON.stringify(value); if (text) text.hidden = true; },
    get: () => (select.value === "other" ? text.value : JSON.parse(select.value)),
    outside: () => select.value === "other",
  };
}

function dateField(feature, id) {
  const zone = feature.zone !== null;
  const days = !zone && [feature.earliest, feature.latest].every((text) => text.endsWith("T00:00:00"));
  const box = days ? make("input", { type: "date", id }) : make("input", { type: "datetime-local", id, step: 1 });
  const plain = (text) => (days ? text.slice(0, 10) : text.replace("Z", ""));
  return {
    parts: [box, hint(`in training ${plain(feature.earliest)} to ${plain(feature.latest)}${zone ? ", UTC" : ""}`)],
    set: (value) => { box.value = plain(value); },
    get: () => (box.value === "" ? null : box.value + (zone ? "Z" : "")),
    outside: (value) => value !== null && (plain(value) < plain(feature.earliest) || plain(value) > plain(feature.latest)),
  };
}

function textField(feature, id) {
  const box = make("input", { type: "text", id });
  const empty = feature.usual === null;
  return {
    parts: [box, hint(empty ? "training had no value here" : `for example ${feature.usual}`)],
    set: (value) => { box.value = value; },
    get: () => box.value || null,
    outside: (value) => empty && value !== null,
  };
}

const hint = (text) => make("p", { class: "small" }, text);

function makeField(feature, number) {
  const id = `field-${number}`;
  const field =
    feature.kind === "number" ? numberField(feature, id)
    : feature.kind === "category" ? choiceField(id, Object.keys(feature.levels).map((level) => [level, level]), true)
    : feature.kind === "boolean" ? choiceField(id, [["yes", true], ["no", false]], false)
    : feature.kind === "date" ? dateField(feature, id)
    : textField(feature, id);
  const box = make("div", { class: "field" }, make("label", { for: id }, feature.name), ...field.parts);
  byId("form").append(box);
  return { ...field, name: feature.name, box, usual: feature.usual };
}

function reset() {
  for (const field of state.fields) if (field.usual !== null) field.set(field.usual);
  predict();
}

async function predict() {
  const number = ++state.asked;
  const row = {};
  for (const field of state.fields) {
    const value = field.get();
    row[field.name] = value;
    field.box.classList.toggle("outside", field.outside(value));
  }
  try {
    const answer = await ask("predict?curve=true", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(row),
    });
    if (number !== state.asked) return; // a later question is on its way
    complain("");
    show(answer);
  } catch (error) {
    if (number === state.asked) complain(error.message);
  }
}

// The answer.

function show(answer) {
  const coverage = percent(state.model.coverage);
  let text;
  if (answer.probabilities) {
    text = `The most probable class is ${answer.prediction}, with a probability of ${percent(answer.probabilities[String(answer.prediction)] ?? Math.max(...Object.values(answer.probabilities)))}.`;
  } else if (Array.isArray(answer.prediction)) {
    text = `The prediction is (${answer.prediction.map(say).join(", ")}).`;
  } else {
    const low = answer.lower === null ? "−∞" : say(answer.lower);
    text = `The prediction is ${say(answer.prediction)}; with a probability of ${coverage} the value lies between ${low} and ${say(answer.upper)}.`;
  }
  if (answer.familiarity < 0.5) text += " This is mostly the prior speaking: the model knows next to nothing about such an input.";
  byId("sentence").textContent = text;
  byId("mark").classList.toggle("novel", answer.novel);
  byId("meter").classList.toggle("novel", answer.novel);
  const outside = document.querySelector(".field.outside") !== null;
  byId("mark-sign").textContent = answer.novel ? "⚠" : outside ? "≈" : "✓";
  byId("mark-text").textContent = answer.novel
    ? "unfamiliar" + (answer.most_unusual === null ? "" : `: look at ${answer.most_unusual}`)
    : outside ? "just beyond training" : "familiar";
  byId("meter-fill").style.width = `${100 * answer.familiarity}%`;
  byId("meter").setAttribute("aria-valuenow", Math.round(100 * answer.familiarity));
  byId("meter-text").textContent =
    `The data have ${percent(answer.familiarity)} of the say, the prior the rest. ` +
    `Of held-out training rows ${percent(answer.novelty_p)} were as unfamiliar.`;
  plot(answer);
}

const WIDTH = 480, HEIGHT = 240, LEFT = 10, RIGHT = 10, TOP = 10, BOTTOM = 26;

function plot(answer) {
  const curve = answer.curve;
  byId("plot").replaceChildren();
  byId("legend").replaceChildren();
  if (!curve) {
    byId("legend").textContent = "Vectors have no plot.";
    return;
  }
  byId("plot").append(curve.kind === "classes" ? bars(curve) : lines(curve, answer));
  const items = [["key", "what the model predicts"], ["key prior", "the prior: what it would say of anything"]];
  if (curve.usual) items.push(["key usual", "the usual range of training targets"]);
  for (const [style, text] of items) byId("legend").append(make("span", { class: "item" }, make("span", { class: style }), text), " ");
}

function frame(label, height = HEIGHT) {
  return draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label });
}

function bars(curve) {
  const order = curve.x.map((_, place) => place).sort((a, b) => curve.y[b] - curve.y[a]).slice(0, 12);
  const kept = order.sort((a, b) => a - b);
  const svg = frame(`Probabilities: ${kept.map((k) => `${curve.x[k]} ${percent(curve.y[k])}`).join(", ")}`, 34 * kept.length + 10);
  const name = 130, room = WIDTH - name - 80;
  kept.forEach((k, i) => {
    const y = 34 * i + 8;
    const label = curve.x[k].length > 18 ? `${curve.x[k].slice(0, 17)}…` : curve.x[k];
    svg.append(draw("text", { x: name - 8, y: y + 16, "text-anchor": "end" }, label));
    svg.append(draw("rect", { class: "bar", x: name, y, width: Math.max(room * curve.y[k], 1), height: 22, rx: 3 }));
    const at = name + room * curve.prior[k];
    svg.append(draw("path", { class: "prior", d: `M${at} ${y - 4}V${y + 26}` }));
    svg.append(draw("text", { x: name + room * Math.max(curve.y[k], curve.prior[k]) + 8, y: y + 16 }, percent(curve.y[k])));
  });
  return svg;
}

function lines(curve, answer) {
  const svg = frame(`The predictive distribution around ${say(answer.prediction)}, and the prior`);
  const { x, y, prior } = curve;
  const [low, high] = [x[0], x[x.length - 1]];
  const top = Math.max(...y, ...prior) || 1;
  const across = (v) => LEFT + ((WIDTH - LEFT - RIGHT) * (v - low)) / (high - low || 1);
  const up = (v) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * v) / top;
  const path = (heights) => x.map((v, i) => `${i ? "L" : "M"}${across(v).toFixed(2)} ${up(heights[i]).toFixed(2)}`).join("");
  if (curve.usual) {
    const [from, to] = curve.usual.map((v) => across(Math.min(Math.max(v, low), high)));
    svg.append(draw("rect", { class: "usual", x: from, y: TOP, width: to - from, height: HEIGHT - TOP - BOTTOM }));
  }
  svg.append(draw("path", { class: "axis", d: `M${LEFT} ${HEIGHT - BOTTOM}H${WIDTH - RIGHT}` }));
  if (curve.kind === "density") {
    svg.append(draw("path", { class: "area", d: `${path(y)}L${across(high)} ${up(0)}L${across(low)} ${up(0)}Z` }));
    svg.append(draw("path", { class: "data", d: path(y) }));
  } else {
    x.forEach((v, i) => {
      svg.append(draw("path", { class: "data", d: `M${across(v)} ${up(0)}V${up(y[i])}` }));
      svg.append(draw("circle", { class: "point", cx: across(v), cy: up(y[i]), r: 3 }));
    });
  }
  svg.append(draw("path", { class: "prior", d: path(prior) }));
  for (const tick of ticks(low, high)) {
    svg.append(draw("path", { class: "axis", d: `M${across(tick)} ${HEIGHT - BOTTOM}v5` }));
    svg.append(draw("text", { x: across(tick), y: HEIGHT - 7, "text-anchor": "middle" }, say(tick)));
  }
  return svg;
}

function ticks(low, high) {
  const rough = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough) || rough;
  const found = [];
  const margin = (high - low) * 0.04;
  for (let k = Math.ceil((low + margin) / step); k * step <= high - margin; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

// Many rows.

async function readFile(file) {
  try {
    const answer = await ask("predict", { method: "POST", headers: { "Content-Type": "text/csv" }, body: file });
    complain("");
    list(answer.rows);
  } catch (error) {
    complain(error.message);
  }
}

function csvCell(value) {
  if (value === null) return "";
  // A spreadsheet would run a text that begins so as a formula, unless it is a number; after an apostrophe it does not.
  const runs = typeof value === "string" && /^[=+\-@\t\r\n]/.test(value) && !/^[+-]?\d+([.,]\d+)?(e[+-]?\d+)?$/i.test(value);
  const text = runs ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function list(rows) {
  const novel = rows.filter((row) => row.novel).length;
  const names = ["prediction", "lower", "upper", "aleatoric", "epistemic", "familiarity", "novelty_p", "novel"].filter((n) => n in rows[0]);
  const shown = ["prediction", ...("lower" in rows[0] ? ["lower", "upper"] : []), "familiarity"];
  const head = make("tr", {}, make("th", { scope: "col" }, "row"), ...shown.map((n) => make("th", { scope: "col" }, n)), make("th", { scope: "col" }, "mark"));
  const body = rows.slice(0, 200).map((row, i) => make("tr", {}, make("td", {}, String(i)),
    ...shown.map((n) => make("td", {}, n === "familiarity" ? percent(row[n]) : Array.isArray(row[n]) ? row[n].map(say).join(", ") : n === "lower" && row[n] === null ? "−∞" : say(row[n]))),
    make("td", { class: row.novel ? "novel" : "" }, row.novel ? "⚠ unfamiliar" : "✓ familiar")));
  const text = [names, ...rows.map((row) => names.map((n) => row[n]))].map((line) => line.map(csvCell).join(",")).join("\n");
  const link = make("a", { href: URL.createObjectURL(new Blob([text + "\n"], { type: "text/csv" })), download: "answers.csv" }, "Download all answers");
  byId("table").replaceChildren(
    make("p", { id: "count" }, `${rows.length} rows, ${novel} of them unfamiliar (${percent(novel / rows.length)}). `, link,
      rows.length > 200 ? " Here are the first 200." : ""),
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "answers" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body))),
  );
}

// The start.

async function start() {
  try {
    state.model = await ask("model");
  } catch (error) {
    complain(byId("token-form").hidden ? error.message : "");
    return;
  }
  byId("token-form").hidden = true;
  const { model } = state;
  const what = model.kind === "classes" ? `tells ${model.classes.length} classes apart` : "predicts numbers";
  byId("about").textContent = `The model ${what}, learned from ${new Intl.NumberFormat("en").format(model.training.rows)} rows, and says how much it knows.`;
  if (model.features === null) {
    complain(`This model takes arrays of shape ${model.shape.join(" × ")}, such as images, for which there is no form. Send nested lists to /predict.`);
    return;
  }
  byId("main").hidden = false;
  byId("form").replaceChildren();
  state.fields = model.features.map(makeField);
  byId("header").textContent = `Its header: ${model.features.map((f) => f.name).join(",")}`;
  reset();
}

addEventListener("DOMContentLoaded", () => {
  for (const kind of ["input", "change"]) {
    byId("form").addEventListener(kind, () => { clearTimeout(state.timer); state.timer = setTimeout(predict, 30); });
  }
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); predict(); });
  byId("reset").addEventListener("click", reset);
  byId("token-form").addEventListener("submit", (event) => { event.preventDefault(); state.token = byId("token").value; complain(""); start(); });
  byId("file").addEventListener("change", (event) => { if (event.target.files[0]) readFile(event.target.files[0]); });
  // Anywhere on the page, so that a CSV dropped beside the field does not replace the page.
  addEventListener("dragover", (event) => { event.preventDefault(); byId("drop").classList.add("over"); });
  addEventListener("dragleave", () => byId("drop").classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    byId("drop").classList.remove("over");
    if (state.model && event.dataTransfer.files[0]) readFile(event.dataTransfer.files[0]);
  });
  start();
});
