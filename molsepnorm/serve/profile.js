/* Predictions of a model whose card says what its targets are: the profile of a molecule with all
   targets by category, and a grid of several molecules with a column per target. */

import {
  byId, contributions, drawing, explain, make, number, saveCsv, say, send, table,
} from "/common.js";

const SHOWN = 100; // rows that are shown at a time
const MARKS = { good: "●", tolerable: "◆", concern: "▲" };
const WORDS = { 0: "no", 1: "yes" }; // classes without a name

/** Show a result: the profile of one molecule, or the grid of several. */
export function showProfiles(result) {
  const views = viewsOf(result);
  const { rows, error } = result;
  if (rows.length === 1 && !rows[0][error]) {
    document.body.classList.remove("wide");
    byId("profile").replaceChildren(profile(result, views, rows[0]));
  } else {
    showGrid(result, views);
  }
}

// --- targets ---

/** What the page shows of each target: the card's words, and functions of a row. */
function viewsOf(result) {
  const { model, columns, added } = result;
  const at = (name) => columns.indexOf(name, added);
  const cell = (row, column) => (column < 0 ? "" : row[column]);
  const unknown = { category: "other", unit: "", good: [null, null], tolerable: [null, null] };
  return model.targets.map((target) => {
    const { name, kind } = target;
    const about = model.end_points[name];
    const isBinary = kind === "binary";
    const own = at(`${name}_pred`);
    const [low, high] = [at(`${name}_low`), at(`${name}_high`)];
    const [set, calibrated] = [at(`${name}_set`), at(`${name}_calibrated`)];
    const value = (row) => (row[own] === "" ? NaN : Number(row[own]));
    return {
      ...unknown, title: name, ...about, about, name, kind, classes: target.classes,
      number: (row) => value(row) * (isBinary ? 100 : 1),
      text: (row) => (isBinary ? percent(row[own]) : number(row[own])),
      judged: (row) => (kind === "multiclass" ? null : judged({ ...unknown, ...about }, value(row))),
      percentile: (row) => cell(row, at(`${name}_percentile`)),
      range: (row) => {
        if (cell(row, low)) return `${number(row[low])} to ${number(row[high])}`;
        if (!cell(row, calibrated)) return null;
        const names = row[set].split("|").map((each) => (target.classes.length ? each : WORDS[each] ?? each));
        return `calibrated ${percent(row[calibrated])}; ${names.join(" or ")}`;
      },
    };
  });
}

const percent = (text) => (text === "" ? "" : `${Math.round(100 * Number(text))}\u00a0%`);
const isLimited = ([low, high]) => low !== null || high !== null;
const isWithin = (value, [low, high]) =>
  (low === null || value >= low) && (high === null || value <= high);

/** How a value is judged; null without limits. */
function judged({ good, tolerable }, value) {
  if (Number.isNaN(value) || !(isLimited(good) || isLimited(tolerable))) return null;
  if (isWithin(value, good)) return "good";
  return isWithin(value, tolerable) ? "tolerable" : "concern";
}

/** The views of each category, in the order in which the categories occur. */
function byCategory(views) {
  const groups = new Map();
  for (const view of views) groups.set(view.category, [...(groups.get(view.category) ?? []), view]);
  return [...groups];
}

/** A limit as a reader says it; probabilities are in percent. */
function limitText(view, [low, high]) {
  const text = (value) => (view.kind === "binary" ? percent(value) : number(value));
  if (low !== null && high !== null) return `${text(low)} to ${text(high)}`;
  return low !== null ? `${text(low)} or more` : `${text(high)} or less`;
}

/** The judgement as a mark and a word. */
function light(kind) {
  if (!kind) return make("span", { class: "light" }, "not judged");
  return make("span", { class: `light ${kind}` },
    make("span", { "aria-hidden": "true" }, MARKS[kind]), ` ${kind}`);
}

const small = (text) => make("span", { class: "range" }, text);

// --- the profile of a molecule ---

