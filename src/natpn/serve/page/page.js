"use strict";
// The start, the questions, and the answer as a sentence and a mark. Texts of the model are only ever set as text.
// fields.js has the form, plot.js the distribution, rows.js the table of many rows.

const byId = (id) => document.getElementById(id);
const state = { model: null, token: null, asked: 0, timer: null, fields: [], answer: null };

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function say(number, thousands = true) {
  if (number === null || number === undefined) return "∞";
  if (typeof number !== "number") return String(number);
  if (number !== 0 && (Math.abs(number) >= 1e9 || Math.abs(number) < 1e-3)) return number.toExponential(2).replace("-", "−");
  const digits = { maximumSignificantDigits: Math.abs(number) >= 1e4 ? 5 : 4, useGrouping: thousands };
  return new Intl.NumberFormat("en", digits).format(number).replace("-", "−");
}

// A target, with its unit; infinite ends of intervals come as null.
function sayTarget(number, unit = true) {
  const text = say(number, state.model.thousands !== false);
  return unit && state.model.target?.unit && typeof number === "number" ? `${text}\u00a0${state.model.target.unit}` : text;
}

// The same with no more digits than mean something beside the width of the interval, which of counts may be 0.
function rounded(answer, number) {
  const width = answer.upper - answer.lower || 1;
  if (typeof number !== "number" || typeof answer.lower !== "number" || typeof answer.upper !== "number") return number;
  const step = 10 ** Math.floor(Math.log10(width / 50));
  return Number((Math.round(number / step) * step).toPrecision(12));
}

const sayPrediction = (answer) => sayTarget(rounded(answer, answer.prediction));
const sayLower = (answer) => (answer.lower === null ? "−∞" : sayTarget(rounded(answer, answer.lower)));
const sayUpper = (answer) => sayTarget(rounded(answer, answer.upper));
const percent = (share) => (share > 0 && share < 0.01 ? "less than 1\u00a0%" : share < 1 && share > 0.99 ? "more than 99\u00a0%" : `${Math.round(100 * share)}\u00a0%`);

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

async function predict() {
  const number = ++state.asked;
  try {
    const answer = await ask("predict?curve=true", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(readForm()),
    });
    if (number !== state.asked) return; // a later question is on its way
    complain("");
    show(answer);
  } catch (error) {
    if (number === state.asked) complain(error.message);
  }
}

// The answer.

function sentence(answer) {
  if (answer.probabilities) {
    const [[, sure], next] = Object.entries(answer.probabilities).sort((a, b) => b[1] - a[1]);
    return `Its probability is ${percent(sure)}; next is ${next[0]} with ${percent(next[1])}.`;
  }
  if (Array.isArray(answer.prediction)) return "";
  return `With a probability of ${percent(state.model.coverage)} it lies between ${sayLower(answer)} and ${sayUpper(answer)}.`;
}

// The sign and the words of the mark. Without enough held-out rows no row can be told to be unlike them.
function marked(answer, outside) {
  if (answer.novel) return ["⚠", "unfamiliar"];
  if (1 / (state.model.training.calibration_rows + 1) >= state.model.novel_below) return ["?", "too few rows to tell what is familiar"];
  if (answer.familiarity < 0.5) return ["≈", "little known"];
  return outside ? ["≈", "just beyond training"] : ["✓", "familiar"];
}

function show(answer) {
  const name = state.model.target?.name;
  const value = Array.isArray(answer.prediction) ? `(${answer.prediction.map((x) => sayTarget(x, false)).join(", ")})` : sayPrediction(answer);
  byId("value").replaceChildren(make("span", { class: "name" }, `${name || "Prediction"}:`), " ", make("strong", {}, value));
  byId("sentence").textContent = sentence(answer)
    + (answer.familiarity < 0.5 ? " This is mostly the prior speaking: the model knows next to nothing about such an input." : "");
  const [sign, words] = marked(answer, state.fields.some((field) => field.box.classList.contains("outside")));
  byId("mark").classList.toggle("novel", answer.novel);
  byId("mark").classList.toggle("unsure", sign === "≈" || sign === "?");
  byId("meter").classList.toggle("novel", answer.novel);
  byId("mark-sign").textContent = sign;
  byId("mark-text").textContent = words;
  const unusual = answer.novel ? answer.most_unusual : null;
  byId("look").hidden = unusual === null || unusual === undefined;
  byId("look").textContent = `look at ${unusual}`;
  byId("look").onclick = () => showField(unusual);
  byId("reason").textContent = answer.reason ? `Why: ${answer.reason}.` : "";
  byId("meter-fill").style.width = `${100 * answer.familiarity}%`;
  byId("meter").setAttribute("aria-valuenow", Math.round(100 * answer.familiarity));
  byId("meter-text").textContent =
    `The data have ${percent(answer.familiarity)} of the say, the prior the rest. Of rows like those of training, ` +
    `${percent(answer.novelty_p)} are as unfamiliar as this one; below ${percent(state.model.novel_below)} it is marked.`;
  state.answer = answer;
  plot(answer);
}

// The alarm about all rows that the server has answered, but for those of this page.

async function showDrift() {
  try {
    const drift = await ask("drift");
    byId("drift").hidden = !drift.raised;
    byId("drift").textContent = `⚠ Drift alarm: the ${say(drift.rows)} rows that this server was asked about have changed, or differ ` +
      `from those of training. Without a change, at most ${percent(drift.level)} of servers ever raise it. Check where the rows come from before you rely on answers.`;
  } catch {
    // the next question says what is wrong
  }
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
  const target = model.target?.name;
  const what = model.kind === "classes" ? `tells ${model.classes.length} classes apart` : "predicts numbers";
  const which = model.model?.name && model.model.version ? `Model ${model.model.name}, version ${model.model.version.slice(0, 8)}. ` : "";
  if (target) byId("title").textContent = `Predict ${target}`;
  document.title = target ? `${target} – natpn` : document.title;
  byId("about").textContent = `${which}It ${what}, learned from ${new Intl.NumberFormat("en").format(model.training.rows)} rows, and says how much it knows.`;
  if (model.features === null) {
    complain(`This model takes arrays of shape ${model.shape.join(" × ")}, such as images, for which there is no form. Send nested lists to /predict.`);
    return;
  }
  byId("main").hidden = false;
  makeForm(model.features);
  byId("header").textContent = model.features.map((f) => f.name).join(",");
  reset();
  showDrift();
}

addEventListener("DOMContentLoaded", () => {
  listenToForm();
  addEventListener("resize", () => { if (state.answer) plot(state.answer); });
  listenToFiles();
  byId("token-form").addEventListener("submit", (event) => { event.preventDefault(); state.token = byId("token").value; complain(""); start(); });
  setInterval(() => { if (state.model) showDrift(); }, 30000);
  start();
});
