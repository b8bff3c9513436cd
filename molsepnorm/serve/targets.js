/* The targets of a model, with what its card says about them, and how their values are judged. */

import { make, number } from "/common.js";

/** Marks of the judgements, so that they do not depend on colours alone. */
export const MARKS = { good: "●", tolerable: "◆", concern: "▲" };

const NO_YES = { 0: "no", 1: "yes" }; // classes without a name
const UNLIMITED = [null, null];
const UNKNOWN = { category: "other", unit: "", good: UNLIMITED, tolerable: UNLIMITED };

/** Return a view of each target: the words of the card, and functions of a row of the result. */
export function viewsOf({ model, columns, added }) {
  const at = (name) => columns.indexOf(name, added);
  const cell = (row, column) => (column < 0 ? "" : row[column]);
  return model.targets.map(({ name, learned_name: learned, kind, classes }) => {
    const card = model.end_points[name];
    const about = { ...UNKNOWN, title: name, ...card };
    const isBinary = kind === "binary";
    const [own, share] = [at(`${name}_pred`), at(`${name}_percentile`)];
    const [low, high] = [at(`${name}_low`), at(`${name}_high`)];
    const [set, calibrated] = [at(`${name}_set`), at(`${name}_calibrated`)];
    const error = at(`${learned}_expected_error`);
    const value = (row) => (row[own] === "" ? NaN : Number(row[own]));
    const named = (label) => (classes.length ? label : NO_YES[label] ?? label);
    return {
      ...about, card, name, isBinary,
      number: (row) => (isBinary ? 100 : 1) * value(row), // as it is shown
      text: (row) => (isBinary ? percent : kind === "multiclass" ? String : number)(row[own]),
      judged: (row) => (kind === "multiclass" ? null : judged(about, value(row))),
      percentile: (row) => (cell(row, share) === "" ? null : Number(row[share])),
      range: (row) => {
        if (cell(row, low) !== "") return `${number(row[low])} to ${number(row[high])}`;
        if (cell(row, calibrated) === "") return null;
        const possible = row[set].split("|").map(named).join(" or ");
        return `calibrated ${percent(row[calibrated])}; ${possible}`;
      },
      expected: (row) => {
        if (cell(row, error) === "") return null;
        return isBinary ? `${percent(row[error])} are classified wrongly` : `${number(row[error])} ${about.unit}`;
      },
      label: (value) => (kind === "regression" ? `${number(value)} ${about.unit}` : named(value)),
    };
  });
}

/** Views that summarise all targets: the number of concerns, and the nearest training molecule. */
export function summaries({ columns, added }, views) {
  const concerns = (row) => views.filter((view) => view.judged(row) === "concern").length;
  const similarity = columns.indexOf("similarity", added);
  const common = { ...UNKNOWN, category: "summary", judged: () => null };
  const found = [{
    ...common, name: "concerns", title: "Number of targets that are a concern",
    number: concerns, text: (row) => String(concerns(row)),
  }];
  if (similarity >= 0) {
    found.push({
      ...common, name: "similarity", title: "Similarity to the nearest training molecule",
      number: (row) => Number(row[similarity]), text: (row) => number(row[similarity]),
    });
  }
  return found;
}

/** Return the views of each category, in the order in which the categories occur. */
export function byCategory(views) {
  const groups = new Map();
  for (const view of views) groups.set(view.category, [...(groups.get(view.category) ?? []), view]);
  return [...groups];
}

const percent = (share) => (share === "" ? "" : `${Math.round(100 * Number(share))}\u00a0%`);
const isLimited = ([low, high]) => low !== null || high !== null;

export const isWithin = (value, [low, high]) =>
  (low === null || value >= low) && (high === null || value <= high);

function judged({ good, tolerable }, value) {
  if (Number.isNaN(value) || !(isLimited(good) || isLimited(tolerable))) return null;
  if (isWithin(value, good)) return "good";
  return isWithin(value, tolerable) ? "tolerable" : "concern";
}

/** A limit of a target as text; null if there is none. */
export function limitText({ isBinary }, limits) {
  if (!isLimited(limits)) return null;
  const text = isBinary ? percent : number;
  const [low, high] = limits.map((each) => each !== null && text(each));
  if (low && high) return `${low} to ${high}`;
  return low ? `${low} or more` : `${high} or less`;
}

/** A judgement as a mark and a text, by default its name. */
export function light(kind, text = kind) {
  if (!kind) return make("span", { class: "light" }, "not judged");
  return make("span", { class: `light ${kind}` },
    make("span", { "aria-hidden": "true" }, MARKS[kind]), ` ${text}`);
}