/** The profile of a row, with a button that goes back if there is somewhere to go. */
function profile(result, views, row, back = null) {
  const { smiles, name, model } = result;
  const picture = make("img", {
    class: "structure", src: drawing(row[smiles]), alt: `structure of ${row[smiles]}`, width: 336, height: 238,
  });
  const alerts = make("div", { class: "alerts" }, make("p", { role: "status" }, "Looking for alerts …"));
  showAlerts(alerts, picture, row[smiles]);
  const kinds = views.map((view) => view.judged(row));
  return make("article", { class: "profile" },
    back && make("button", { type: "button", class: "quiet", onclick: back }, "← Back to the table"),
    make("div", { class: "head" }, picture, make("div", {},
      make("h3", { tabindex: "-1" }, (name >= 0 && row[name]) || "Molecule"),
      make("code", {}, row[smiles]),
      make("p", { class: "counts" }, ...Object.keys(MARKS).flatMap((kind) => [
        make("span", { class: `light ${kind}` }, make("span", { "aria-hidden": "true" }, MARKS[kind]),
          ` ${kinds.filter((each) => each === kind).length} ${kind}`), " "])),
      nearness(result, row),
      alerts)),
    make("p", { class: "hint" }, "Choose a target to see the atoms that matter for it, and what it means.",
      model.reference ? ` Percentiles are those among ${model.reference}.` : ""),
    make("div", { class: "categories" }, ...byCategory(views).map(([category, own]) =>
      make("table", {}, make("caption", {}, category),
        make("thead", {}, make("tr", {}, ...["target", "value", "judgement", "percentile"].map(
          (each) => make("th", { scope: "col" }, each)))),
        make("tbody", {}, ...own.map((view) => targetRow(result, view, row)))))));
}

function targetRow(result, view, row) {
  const share = view.percentile(row);
  const range = view.range(row);
  return make("tr", {},
    make("th", { scope: "row" },
      make("button", { type: "button", class: "target", onclick: () => openTarget(result, view, row) }, view.title),
      view.kind === "binary" ? null : small(view.unit)),
    make("td", { class: "number" }, view.text(row), range && small(range)),
    make("td", {}, light(view.judged(row))),
    make("td", { class: "number" }, share === "" ? "" : String(Math.round(share)), share === "" ? null
      : make("meter", { min: 0, max: 100, value: share, "aria-hidden": "true" })));
}

/** How similar the molecule is to the training molecules, if they were compared. */
function nearness({ columns, added }, row) {
  const [similarity, inside] = ["similarity", "in_domain"].map((each) => columns.indexOf(each, added));
  if (similarity < 0 || row[similarity] === "") return null;
  const isInside = row[inside] === "yes";
  return make("p", { class: isInside ? "in" : "out" },
    `Similarity to the nearest training molecule: ${number(row[similarity])}. ${
      isInside ? "The errors are known for such molecules." : "It is unlike all validation molecules: do not rely on the values."}`);
}

/** List the structural alerts. A click on one marks its atoms in the picture. */
async function showAlerts(place, picture, smiles) {
  const parts = [];
  try {
    const query = new URLSearchParams({ smiles });
    const { alerts } = await (await send(`/api/alerts?${query}`)).json();
    const buttons = alerts.map(({ catalog, description, atoms }) => make("button", {
      type: "button", class: "chip", "aria-pressed": "false", onclick: (event) => {
        const isOn = event.currentTarget.getAttribute("aria-pressed") === "true";
        for (const each of buttons) each.setAttribute("aria-pressed", String(each === event.currentTarget && !isOn));
        picture.src = drawing(smiles, isOn ? [] : atoms);
      },
    }, `${catalog}: ${description}`));
    parts.push(...buttons.flatMap((each) => [each, " "]));
    parts.push(make("p", { class: "hint" }, buttons.length
      ? "Alerts are not predictions: filters warn of these substructures, which many drugs have, too."
      : "No structural alerts (PAINS, Brenk, NIH)."));
    if (buttons.length) parts.unshift(make("h4", {}, "Structural alerts"));
  } catch (error) {
    parts.push(make("p", { class: "hint" }, `Structural alerts: ${error.message}`));
  }
  place.replaceChildren(...parts);
}

/** Show a target of a molecule: the atoms that matter, the nearest measured molecule, its sources. */
async function openTarget(result, view, row) {
  const { about, name } = view;
  const waiting = make("p", { role: "status" }, "Computing the contributions of the atoms …");
  const explained = make("div", {}, waiting);
  const range = view.range(row);
  const share = view.percentile(row);
  byId("detail-title").textContent = view.title;
  byId("detail-body").replaceChildren(
    make("p", { class: "value" }, make("strong", {}, view.text(row)), ` ${view.unit} `, light(view.judged(row))),
    table([
      ...(range ? [[`at ${Math.round(100 * result.level)} % confidence`, range]] : []),
      ...(isLimited(view.good) ? [["good", limitText(view, view.good)]] : []),
      ...(isLimited(view.tolerable) ? [["tolerable", limitText(view, view.tolerable)]] : []),
      ...(share !== "" ? [["percentile", `${Math.round(share)} among ${result.model.reference}`]] : []),
    ]),
    ...(about ? [make("p", { class: "caution" }, about.caution)] : []),
    make("h3", {}, "Atoms that matter"),
    explained,
    ...(about ? [make("h3", {}, "Where it comes from"), table([
      ["trained on", `${about.molecules.toLocaleString("en")} molecules`],
      ["source", about.source], ["licence", about.licence],
    ])] : []),
  );
  byId("detail").showModal();
  byId("close").focus();
  try {
    const found = await explain(result, row, [name], result.domain);
    const near = found.nearest[name];
    explained.replaceChildren(contributions(found, name), ...(near ? [
      make("h3", {}, "Nearest measured molecule"),
      make("div", { class: "pair" },
        make("img", { src: drawing(near.smiles), alt: `structure of ${near.smiles}`, width: 240, height: 170 }),
        table([["SMILES", near.smiles], ["similarity", number(near.similarity)], ["measured", labelText(view, near.label)]])),
    ] : []));
  } catch (error) {
    waiting.textContent = error.message;
  }
}

