"use strict";
// Many rows: a CSV is dropped or chosen, and its answers are listed with their marks, and can be saved.

const MOST_ROWS = 200;

async function readFile(file) {
  try {
    const answer = await ask("predict", { method: "POST", headers: { "Content-Type": "text/csv" }, body: file });
    complain("");
    list(answer.rows, file.name);
  } catch (error) {
    complain(error.message);
    byId("problem").scrollIntoView({ block: "nearest" });
  }
}

function csvCell(value) {
  if (value === null || value === undefined) return "";
  // A spreadsheet would run a text that begins so as a formula, unless it is a number; after an apostrophe it does not.
  const runs = typeof value === "string" && /^[=+\-@\t\r\n]/.test(value) && !/^[+-]?\d+([.,]\d+)?(e[+-]?\d+)?$/i.test(value);
  const text = runs ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const short = (share) => percent(share).replace("more than", ">").replace("less than", "<");

// What a column of the table is called, and how it says a row.
function columnsOf(row) {
  const number = (name, infinite) => (one) =>
    Array.isArray(one[name]) ? one[name].map((x) => sayTarget(x, false)).join(", ")
    : one[name] === null ? infinite : sayTarget(rounded(one, one[name]), false);
  const unit = state.model.target?.unit ? `, ${state.model.target.unit}` : "";
  const columns = [[`${state.model.target?.name ?? "prediction"}${unit}`, number("prediction", "∞")]];
  if ("lower" in row) columns.push(["from", number("lower", "−∞")], ["to", number("upper", "∞")]);
  if (row.probabilities) columns.push(["probability", (one) => short(Math.max(...Object.values(one.probabilities)))]);
  return [...columns, ["familiarity", (one) => short(one.familiarity)]];
}

function list(rows, name) {
  const all = rows.map((row, i) => ({ ...row, row: i + 1 }));
  const novel = all.filter((row) => row.novel);
  const names = ["row", "prediction", "lower", "upper", "aleatoric", "epistemic", "familiarity", "novelty_p", "novel"].filter((n) => n in all[0]);
  const columns = columnsOf(all[0]);
  const heads = ["row", "mark", ...columns.map(([title]) => title)].map((title) => make("th", { scope: "col" }, title));
  const body = make("tbody", {});
  const count = make("span", {});
  const fill = (chosen) => {
    body.replaceChildren(...chosen.slice(0, MOST_ROWS).map((row) => make("tr", row.novel ? { class: "novel" } : {},
      make("th", { scope: "row" }, String(row.row)),
      make("td", { class: "mark-cell" }, make("span", { "aria-hidden": "true" }, row.novel ? "⚠ " : "✓ "), row.novel ? "unfamiliar" : "familiar"),
      ...columns.map(([, text]) => make("td", {}, text(row))))));
    count.textContent = chosen.length > MOST_ROWS ? ` Here are the first ${MOST_ROWS}.` : "";
  };
  const only = make("input", { type: "checkbox", id: "only" });
  only.addEventListener("change", () => fill(only.checked ? novel : all));
  fill(all);
  const text = [names, ...all.map((row) => names.map((n) => row[n]))].map((line) => line.map(csvCell).join(",")).join("\n");
  const link = make("a", { href: URL.createObjectURL(new Blob([text + "\n"], { type: "text/csv" })), download: "answers.csv" }, "Download all answers");
  byId("table").replaceChildren(
    make("p", { id: "count" }, `${name}: ${all.length} rows, ${novel.length} of them unfamiliar (${percent(novel.length / all.length)}). `, link, count),
    ...(novel.length ? [make("p", {}, only, " ", make("label", { for: "only" }, "Show only the unfamiliar rows"))] : []),
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "answers" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body)),
  );
}

function listenToFiles() {
  byId("file").addEventListener("change", (event) => { if (event.target.files[0]) readFile(event.target.files[0]); });
  // Anywhere on the page, so that a CSV dropped beside the field does not replace the page.
  addEventListener("dragover", (event) => { event.preventDefault(); byId("drop").classList.add("over"); });
  addEventListener("dragleave", () => byId("drop").classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    byId("drop").classList.remove("over");
    if (state.model && event.dataTransfer.files[0]) readFile(event.dataTransfer.files[0]);
  });
}
