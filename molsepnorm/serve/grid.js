/* Several molecules: a grid with a column per target, which can be sorted, filtered and reduced. */

import { button, drawing, make, saveCsv, say } from "/common.js";
import { profile } from "/profile.js";
import { MARKS, byCategory, isWithin, light, summaries } from "/targets.js";

const SHOWN = 100; // rows that are shown at a time

/** Show the grid of a result in a place of the page. */
export function showGrid(place, result, targets) {
  const { rows, columns, smiles, name, error } = result;
  const views = [...summaries(result, targets), ...targets];
  const off = new Set(); // names of the columns that are switched off
  const limits = new Map(); // smallest and largest value by name of a column, as text
  let order = null; // the view that rows are sorted by, and the way
  let shown = SHOWN;
  let isFiltering = false;

  const head = make("thead");
  const body = make("tbody");
  const count = make("p", { role: "status", class: "count" });
  const more = button("Show more", () => { shown += SHOWN * 5; showRows(); });
  const filter = button("Filter by value", toggleFilters, { "aria-expanded": "false" });
  const clear = button("Clear filters", () => { limits.clear(); showAll(); });
  const save = button("Download shown rows", () => saveCsv([columns, ...chosen()], "shown.csv"));
  const grid = make("div", {},
    make("div", { class: "tools" }, menu(), filter, save, clear),
    count,
    make("p", { class: "hint legend" },
      ...Object.keys(MARKS).flatMap((kind) => [light(kind), " "]),
      "Choose a molecule to see its profile."),
    make("div", { class: "grid", role: "region", tabindex: "0", "aria-label": "Predictions" },
      make("table", {}, head, body)),
    more);
  const single = make("div");

  function showAll() {
    showHead();
    showRows();
  }

  const groups = () => byCategory(views.filter((view) => !off.has(view.name)));
  const visible = () => groups().flatMap(([, own]) => own);

  /** The rows that pass the filters, in their order; rows without a prediction come last. */
  function chosen() {
    const filters = visible().flatMap((view) => {
      const [low, high] = (limits.get(view.name) ?? ["", ""]).map(
        (text) => (text === "" ? null : Number(text)));
      return low === null && high === null ? [] : [{ view, ends: [low, high] }];
    });
    const kept = rows.filter((row) => filters.every(
      ({ view, ends }) => !row[error] && isWithin(view.number(row), ends)));
    if (!order) return kept;
    const { view, way } = order;
    const key = (row) => (Number.isNaN(view.number(row)) ? view.text(row) : view.number(row));
    const keys = new Map(kept.map((row) => [row, key(row)]));
    const sign = way === "ascending" ? 1 : -1;
    return kept.sort((a, b) => {
      if (Boolean(a[error]) !== Boolean(b[error])) return a[error] ? 1 : -1;
      const [x, y] = [keys.get(a), keys.get(b)];
      return x === y ? 0 : sign * (x < y ? -1 : 1);
    });
  }

  /** Sort by a column; null restores the order of the table. */
  function sort(view) {
    const isAgain = view && order?.view === view && order.way === "descending";
    order = view && { view, way: isAgain ? "ascending" : "descending" };
    showAll();
    const headings = [...head.querySelectorAll("button")];
    headings.find((each) => each.dataset.name === (view?.name ?? ""))?.focus();
    say(view ? `Sorted by ${view.title}, ${order.way}.` : "In the order of the table.");
  }

  function toggleFilters() {
    isFiltering = !isFiltering;
    filter.setAttribute("aria-expanded", String(isFiltering));
    showHead();
    head.querySelector("input")?.focus();
  }

  function showHead() {
    const first = button("molecule", () => sort(null),
      { class: null, "data-name": "", title: "the order of the table" });
    head.replaceChildren(
      make("tr", {},
        make("th", { scope: "col", rowspan: isFiltering ? 3 : 2 }, first),
        ...groups().map(([category, own]) =>
          make("th", { scope: "colgroup", colspan: own.length }, category))),
      make("tr", {}, ...visible().map(heading)),
      isFiltering ? make("tr", { class: "filters" }, ...visible().map((view) =>
        make("td", {}, field(view, 0), field(view, 1)))) : "");
  }

  function heading(view) {
    const title = view.unit ? `${view.title}, ${view.unit}` : view.title;
    return make("th", { scope: "col", "aria-sort": order?.view === view ? order.way : "none" },
      button(view.name, () => sort(view), { class: null, "data-name": view.name, title }));
  }

  /** The field of the smallest (0) or largest (1) value of a column. */
  function field(view, end) {
    const own = () => [...(limits.get(view.name) ?? ["", ""])];
    return make("input", {
      type: "number", step: "any", value: own()[end],
      placeholder: ["min", "max"][end] + (view.isBinary ? " %" : ""),
      "aria-label": `${["smallest", "largest"][end]} ${view.title}`,
      oninput: (event) => {
        limits.set(view.name, own().with(end, event.currentTarget.value));
        showRows();
      },
    });
  }

  function showRows() {
    const kept = chosen();
    body.replaceChildren(...kept.slice(0, shown).map(line));
    const outside = rows.length - kept.length;
    const [all, passed, hidden] = [rows.length, kept.length, outside].map(
      (each) => each.toLocaleString("en"));
    const text = `${passed} of ${all} molecules; ${hidden} outside the filters.`;
    count.textContent = outside ? text : "";
    clear.hidden = !outside;
    more.hidden = kept.length <= shown;
  }

  function line(row) {
    const label = (name >= 0 && row[name]) || row[smiles];
    const title = make("span", { class: "smiles", title: row[smiles] }, label);
    if (row[error]) {
      return make("tr", {}, make("th", { scope: "row" }, title),
        make("td", { colspan: visible().length }, make("span", { class: "error" }, row[error])));
    }
    const picture = make("img", { src: drawing(row[smiles]), alt: "", loading: "lazy" });
    const open = button(picture, (event) => openProfile(row, event.currentTarget),
      { class: "picture", "aria-label": `Profile of ${label}` });
    return make("tr", {}, make("th", { scope: "row" }, open, title), ...visible().map((view) => {
      const kind = view.judged(row);
      return make("td", { class: kind }, view.text(row), ...(kind ? [
        make("span", { class: "mark", "aria-hidden": "true" }, MARKS[kind]),
        make("span", { class: "read" }, ` ${kind}`),
      ] : []));
    }));
  }

  /** Show the profile of a row in place of the grid, until the reader goes back. */
  function openProfile(row, from) {
    single.replaceChildren(profile(result, targets, row, () => { swap(false); from.focus(); }));
    swap(true);
    single.querySelector("h3").focus();
  }

  function swap(isSingle) {
    document.body.classList.toggle("wide", !isSingle);
    [grid.hidden, single.hidden] = [isSingle, !isSingle];
  }

  /** Checkboxes that switch targets on and off, one by one or by category. */
  function menu() {
    return make("details", { class: "menu" }, make("summary", {}, "Columns"),
      ...byCategory(targets).map(([category, own]) => {
        const box = () => make("input", { type: "checkbox", checked: "" });
        const [every, boxes] = [box(), own.map(box)];
        const change = () => {
          own.forEach((view, i) => off[boxes[i].checked ? "delete" : "add"](view.name));
          every.checked = boxes.some((each) => each.checked);
          every.indeterminate = every.checked && !boxes.every((each) => each.checked);
          showAll();
        };
        for (const each of boxes) each.addEventListener("change", change);
        every.addEventListener("change", () => {
          for (const each of boxes) each.checked = every.checked;
          change();
        });
        return make("fieldset", {},
          make("legend", {}, make("label", {}, every, category)),
          ...own.map((view, i) => make("label", {}, boxes[i], view.title)));
      }));
  }

  place.replaceChildren(grid, single);
  swap(false);
  showAll();
}
