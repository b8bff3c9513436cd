import {
  byId, contributions, drawing, explain, make, number, readCsv, say, send, table,
} from "/common.js";
import { showGrid } from "/grid.js";
import { profile } from "/profile.js";
import { viewsOf } from "/targets.js";

const SHOWN = 100; // rows that are shown at a time

let models = [];
let limits = {};
let result = null; // the last predictions: rows, columns, model
let shown = SHOWN;

function chosenModel() {
  return models.find((each) => each.name === byId("model").value);
}

function describeModel() {
  const model = chosenModel();
  if (!model) return;
  for (const option of byId("level").options) {
    option.disabled = option.value !== "" && !model.levels.includes(Number(option.value));
  }
  if (byId("level").selectedOptions[0].disabled) {
    byId("level").value = String(model.levels.at(-1) ?? "");
  }
  byId("domain").disabled = !model.domain;
  const names = model.targets.map((each) => each.name).join(", ");
  const categories = new Set(Object.values(model.end_points).map((each) => each.category));
  const parts = [categories.size
    ? `Predicts ${model.targets.length} properties: ${[...categories].join(", ")}.`
    : `Predicts ${names}.`];
  if (model.feature_columns.length) {
    parts.push(`Needs a table with the columns ${model.feature_columns.join(", ")}.`);
  }
  if (!model.levels.length) parts.push("This model has no intervals.");
  if (!model.domain) parts.push("This model does not have its training molecules.");
  byId("about").textContent = parts.join(" ");
}

/** Name a pasted text as a file: a table if its first line has separators and names SMILES. */
function nameOf(text) {
  const first = text.trimStart().split("\n", 1)[0];
  if (!/smiles/i.test(first)) return "pasted.smi";
  return first.includes("\t") ? "pasted.tsv" : "pasted.csv";
}

async function predict(event) {
  event.preventDefault();
  const model = chosenModel();
  const file = byId("file").files[0];
  const text = byId("smiles").value;
  if (!model) return;
  if (!file && !text.trim()) {
    say("Write at least one SMILES, or choose a file.", true);
    byId("smiles").focus();
    return;
  }
  const query = new URLSearchParams({ name: file ? file.name : nameOf(text), model: model.name });
  if (byId("level").value) query.set("level", byId("level").value);
  if (model.domain && byId("domain").checked) query.set("domain", "true");
  if (model.reference) query.set("reference", "true");
  byId("predict").disabled = true;
  say("Predicting …");
  try {
    const response = await send(`/api/table?${query}`, { method: "POST", body: file || text });
    const csv = await response.text();
    const [columns, ...rows] = readCsv(csv);
    const added = columns.indexOf(`${model.targets[0].name}_pred`); // the first column of predictions
    const smiles = columns.indexOf(decodeURIComponent(response.headers.get("x-smiles-column")));
    result = {
      model, columns, rows, order: null, added, smiles,
      name: columns.findIndex((each, i) => i !== smiles && /^(name|id|title|compound.*)$/i.test(each)
        && i < added),
      error: columns.lastIndexOf("error"),
      level: Number(byId("level").value),
    };
    shown = SHOWN;
    const notes = decodeURIComponent(response.headers.get("x-notes")).split("\n").filter(Boolean);
    byId("notes").replaceChildren(...notes.map((each) => make("li", {}, each)));
    if (byId("download").href) URL.revokeObjectURL(byId("download").href);
    byId("download").href = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
    byId("results").hidden = false;
    showResult();
    const failed = Number(response.headers.get("x-failed"));
    const count = rows.length === 1 ? "1 molecule" : `${rows.length.toLocaleString("en")} molecules`;
    say(`${count}${failed ? `; ${failed.toLocaleString("en")} without a prediction` : ""}.`);
    byId("results-title").focus();
  } catch (error) {
    say(error.message, true);
  } finally {
    byId("predict").disabled = false;
  }
}