function labelText(view, label) {
  if (view.kind === "binary" && !view.classes.length) return WORDS[label];
  return view.kind === "regression" ? `${number(label)} ${view.unit}` : label;
}

// --- the grid of several molecules ---

function showGrid(result, targets) {
  const views = [...summaries(result, targets), ...targets];
  const off = new Set(); // names of the targets that are switched off
  const filters = new Map(); // smallest and largest value, by name
  let order = null; // the view that rows are sorted by, and the way
  let shown = SHOWN;
  let isFiltering = false;

  const head = make("thead");
  const body = make("tbody");
  const count = make("p", { role: "status", class: "count" });
  const more = make("button", { type: "button", class: "quiet", onclick: () => { shown += SHOWN * 5; showRows(); } }, "Show more");
  const clear = make("button", { type: "button", class: "quiet", onclick: () => { filters.clear(); showHead(); showRows(); } }, "Clear filters");
  const filtering = make("button", { type: "button", class: "quiet", "aria-expanded": "false", onclick: () => {
    isFiltering = !isFiltering;
    filtering.setAttribute("aria-expanded", String(isFiltering));
    showHead();
    if (isFiltering) head.querySelector("input")?.focus();
  } }, "Filter by value");
  const save = make("button", { type: "button", class: "quiet", onclick: () =>
    saveCsv([result.columns, ...chosen()], "shown.csv") }, "Download shown rows");
  const place = make("div", { class: "grid", role: "region", tabindex: "0", "aria-label": "Predictions" },
    make("table", {}, head, body));
  const grid = make("div", {},
    make("div", { class: "tools" }, menu(), filtering, save, clear), count,
    make("p", { class: "hint legend" }, ...Object.keys(MARKS).flatMap((kind) => [light(kind), " "]),
      "Choose a molecule to see its profile."),
    place, more);
  const single = make("div", { hidden: "" });

  const visible = () => views.filter((view) => !off.has(view.name));

  /** The rows that pass the filters, in their order; rows without a prediction come last. */
  function chosen() {
    const { rows, error } = result;
    const kept = rows.filter((row) => views.every((view) => {
      const { min = "", max = "" } = filters.get(view.name) ?? {};
      if (min === "" && max === "") return true;
      const limits = [min === "" ? null : Number(min), max === "" ? null : Number(max)];
      return !row[error] && isWithin(view.number(row), limits);
    }));
    if (!order) return kept;
    const sign = order.way === "ascending" ? 1 : -1;
    const key = (row) => (Number.isNaN(order.view.number(row)) ? order.view.text(row) : order.view.number(row));
    return kept.sort((a, b) => {
      if (Boolean(a[error]) !== Boolean(b[error])) return a[error] ? 1 : -1;
      const [x, y] = [key(a), key(b)];
      return x === y ? 0 : sign * (x < y ? -1 : 1);
    });
  }

  function sort(view) {
    const isSame = order?.view === view;
    order = view && { view, way: isSame && order.way === "descending" ? "ascending" : "descending" };
    showHead();
    showRows();
    head.querySelector(`button[data-name="${CSS.escape(view?.name ?? "")}"]`)?.focus();
    say(view ? `Sorted by ${view.title}, ${order.way}.` : "In the order of the table.");
  }

  function showHead() {
    const heading = (view) => make("th", { scope: "col", "aria-sort": order?.view === view ? order.way : "none" },
      make("button", { type: "button", "data-name": view.name, title: `${view.title}${view.unit && `, ${view.unit}`}`, onclick: () => sort(view) }, view.name));
    const field = (view, end, word) => make("input", {
      type: "number", step: "any", placeholder: view.kind === "binary" ? `${end} %` : end, "aria-label": `${word} ${view.title}`,
      value: filters.get(view.name)?.[end] ?? "", oninput: (event) => {
        filters.set(view.name, { ...filters.get(view.name), [end]: event.currentTarget.value });
        showRows();
      },
    });
    const groups = byCategory(visible());
    const columns = groups.flatMap(([, own]) => own);
    head.replaceChildren(
      make("tr", {},
        make("th", { scope: "col", rowspan: isFiltering ? 3 : 2 },
          make("button", { type: "button", "data-name": "", title: "the order of the table", onclick: () => sort(null) }, "molecule")),
        ...groups.map(([category, own]) => make("th", { scope: "colgroup", colspan: own.length }, category))),
      make("tr", {}, ...columns.map(heading)),
      ...(isFiltering ? [make("tr", { class: "filters" }, ...columns.map((view) =>
        make("td", {}, field(view, "min", "smallest"), field(view, "max", "largest"))))] : []));
  }

  function showRows() {
    const rows = chosen();
    const columns = byCategory(visible()).flatMap(([, own]) => own);
    body.replaceChildren(...rows.slice(0, shown).map((row) => line(row, columns)));
    const hidden = result.rows.length - rows.length;
    count.textContent = hidden ? `${rows.length.toLocaleString("en")} of ${result.rows.length.toLocaleString("en")} molecules; ${hidden.toLocaleString("en")} outside the filters.` : "";
    clear.hidden = !hidden;
    more.hidden = rows.length <= shown;
  }

  function line(row, columns) {
    const { smiles, name, error } = result;
    const label = (name >= 0 && row[name]) || row[smiles];
    const picture = row[error] ? null : make("button",
      { type: "button", class: "picture", "aria-label": `Profile of ${label}`, onclick: (event) => open(row, event.currentTarget) },
      make("img", { src: drawing(row[smiles]), alt: "", loading: "lazy" }));
    const first = make("th", { scope: "row" }, picture, make("span", { class: "smiles", title: row[smiles] }, label));
    if (row[error]) {
      return make("tr", {}, first, make("td", { colspan: columns.length }, make("span", { class: "error" }, row[error])));
    }
    return make("tr", {}, first, ...columns.map((view) => {
      const kind = view.judged(row);
      return make("td", { class: `number ${kind ?? ""}` }, view.text(row), ...(kind ? [
        make("span", { class: "mark", "aria-hidden": "true" }, MARKS[kind]), make("span", { class: "read" }, ` ${kind}`),
      ] : []));
    }));
  }

  /** Show the profile of a row in place of the grid, until the reader goes back. */
  function open(row, from) {
    const swap = (isSingle) => {
      document.body.classList.toggle("wide", !isSingle);
      [grid.hidden, single.hidden] = [isSingle, !isSingle];
    };
    single.replaceChildren(profile(result, targets, row, () => { swap(false); from.focus(); }));
    swap(true);
    single.querySelector("h3").focus();
  }

  /** Checkboxes that switch targets on and off, one by one or by category. */
  function menu() {
    const redraw = () => { showHead(); showRows(); };
    return make("details", { class: "menu" }, make("summary", {}, "Columns"), ...byCategory(targets).map(([category, own]) => {
      const boxes = own.map((view) => make("input", { type: "checkbox", checked: "", onchange: (event) => {
        off[event.currentTarget.checked ? "delete" : "add"](view.name);
        every.checked = own.some((each) => !off.has(each.name));
        every.indeterminate = every.checked && own.some((each) => off.has(each.name));
        redraw();
      } }));
      const every = make("input", { type: "checkbox", checked: "", onchange: () => {
        for (const box of boxes) box.checked = every.checked;
        for (const view of own) off[every.checked ? "delete" : "add"](view.name);
        redraw();
      } });
      return make("fieldset", {}, make("legend", {}, make("label", {}, every, ` ${category}`)),
        ...own.map((view, i) => make("label", {}, boxes[i], ` ${view.title}`)));
    }));
  }

  document.body.classList.add("wide");
  byId("profile").replaceChildren(grid, single);
  showHead();
  showRows();
}

/** Columns about all targets together: the number of concerns, and the similarity to the training. */
function summaries({ columns, added }, targets) {
  const concerns = (row) => targets.filter((view) => view.judged(row) === "concern").length;
  const similarity = columns.indexOf("similarity", added);
  const common = { category: "summary", unit: "", kind: "regression", judged: () => null };
  return [
    { ...common, name: "concerns", title: "Number of targets that are a concern", number: concerns, text: (row) => String(concerns(row)) },
    ...(similarity < 0 ? [] : [{
      ...common, name: "similarity", title: "Similarity to the nearest training molecule",
      number: (row) => Number(row[similarity]), text: (row) => number(row[similarity]),
    }]),
  ];
}
