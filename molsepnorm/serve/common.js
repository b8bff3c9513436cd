/* What both views of predictions need: elements, requests, tables and explanations. */

export const byId = (id) => document.getElementById(id);

/** Make an element. Texts become text nodes, so that no text of a user is read as HTML. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Make a button from its text or picture. */
export const button = (content, onclick, attributes = {}) =>
  make("button", { type: "button", class: "quiet", onclick, ...attributes }, content);

export function say(message, isError = false) {
  byId("status").textContent = message;
  byId("status").classList.toggle("error", isError);
}

/** Send a request, and return the response; a failed one raises the server's message. */
export async function send(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  if (response.ok) return response;
  let message = `The server answered with status ${response.status}.`;
  try {
    message = (await response.json()).error || message;
  } catch { /* not JSON */ }
  throw new Error(message);
}

/** Read a CSV as lists of cells (RFC 4180). */
export function readCsv(text) {
  const rows = [];
  let row = [], cell = "", quoted = false;
  for (let i = 0; i < text.length; i++) {
    const sign = text[i];
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (text[i + 1] === '"') { cell += '"'; i++; }
      else quoted = false;
    } else if (sign === '"') quoted = true;
    else if (sign === ",") { row.push(cell); cell = ""; }
    else if (sign === "\n") { row.push(cell.replace(/\r$/, "")); rows.push(row); row = []; cell = ""; }
    else cell += sign;
  }
  if (cell || row.length) { row.push(cell); rows.push(row); }
  return rows;
}

/** Three or four significant digits, without an exponent where it is easy to read. */
export function number(text) {
  const value = Number(text);
  if (text === "" || !Number.isFinite(value)) return text;
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(2)
    : String(Number(value.toPrecision(3)));
}

/** Write lists of cells as CSV. */
export function writeCsv(rows) {
  const quoted = (cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  return rows.map((row) => `${row.map(quoted).join(",")}\r\n`).join("");
}

/** Offer rows as a file. */
export function saveCsv(rows, name) {
  const address = URL.createObjectURL(new Blob([writeCsv(rows)], { type: "text/csv" }));
  make("a", { href: address, download: name }).click();
  URL.revokeObjectURL(address);
}

/** The address of a drawing, with some atoms marked. */
export function drawing(smiles, atoms = []) {
  const query = new URLSearchParams({ smiles });
  for (const atom of atoms) query.append("atoms", atom);
  return `/api/drawing?${query}`;
}

const signed = (value) => `${value > 0 ? "+" : ""}${number(String(value))}`;

export function table(rows) {
  return make("table", {}, make("tbody", {}, ...rows.map(([name, value]) =>
    make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value)))));
}

/** Ask for the contributions of the atoms of a row to some targets, or to all. */
export async function explain({ model, columns, smiles }, row, targets = null) {
  const cells = model.feature_columns.map((name) => [name, [row[columns.indexOf(name)]]]);
  const response = await send("/api/explain", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({
      smiles: row[smiles], model: model.name, targets,
      columns: cells.length ? Object.fromEntries(cells) : null,
    }),
  });
  return response.json();
}

/** The molecule coloured by the contributions to a target, a table of its fragments, and the same
 * for each further molecule of the row, whose column is given. */
export function contributions(found, name, column = null) {
  const own = found.targets[name];
  const parts = [
    ...Object.entries(own.inputs),
    ...found.fragments.brics
      .map((each) => [each.smiles, each.contributions[name]])
      .sort((one, other) => Math.abs(other[1]) - Math.abs(one[1])).slice(0, 8),
  ];
  return make("div", {},
    column && make("h3", {}, `${column}: ${found.smiles}`),
    make("div", { class: "pair" },
      make("img", {
        src: URL.createObjectURL(new Blob([own.svg], { type: "image/svg+xml" })),
        alt: `atoms coloured by their contribution to ${own.unit}`, width: 280, height: 310,
      }),
      table([
        ...(column ? [["contribution", signed(own.value)]]
          : [["prediction", number(own.value)], ["without atoms", number(own.base)]]),
        ...parts.map(([part, value]) => [part, signed(value)]),
      ])),
    ...Object.entries(found.further ?? {}).flatMap(([other, each]) =>
      each.map((molecule) => contributions(molecule, name, other))));
}