/** Show the predictions: of a model with a card as a profile or a grid, of others as a table. */
function showResult() {
  const { model, rows, error } = result;
  const hasCard = Object.keys(model.end_points).length > 0;
  byId("plain").hidden = hasCard;
  byId("profile").hidden = !hasCard;
  document.body.classList.remove("wide");
  if (!hasCard) show();
  else if (rows.length > 1 || rows[0]?.[error]) showGrid(byId("profile"), result, viewsOf(result));
  else byId("profile").replaceChildren(profile(result, viewsOf(result), rows[0]));
}

/** The columns of the table on the page: a title, the column it is sorted by, and its cell. */
function views() {
  const { columns, model, added, name, error } = result;
  const at = (name) => columns.indexOf(name, added);
  const found = [];
  if (name >= 0) found.push({ title: columns[name], by: name, cell: (row) => [row[name]] });
  for (const target of model.targets) {
    const own = at(`${target.name}_pred`);
    const [low, high] = [at(`${target.name}_low`), at(`${target.name}_high`)];
    const [set, calibrated] = [at(`${target.name}_set`), at(`${target.name}_calibrated`)];
    const expected = at(`${target.learned_name}_expected_error`);
    const positive = target.classes.length ? ` = ${target.classes[1]}` : "";
    found.push({
      title: target.kind === "binary" ? `probability of ${target.name}${positive}` : target.name,
      by: own, number: true,
      cell: (row) => [
        target.kind === "multiclass" ? row[own] : number(row[own]), // a class may be 1234
        low >= 0 && row[low] !== "" ? range(`${number(row[low])} to ${number(row[high])}`) : null,
        calibrated >= 0 && row[calibrated] !== ""
          ? range(`calibrated ${number(row[calibrated])}; possible: ${row[set] || "none"}`) : null,
        expected >= 0 && row[expected] !== ""
          ? range(`expected error ${number(row[expected])}`) : null,
      ],
    });
  }
  const [similarity, inside] = [at("similarity"), at("in_domain")];
  if (similarity >= 0) {
    found.push({
      title: "similarity to training", by: similarity, number: true,
      cell: (row) => row[similarity] === "" ? [""] : [
        number(row[similarity]),
        make("span", { class: `range ${row[inside] === "yes" ? "in" : "out"}` },
          row[inside] === "yes" ? "errors are known" : "unlike all validation molecules"),
      ],
    });
  }
  return { found, error };
}

const range = (text) => make("span", { class: "range" }, text);

function show() {
  const { found, error } = views();
  const { rows, columns, model, smiles, order } = result;
  const molecules = [...new Set([
    smiles, ...model.molecule_columns.map((name) => columns.indexOf(name))])];
  byId("head").replaceChildren(make("th", { scope: "col" }, "molecule"), ...found.map((view) =>
    make("th", { scope: "col", "aria-sort": order?.by === view.by ? order.way : "none" },
      make("button", { type: "button", onclick: () => sort(view) }, view.title))));
  const lines = rows.slice(0, shown).map((row) => {
    const label = `Details of ${row[smiles]}`;
    const present = molecules.filter((at) => row[at]);
    const pictures = row[error] ? null : make("button",
      { type: "button", class: "picture", "aria-label": label, onclick: () => open(row) },
      ...present.map((at) => make("img", { src: drawing(row[at]), alt: "", loading: "lazy" })));
    const first = make("td", {}, pictures,
      ...present.map((at) => make("span", { class: "smiles" }, row[at])));
    if (row[error]) {
      return make("tr", {}, first, make("td", { colspan: Math.max(found.length, 1) },
        make("span", { class: "error" }, row[error])));
    }
    return make("tr", {}, first, ...found.map((view) =>
      make("td", { class: view.number ? "number" : null }, ...view.cell(row))));
  });
  byId("body").replaceChildren(...lines);
  byId("more").hidden = rows.length <= shown;
}

