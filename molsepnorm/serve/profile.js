/* The profile of a molecule: all targets by category, each with its judgement and explanation. */

import {
  button, byId, contributions, drawing, explain, make, number, send, table,
} from "/common.js";
import { MARKS, byCategory, light, limitText } from "/targets.js";

/** Make the profile of a row, with a button that goes back if there is somewhere to go. */
export function profile(result, views, row, back = null) {
  const { smiles, name, model } = result;
  const picture = make("img", {
    class: "structure", src: drawing(row[smiles]), alt: `structure of ${row[smiles]}`,
    width: 336, height: 238,
  });
  const alerts = make("div", {}, make("p", { role: "status" }, "Looking for alerts …"));
  listAlerts(alerts, picture, row[smiles]);
  const kinds = views.map((view) => view.judged(row));
  const counts = Object.keys(MARKS).map((kind) =>
    light(kind, `${kinds.filter((each) => each === kind).length} ${kind}`));
  return make("article", { class: "profile" },
    back && button("← Back to the table", back),
    make("div", { class: "head" }, picture, make("div", {},
      make("h3", { tabindex: "-1" }, (name >= 0 && row[name]) || "Molecule"),
      make("code", {}, row[smiles]),
      make("p", { class: "counts" }, ...counts),
      nearness(result, row),
      alerts)),
    make("p", { class: "hint" },
      "Choose a target to see the atoms that matter for it, and what it means.",
      model.reference ? ` Percentiles are those among ${model.reference}.` : ""),
    make("div", { class: "categories" }, ...byCategory(views).map(([category, own]) =>
      make("table", {},
        make("caption", {}, category),
        make("thead", {}, make("tr", {}, ...["target", "value", "judgement", "percentile"].map(
          (each) => make("th", { scope: "col" }, each)))),
        make("tbody", {}, ...own.map((view) => line(result, view, row)))))));
}

const small = (text) => make("span", { class: "range" }, text);

/** The row of a target. */
function line(result, view, row) {
  const [share, range] = [view.percentile(row), view.range(row)];
  const open = button(view.title, () => openTarget(result, view, row), { class: "target" });
  return make("tr", {},
    make("th", { scope: "row" }, open, view.isBinary ? null : small(view.unit)),
    make("td", {}, view.text(row), range && small(range)),
    make("td", {}, light(view.judged(row))),
    make("td", {}, ...(share === null ? [] : [
      String(Math.round(share)),
      make("meter", { min: 0, max: 100, value: share, "aria-hidden": "true" }),
    ])));
}

/** How similar the molecule is to the training molecules, if they were compared. */
function nearness({ columns, added }, row) {
  const at = (name) => row[columns.indexOf(name, added)] ?? "";
  if (at("similarity") === "") return null;
  const isInside = at("in_domain") === "yes";
  const meaning = isInside ? "The errors are known for such molecules."
    : "It is unlike all validation molecules, so the errors are not known.";
  return make("p", { class: isInside ? "in" : "out" },
    `Similarity to the nearest training molecule: ${number(at("similarity"))}. ${meaning}`);
}

/** List the structural alerts of a molecule. A click on one marks its atoms in the picture. */
async function listAlerts(place, picture, smiles) {
  try {
    const response = await send(`/api/alerts?${new URLSearchParams({ smiles })}`);
    const { alerts } = await response.json();
    const chips = alerts.map(({ catalog, description, atoms }) =>
      button(`${catalog}: ${description}`, (event) => {
        const isMarked = event.currentTarget.getAttribute("aria-pressed") === "true";
        for (const each of chips) each.setAttribute("aria-pressed", "false");
        event.currentTarget.setAttribute("aria-pressed", String(!isMarked));
        picture.src = drawing(smiles, isMarked ? [] : atoms);
      }, { class: "chip", "aria-pressed": "false" }));
    place.replaceChildren(...(chips.length ? [
      make("h4", {}, "Structural alerts"),
      make("div", { class: "chips" }, ...chips),
      make("p", { class: "hint" },
        "Alerts are not predictions: filters warn of these substructures, which many drugs have."),
    ] : [make("p", { class: "hint" }, "No structural alerts (PAINS, Brenk, NIH).")]));
  } catch (error) {
    place.replaceChildren(make("p", { class: "hint" }, `Structural alerts: ${error.message}`));
  }
}

/** The nearest molecule that was measured for a target, if molecules were compared. */
function nearest({ columns, added }, { name, expected, label }, row) {
  const at = (column) => row[columns.indexOf(column, added)] ?? "";
  const near = at(`${name}_nearest_smiles`) || at("nearest_smiles");
  if (!near) return [];
  return [
    make("h3", {}, "Nearest measured molecule"),
    make("div", { class: "pair" },
      make("img", { src: drawing(near), alt: `structure of ${near}`, width: 240, height: 170 }),
      table([
        ["SMILES", near],
        ["similarity", number(at(`${name}_similarity`) || at("similarity"))],
        ["measured", label(at(`${name}_nearest`))],
        ["error of such molecules", expected(row)],
      ].filter(([, text]) => text !== null))),
  ];
}

/** Show what a target means, the atoms that matter, and the nearest measured molecule. */
async function openTarget(result, view, row) {
  const { card, name } = view;
  const share = view.percentile(row);
  const waiting = make("p", { role: "status" }, "Computing the contributions of the atoms …");
  const explained = make("div", {}, waiting);
  const facts = [
    [`at ${Math.round(100 * result.level)} % confidence`, view.range(row)],
    ["good", limitText(view, view.good)],
    ["tolerable", limitText(view, view.tolerable)],
    ["percentile", share === null ? null : `${Math.round(share)} among ${result.model.reference}`],
  ];
  byId("detail-title").textContent = view.title;
  byId("detail-body").replaceChildren(
    make("p", { class: "value" },
      make("strong", {}, view.text(row)), ` ${view.unit} `, light(view.judged(row))),
    table(facts.filter(([, text]) => text !== null)),
    card ? make("p", { class: "caution" }, card.caution) : "",
    make("h3", {}, "Atoms that matter"),
    explained,
    ...nearest(result, view, row),
    ...(card ? [make("h3", {}, "Where it comes from"), table([
      ["trained on", `${card.molecules.toLocaleString("en")} molecules`],
      ["source", card.source],
      ["licence", card.licence],
    ])] : []),
  );
  byId("detail").showModal();
  byId("close").focus();
  try {
    explained.replaceChildren(contributions(await explain(result, row, [name]), name));
  } catch (error) {
    waiting.textContent = error.message;
  }
}
