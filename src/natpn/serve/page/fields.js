"use strict";
// The form: a field for each feature, a search among them, and sliders that stay near the data unless they are let go.

const hint = (text) => make("p", { class: "small" }, text);

// From where to where a slider goes, in round steps: 5 % to 95 % of training and as much again on both sides, if training had it; or far.
function reach(feature, far, value) {
  const { minimum, maximum, quantiles } = feature;
  const width = maximum - minimum || Math.abs(minimum) || 1;
  const most = quantiles["95%"] - quantiles["5%"] || width;
  const near = [Math.max(minimum, quantiles["5%"] - most), Math.min(maximum, quantiles["95%"] + most)];
  const [low, high] = far || minimum === maximum ? [minimum - 2 * width, maximum + 2 * width] : near;
  const step = feature.whole && high - low >= 1 ? 1 : 10 ** Math.floor(Math.log10((high - low) / 200));
  const [least, greatest] = [Math.ceil(low / step) * step, Math.floor(high / step) * step];
  return { step, low: Math.min(least, value ?? least), high: Math.max(greatest, value ?? greatest) };
}

function trained(feature) {
  const { minimum, maximum, quantiles, thousands } = feature;
  if (minimum === maximum) return `in training always ${say(minimum, thousands)}`;
  const [low, high] = [quantiles["5%"], quantiles["95%"]];
  const all = `${say(minimum, thousands)} to ${say(maximum, thousands)}`;
  if (low === high) return `in training mostly ${say(low, thousands)}, ${all}`;
  return low === minimum && high === maximum ? `in training ${all}` : `in training mostly ${say(low, thousands)} to ${say(high, thousands)}, all ${all}`;
}

function numberField(feature, id) {
  const { minimum, maximum, quantiles } = feature;
  const slider = make("input", { type: "range", "aria-label": `${feature.name}, slider` });
  const box = make("input", { type: "number", id, step: "any" });
  const band = make("div", { class: "band" });
  const get = () => (box.value === "" ? null : Number(box.value));
  const stretch = (far) => {
    const { step, low, high } = reach(feature, far, get());
    slider.step = step;
    slider.min = low;
    slider.max = high;
    slider.value = get() ?? feature.usual ?? quantiles["50%"];
    band.style.left = `${(100 * (quantiles["5%"] - low)) / (high - low)}%`;
    band.style.width = `${Math.max((100 * (quantiles["95%"] - quantiles["5%"])) / (high - low), 1)}%`;
  };
  slider.addEventListener("input", () => { box.value = Number(Number(slider.value).toPrecision(10)); });
  box.addEventListener("input", () => { if (box.value !== "") stretch(byId("far").checked); });
  return {
    parts: [box, make("div", { class: "slider" }, band, slider), hint(trained(feature))],
    set: (value) => { box.value = value === null ? "" : Number(value.toPrecision(10)); stretch(byId("far").checked); },
    get,
    stretch,
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
    set: (value) => {
      select.value = JSON.stringify(value);
      if (!text) return;
      const rare = select.selectedIndex < 0; // training had it, but too rarely for the list
      if (rare) [select.value, text.value] = ["other", value];
      text.hidden = !rare;
      text.defaultValue = rare ? value : "";
    },
    get: () => (select.value === "other" ? text.value : JSON.parse(select.value)),
    outside: () => select.value === "other" && text.value !== text.defaultValue,
  };
}

function dateField(feature, id) {
  const zone = feature.zone !== null;
  const days = !zone && [feature.earliest, feature.latest].every((text) => text.endsWith("T00:00:00"));
  const box = days ? make("input", { type: "date", id }) : make("input", { type: "datetime-local", id, step: 1 });
  const plain = (text) => (days ? text.slice(0, 10) : text.replace("Z", ""));
  return {
    parts: [box, hint(`in training ${plain(feature.earliest)} to ${plain(feature.latest)}${zone ? ", UTC" : ""}`)],
    set: (value) => { box.value = value === null ? "" : plain(value); },
    get: () => (box.value === "" ? null : box.value + (zone ? "Z" : "")),
    outside: (value) => value !== null && (plain(value) < plain(feature.earliest) || plain(value) > plain(feature.latest)),
  };
}

function textField(feature, id) {
  const box = make("input", { type: "text", id });
  const empty = feature.usual === null;
  return {
    parts: [box, hint(empty ? "training had no value here" : `for example ${feature.usual}`)],
    set: (value) => { box.value = value ?? ""; },
    get: () => box.value || null,
    outside: (value) => empty && value !== null,
  };
}

function makeField(feature, number) {
  const id = `field-${number}`;
  const field =
    feature.kind === "number" ? numberField(feature, id)
    : feature.kind === "category" ? choiceField(id, Object.keys(feature.levels).map((level) => [level, level]), true)
    : feature.kind === "boolean" ? choiceField(id, [["yes", true], ["no", false]], false)
    : feature.kind === "date" ? dateField(feature, id)
    : textField(feature, id);
  const box = make("div", { class: "field" }, make("label", { for: id }, feature.name), ...field.parts);
  return { stretch: () => {}, ...field, id, name: feature.name, box, usual: feature.usual };
}

function makeForm(features) {
  state.fields = features.map(makeField);
  byId("form").replaceChildren(...state.fields.map((field) => field.box));
  byId("begins").textContent =
    (state.model.example ? "It begins with an ordinary row of training. " : "It begins with a usual value of each column. ") +
    "The answer follows as you change a value; leave a field empty if its value is not known.";
  byId("search-box").hidden = features.length <= 12;
  byId("reach").hidden = !features.some((feature) => feature.kind === "number");
  find();
}

// Show only the fields whose names have all words that were typed.
function find() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = state.fields.filter((field) => words.every((word) => field.name.toLowerCase().includes(word)));
  for (const field of state.fields) field.box.hidden = true;
  for (const field of shown) field.box.hidden = false;
  byId("found").textContent = words.length ? `${shown.length} of ${state.fields.length} fields` : `${state.fields.length} fields`;
}

function showField(name) {
  byId("search").value = "";
  find();
  const field = state.fields.find((one) => one.name === name);
  if (!field) return;
  field.box.scrollIntoView({ block: "center" });
  byId(field.id).focus({ preventScroll: true });
}

function readForm() {
  const row = {};
  for (const field of state.fields) {
    const value = field.get();
    row[field.name] = value;
    field.box.classList.toggle("outside", field.outside(value));
  }
  return row;
}

function reset() {
  for (const field of state.fields) field.set(field.usual);
  predict();
}

function listenToForm() {
  for (const kind of ["input", "change"]) {
    byId("form").addEventListener(kind, () => { clearTimeout(state.timer); state.timer = setTimeout(predict, 30); });
  }
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); predict(); });
  byId("search").addEventListener("input", find);
  byId("far").addEventListener("change", () => { for (const field of state.fields) field.stretch(byId("far").checked); });
  byId("reset").addEventListener("click", reset);
}