/** Sort by a column; rows without a prediction come last. */
function sort(view) {
  const { order, error } = result;
  const way = order?.by === view.by && order.way === "descending" ? "ascending" : "descending";
  const sign = way === "ascending" ? 1 : -1;
  const key = (row) => (view.number && !Number.isNaN(Number(row[view.by]))
    ? Number(row[view.by]) : row[view.by]);
  result.rows.sort((a, b) => {
    if (Boolean(a[error]) !== Boolean(b[error])) return a[error] ? 1 : -1;
    const [x, y] = [key(a), key(b)];
    return x === y ? 0 : sign * (x < y ? -1 : 1);
  });
  result.order = { by: view.by, way };
  show();
  const headers = [...byId("head").querySelectorAll("button")];
  headers.find((each) => each.textContent === view.title)?.focus();
  say(`Sorted by ${view.title}, ${way}.`);
}

/** Show a molecule with its predictions, its nearest training molecule and its explanation. */
async function open(row) {
  const { columns, model, added, smiles } = result;
  const body = byId("detail-body");
  const facts = columns.map((name, i) => [name, row[i]]).filter(([, cell]) => cell !== "");
  const near = row[columns.indexOf("nearest_smiles", added)];
  // where the nearest molecule lacks a label, <target>_nearest is that of another one
  const measured = model.targets.map((each) => `${each.name}_nearest`).filter(
    (name) => (row[columns.indexOf(`${name}_smiles`, added)] ?? near) === near);
  const ofNear = ["similarity", ...measured];
  const waiting = make("p", { role: "status" }, "Computing the contributions of the atoms …");
  const explained = make("div", {}, waiting);
  body.replaceChildren(
    make("p", {}, make("code", {}, row[smiles])),
    explained,
    ...(near ? [
      make("h3", {}, "Nearest training molecule"),
      make("div", { class: "pair" },
        make("img", { src: drawing(near), alt: `structure of ${near}`, width: 240, height: 170 }),
        table([["SMILES", near],
          ...facts.filter(([name]) => ofNear.includes(name))])),
    ] : []),
    make("h3", {}, "All columns"),
    table(facts),
  );
  byId("detail-title").textContent = "Molecule";
  byId("detail").showModal();
  byId("close").focus();
  try {
    const found = await explain(result, row);
    explained.replaceChildren(...Object.entries(found.targets).flatMap(([name, own]) => [
      make("h3", {}, `Contributions to ${own.unit}`),
      contributions(found, name),
    ]));
  } catch (error) {
    waiting.textContent = error.message;
  }
}

async function start() {
  try {
    const found = await (await send("/api/models")).json();
    [models, limits] = [found.models, found.limits];
    byId("model").replaceChildren(...models.map((each) => make("option", { value: each.name }, each.name)));
    describeModel();
  } catch (error) {
    say(error.message, true);
  }
}

byId("form").addEventListener("submit", predict);
byId("model").addEventListener("change", describeModel);
byId("more").addEventListener("click", () => { shown += SHOWN * 5; show(); });
byId("close").addEventListener("click", () => byId("detail").close());
byId("remove").addEventListener("click", () => {
  byId("file").value = "";
  byId("file").dispatchEvent(new Event("change"));
  say("File removed.");
  byId("smiles").focus();
});
byId("file").addEventListener("change", () => {
  const file = byId("file").files[0];
  byId("smiles").disabled = Boolean(file);
  byId("remove").hidden = !file;
  if (file && file.size > limits.megabytes * 1e6) {
    say(`The file is larger than ${limits.megabytes} MB.`, true);
  }
});
/* A file that misses the field would otherwise replace the page and its predictions. */
for (const kind of ["dragover", "drop"]) {
  document.addEventListener(kind, (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });
}
for (const kind of ["dragover", "dragleave", "drop"]) {
  byId("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    byId("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) {
      byId("file").files = event.dataTransfer.files;
      byId("file").dispatchEvent(new Event("change"));
    }
  });
}
start();
